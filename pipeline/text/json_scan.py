"""Find the end of a JSON object or array in text that arrives in pieces, in spite of the drift of models (S7).

In: pieces of text from the opening bracket on. Out: the end, or the first character that no narrow repair can explain; on the way the
repairs that a strict parser will need, and for whoever listens the keys and values of the outer levels. Promise: string-aware (brackets,
fences and markup inside strings mean nothing), every character is scanned once, nothing is parsed here.

The heart is when a quote closes a string: only if structure follows it. Behind a key that is `:`, behind a value a closing bracket, a fence, or a
comma with another member behind it; a value before a colon can only be a key that an earlier slip hid. In strict JSON every closing quote is such a one and no other exists, so the strict reading is never changed; a
quote that does not close is an unescaped inner quote. Inner quotes come in pairs; an odd one followed by more strings could be read in more than
one way, and is refused.

With `strict` the same scan writes the value as strict JSON into `out`, every repair done: the batch repair and the streaming of
arguments (E4) share it.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Protocol

from pipeline.verdicts import Repair


class Listener(Protocol):
    """Hears what stands at the levels that `JsonScanner.listen_to` asked for; the outermost container has depth 1."""

    def key(self, depth: int, text: str) -> None:
        """A key of an object at this depth, as JSON string content."""

    def begin(self, depth: int, char: str) -> None:
        """A member of a container at this depth begins: `{`, `[`, `"`, or `-` for a number or literal."""

    def piece(self, depth: int, text: str) -> None:
        """The next content of a string member, strict JSON string content when the scan is strict, else as it was written."""

    def end(self, depth: int) -> None:
        """The member that began at this depth is complete."""


class _Want(IntEnum):
    FIRST_KEY = 0
    KEY = 1
    COLON = 2
    VALUE = 3
    FIRST_ITEM = 4
    ITEM = 5
    NEXT = 6


_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SMART = re.compile(r'(?:[^"“”\\]++|\\.)*+', re.DOTALL)
_SCALAR = re.compile(r"[^\s,:{}\[\]\"“”`~]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = frozenset(("true", "false", "null"))
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_SCALAR_STARTS = frozenset("-0123456789tfnTFN")
_ITEM_STARTS = _SCALAR_STARTS | frozenset('"“”{[')
_QUOTES = frozenset('"“”')
_OPENERS = {"{": "}", "[": "]"}
_OPEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
_UNCLEAN = re.compile(r'[\x00-\x1f]|\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})|\\u[dD]')
_PARTS = re.compile(
    r'[\x00-\x1f]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt]|)|[^\\\x00-\x1f]+'
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_LONE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def strict_content(text: str, repairs: set[Repair]) -> str:
    """String content, its quotes escaped, as strict JSON string content; no escape may be cut off at its end."""
    if _UNCLEAN.search(text) is None:
        return text
    out: list[str] = []
    for part in _PARTS.findall(text):
        if part < " ":
            repairs.add(Repair.CONTROL_CHARACTERS)
            out.append(_SHORT.get(part) or f"\\u{ord(part):04x}")
        elif part == "\\":
            repairs.add(Repair.INVALID_ESCAPE)
            out.append("\\\\")
        elif len(part) == 6 and _LONE.fullmatch(part):
            repairs.add(Repair.LONE_SURROGATE)
            out.append("\\ufffd")
        else:
            out.append(part)
    return "".join(out)


class JsonScanner:
    """One object or array. `feed` until `done`, `fault` or `stopped` (at a mark of a fence).

    `consumed` counts the characters that were taken; `place` is the offset at which the listener is being told something.
    """

    __slots__ = (
        "_base",
        "_carry",
        "_closing",
        "_comma",
        "_content",
        "_inner",
        "_key",
        "_listener",
        "_look",
        "_look_comma",
        "_most",
        "_quote",
        "_scalar",
        "_slash",
        "_stack",
        "_strict",
        "_unclear",
        "_want",
        "consumed",
        "done",
        "fault",
        "out",
        "place",
        "repairs",
        "stopped",
    )

    def __init__(self, *, strict: bool = False, listener: Listener | None = None, most: int = 0) -> None:
        """`listener` hears of members of containers down to depth `most`."""
        self.consumed = 0
        self.place = 0
        self._base = 0
        self.done = False
        self.stopped = False
        self.fault = ""
        self.repairs: set[Repair] = set()
        self.out: list[str] = []
        self._strict = strict
        self._listener = listener
        self._most = most
        self._stack: list[str] = []
        self._want = _Want.VALUE
        self._quote = ""
        self._key = False
        self._content: list[str] = []
        self._inner = 0
        self._unclear = False
        self._closing = False
        self._look: list[str] = []
        self._look_comma = False
        self._slash = False
        self._carry = ""
        self._scalar: list[str] = []
        self._comma = False

    def listen_to(self, most: int) -> None:
        """From here on listen to containers down to this depth."""
        self._most = most

    @property
    def depth(self) -> int:
        """How many containers are open."""
        return len(self._stack)

    @property
    def value_complete(self) -> bool:
        """Nothing is missing but closing brackets."""
        return self._want is _Want.NEXT and not self._quote and not self._scalar

    def feed(self, text: str, at: int = 0) -> int:
        """Take a piece from an index on; return the index up to which it was consumed."""
        if self._carry:
            carried = len(self._carry)
            joined = self._carry + text[at:]
            self._carry = ""
            return self._scan(joined, 0) - carried + at
        return self._scan(text, at)

    def _scan(self, text: str, at: int) -> int:
        size = len(text)
        start = at
        self._base = self.consumed - at
        while at < size and not self.done:
            self.place = self._base + at
            if self._quote:
                at = self._closing_quote(text, at) if self._closing else self._string(text, at)
                if self.fault:
                    break
                continue
            if self._scalar:
                found = _SCALAR.match(text, at)
                end = found.end() if found else at
                if end > at:
                    self._scalar.append(text[at:end])
                    at = end
                    continue
                if not self._end_scalar():
                    break
            char = text[at]
            if char.isspace():
                found = _SPACE.match(text, at)
                at = found.end() if found else at + 1
                continue
            if char in "`~":
                self.stopped = True
                break
            if not self._structure(char) or self.fault:
                break
            at += 1
        self.consumed += at - start
        if self._carry:
            self.consumed -= len(self._carry)
        return at

    def _fail(self, why: str) -> bool:
        self.fault = why
        return False

    def _structure(self, char: str) -> bool:
        """Take one character outside strings and scalars."""
        want = self._want
        if char in _QUOTES:
            return self._open_string(char)
        if char in "}]":
            return self._close(char)
        if char == ",":
            if want is not _Want.NEXT:
                return self._fail("a comma stands where a value was expected")
            self._comma = True
            self._want = _Want.KEY if self._stack[-1] == "{" else _Want.ITEM
            return True
        if char == ":":
            if want is not _Want.COLON:
                return self._fail("a colon stands where none was expected")
            self._want = _Want.VALUE
            self._write(":")
            return True
        if want not in (_Want.VALUE, _Want.FIRST_ITEM, _Want.ITEM):
            return self._fail("a key was expected" if want in (_Want.FIRST_KEY, _Want.KEY) else "a comma or a closing bracket was expected")
        if char in _OPENERS:
            self._begin(char)
            self._stack.append(char)
            self._want = _Want.FIRST_KEY if char == "{" else _Want.FIRST_ITEM
            self._write(char)
            return True
        if char not in _SCALAR_STARTS:
            return self._fail("a value is missing or is no JSON")
        self._begin("-")
        self._scalar.append(char)
        return True

    def _begin(self, char: str) -> None:
        self._write_comma()
        if self._listener is not None and 0 < len(self._stack) <= self._most:
            self._listener.begin(len(self._stack), char)

    def _ended(self) -> None:
        self._want = _Want.NEXT
        if self._listener is not None and 0 < len(self._stack) <= self._most:
            self._listener.end(len(self._stack))

    def _write(self, text: str) -> None:
        if self._strict:
            self.out.append(text)

    def _write_comma(self) -> None:
        if self._comma:
            self._comma = False
            self._write(",")

    def _close(self, char: str) -> bool:
        want = self._want
        if not self._stack:
            return self._fail("a closing bracket stands alone")
        if want in (_Want.KEY, _Want.ITEM):
            self.repairs.add(Repair.TRAILING_COMMA)
            self._comma = False
        elif want is _Want.COLON or want is _Want.VALUE:
            return self._fail("a value is missing")
        while _OPENERS[self._stack[-1]] != char:
            if want is not _Want.NEXT or len(self._stack) == 1 or not any(_OPENERS[opener] == char for opener in self._stack[-9:-1]):
                return self._fail(f"{char} closes nothing")
            self.repairs.add(Repair.MISSING_BRACKETS)
            self._close_one()
        self._close_one()
        return True

    def _close_one(self) -> None:
        self._write(_OPENERS[self._stack.pop()])
        if self._stack:
            self._ended()
        else:
            self.done = True

    def close_brackets(self) -> None:
        """Close what is open around a complete value."""
        self.repairs.add(Repair.MISSING_BRACKETS)
        while self._stack:
            self._close_one()

    def _end_scalar(self) -> bool:
        text = "".join(self._scalar)
        self._scalar.clear()
        if text in _PYTHON:
            self.repairs.add(Repair.PYTHON_LITERALS)
            text = _PYTHON[text]
        elif text not in _LITERALS and _NUMBER.fullmatch(text) is None:
            return self._fail("a value is no JSON")
        self._write(text)
        self._ended()
        return True

    # Strings.

    def _open_string(self, char: str) -> bool:
        want = self._want
        if self._unclear:
            return self._fail("a quote inside a string is not escaped")
        if want in (_Want.COLON, _Want.NEXT):
            return self._fail("a comma or a colon is missing before a string")
        self._key = want in (_Want.FIRST_KEY, _Want.KEY)
        if self._key:
            self._write_comma()
        else:
            self._begin('"')
        if char != '"':
            self.repairs.add(Repair.SMART_QUOTES)
        self._quote = char
        self._inner = 0
        self._write('"')
        return True

    def _string(self, text: str, at: int) -> int:
        """Read content up to a quote that may close the string."""
        if self._slash:
            self._slash = False
            self._take(text[at])
            return at + 1
        found = (_PLAIN if self._quote == '"' else _SMART).match(text, at)
        end = found.end() if found else at
        size = len(text)
        if end < size and text[end] != "\\":
            if end > at:
                self.place = self._base + end
                self._take(text[at:end])
            self._closing = True
            self._look.append(text[end])
            return end + 1
        if not self._strict:
            if end > at or end < size:
                self._take(text[at:])
            self._slash = end < size
            return size
        # An escape that is cut off waits for the rest, so that strict content is made of whole escapes.
        cut = self._open_escape(text, max(at, size - 12), at)
        if cut < size:
            self._carry = text[cut:]
        if cut > at:
            self.place = self._base + cut
            self._take(text[at:cut])
        return size

    @staticmethod
    def _open_escape(text: str, at: int, start: int) -> int:
        """Where an escape begins that the end of the text cuts off; the size of the text if none does."""
        while (found := _OPEN_ESCAPE.search(text, at)) is not None:
            slash = found.start()
            before = slash
            while before > start and text[before - 1] == "\\":
                before -= 1
            if (slash - before) % 2 == 0:
                return slash
            at = slash + 1
        return len(text)

    def _take(self, content: str) -> None:
        if self._strict:
            content = strict_content(content, self.repairs)
            self.out.append(content)
        if self._listener is not None and len(self._stack) <= self._most:
            if self._key:
                self._content.append(content)
            else:
                self._listener.piece(len(self._stack), content)

    def _closing_quote(self, text: str, at: int) -> int:
        """Behind a quote: look whether structure follows."""
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if end > at:
            self._look.append(text[at:end])
            return end
        char = text[at]
        if self._key:
            if char == ":":
                self._close_string()
            else:
                self.fault = "a key is not followed by a colon"
        elif self._look_comma:
            object_member = self._stack[-1] == "{"
            if char in "}]`~" or char in (_QUOTES if object_member else _ITEM_STARTS):
                self._close_string()
                self._comma = True
                self._want = _Want.KEY if object_member else _Want.ITEM
            else:
                self._inner_quote()
        elif char == ",":
            self._look.append(char)
            self._look_comma = True
            return at + 1
        elif char in "}]`~":
            self._close_string()
        elif char == ":":
            self.fault = "a value is followed by a colon"
        else:
            self._inner_quote()
        return at

    def _inner_quote(self) -> None:
        look = "".join(self._look).replace('"', '\\"')
        self._stop_looking()
        self._inner += 1
        self.repairs.add(Repair.INNER_QUOTES)
        self._take(look)

    def _stop_looking(self) -> None:
        self._closing = self._look_comma = False
        self._look.clear()

    def _close_string(self) -> None:
        self._stop_looking()
        self._quote = ""
        self._write('"')
        if self._inner % 2:
            self._unclear = True
        if not self._key:
            self._ended()
            return
        self._want = _Want.COLON
        if self._listener is not None and len(self._stack) <= self._most:
            self._listener.key(len(self._stack), "".join(self._content))
            self._content.clear()

"""What the start of a markdown line says: containers, headings, rules, fences (CommonMark), one character after the other.

In: the characters of a line from its first one on. Out: where its content begins, and what that content stands in. Promise: resumable at
every character, each is looked at once; no line costs more because more containers are open around it. Block quotes and list items are the
containers, the latter with the column that their content needs; lazy continuation lines keep them open. What may still be two things is kept
as a mark until a character decides: `-` is a bullet, a heading's underline or the beginning of a rule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from enum import IntEnum

_QUOTE = 0
"""A container: 0 for a block quote, for a list item the column its content starts at."""
_BULLETS = "-+*"
_RULES = "-*_"


class _Mark(IntEnum):
    """What was read last, and is not decided yet."""

    NONE = 0
    BULLET = 1
    DIGITS = 2
    DELIMITER = 3
    ITEM = 4
    """White space behind the marker of a list item: an item begins if content follows."""
    HASHES = 5
    RULE = 6
    UNDERLINE = 7
    FENCE = 8
    FENCE_TAIL = 9


class Lines:
    """The state of the current line and of the containers it stands in."""

    __slots__ = (
        "_absorb",
        "_bullet",
        "_column",
        "_containers",
        "_count",
        "_cr",
        "_digits",
        "_gapped",
        "_heading",
        "_hollow",
        "_mark",
        "_paragraph",
        "_paragraph_ended",
        "_quotes",
        "_rule",
        "_rule_count",
        "_rule_depth",
        "_width",
        "bare",
        "fence_char",
        "fence_depth",
        "fence_length",
        "fresh",
        "in_prefix",
        "indent",
        "matched",
    )

    def __init__(self, paragraph_ended: Callable[[int], None]) -> None:
        """`paragraph_ended` is told the index in the text that is being read."""
        self._paragraph_ended = paragraph_ended
        self._containers: list[int] = []
        # Where the block quotes stand among them: a blank line asks for one, and must not look through all list items (S14).
        self._quotes: list[int] = []
        self._paragraph = False
        self._heading = False
        self._hollow = -1
        self._cr = False
        self.fence_char = ""
        self.fence_length = 0
        self.fence_depth = 0
        self.fresh = False
        self._new_line()

    def _new_line(self) -> None:
        self.in_prefix = True
        self.bare = True
        self.matched = 0
        self.indent = 0
        self._column = 0
        self._absorb = False
        self._mark = _Mark.NONE
        self._bullet = ""
        self._count = 0
        self._digits = 0
        self._width = 0
        self._gapped = False
        self._rule = ""
        self._rule_count = 0
        self._rule_depth = 0

    def end(self, at: int, *, carriage_return: bool) -> None:
        """The content of the line is over."""
        if self._heading:
            self._heading = self._paragraph = False
            self._paragraph_ended(at)
        self._new_line()
        self._cr = carriage_return

    def enter(self) -> None:
        """Go on inside a line, in the middle of a paragraph."""
        self.in_prefix = False
        self.fresh = False
        self._cr = False
        self._mark = _Mark.NONE
        self._paragraph = True

    def open_fence(self, char: str, length: int, depth: int) -> None:
        """A fence opened in this line, in so many containers."""
        self._leave(depth)
        self.fence_char = char
        self.fence_length = length
        self.fence_depth = len(self._containers)
        self._paragraph = False

    def read(self, text: str, at: int) -> int:
        """Read on until the content begins (`in_prefix` is false then); return where."""
        size = len(text)
        while at < size:
            char = text[at]
            if self._cr:
                self._cr = False
                if char == "\n":
                    at += 1
                    continue
            if char in "\n\r":
                self._end_bare(at)
                self._new_line()
                self._cr = char == "\r"
            elif char in " \t":
                if not self._blank(char, at):
                    return at
            else:
                if not self._solid(char, at):
                    return at
                self._column += 1
            at += 1
        return at

    # Characters of a prefix. Each returns whether it belongs to the prefix.

    def _blank(self, char: str, at: int) -> bool:
        mark = self._mark
        if mark >= _Mark.FENCE:
            if mark is _Mark.FENCE and self._count < self.fence_length:
                return self._content()
            self._mark = _Mark.FENCE_TAIL
            return True
        if mark is _Mark.HASHES and self._count <= 6:
            self._interrupt(at)
            self._heading = True
            return self._content()
        if mark in (_Mark.DIGITS, _Mark.HASHES):
            return self._content()
        if mark is _Mark.DELIMITER and self._continues_paragraph() and self._count != 1:
            return self._content()
        if mark in (_Mark.BULLET, _Mark.DELIMITER):
            self._mark = _Mark.ITEM
            self.indent = 0
        elif mark in (_Mark.RULE, _Mark.UNDERLINE):
            self._gapped = True
        width = 1 if char == " " else 4 - self._column % 4
        self._column += width
        if self._absorb:
            self._absorb = False
            width -= 1
        self.indent += width
        return True

    def _solid(self, char: str, at: int) -> bool:
        mark = self._mark
        if mark is _Mark.NONE:
            return self._match(char) or self._start(char, at) or self._content()
        if mark is _Mark.ITEM:
            self._begin_item(at)
            return self._match(char) or self._start(char, at) or self._content()
        if mark is _Mark.FENCE and char == self.fence_char:
            self._count += 1
        elif mark is _Mark.DIGITS and "0" <= char <= "9" and self._digits < 9:
            self._count = self._count * 10 + ord(char) - 48
            self._digits += 1
            self._width += 1
        elif mark is _Mark.DIGITS and char in ".)":
            self._mark = _Mark.DELIMITER
            self._width += 1
        elif mark is _Mark.HASHES and char == "#":
            self._count += 1
        elif mark in (_Mark.BULLET, _Mark.RULE) and char == self._rule:
            self._mark = _Mark.RULE
            self._rule_count += 1
            if self._gapped:
                # Dashes with gaps underline nothing.
                self._bullet = ""
        elif mark is _Mark.UNDERLINE and char == "=" and not self._gapped:
            pass
        else:
            return self._content()
        return True

    def _match(self, char: str) -> bool:
        """Match the containers that are open; true when this character is the mark of one."""
        self._absorb = False
        containers = self._containers
        most = self.fence_depth if self.fence_length else len(containers)
        while self.matched < most:
            kind = containers[self.matched]
            if kind == _QUOTE:
                if char == ">" and self.indent < 4:
                    self._enter_quote()
                    return True
                return False
            if self.indent < kind:
                return False
            self.indent -= kind
            self.matched += 1
        return False

    def _enter_quote(self) -> None:
        self.matched += 1
        self.indent = 0
        self._absorb = True
        self.bare = False

    def _start(self, char: str, at: int) -> bool:
        """Take a mark that opens a container or a block, or closes a fence."""
        if self.fence_length:
            if self.matched < self.fence_depth:
                self._leave_fence(self.matched)
            elif char == self.fence_char and self.indent < 4:
                self._mark = _Mark.FENCE
                self._count = 1
                return True
            else:
                return False
        if self.indent >= 4:
            return False
        if char == ">":
            self._interrupt(at)
            self._quotes.append(len(self._containers))
            self._containers.append(_QUOTE)
            self._enter_quote()
            self._rule = ""
            return True
        if char in _RULES:
            if char != self._rule:
                self._rule = char
                self._rule_count = 0
                self._rule_depth = self.matched
            self._rule_count += 1
        else:
            self._rule = ""
        if char in _BULLETS:
            self._mark = _Mark.BULLET
            self._bullet = char
            self._width = self.indent + 1
        elif char == "_":
            self._mark = _Mark.RULE
        elif "0" <= char <= "9":
            self._mark = _Mark.DIGITS
            self._count = ord(char) - 48
            self._digits = 1
            self._width = self.indent + 1
        elif char == "#":
            self._mark = _Mark.HASHES
            self._count = 1
        elif char == "=" and self._continues_paragraph():
            self._mark = _Mark.UNDERLINE
        else:
            return False
        return True

    def _continues_paragraph(self) -> bool:
        """Is a paragraph open that this line, with all its containers, goes on?"""
        return self._paragraph and self.matched == len(self._containers)

    def _interrupt(self, at: int) -> None:
        """A block begins here: it ends the paragraph and the containers that this line did not continue."""
        self._leave(self.matched)
        self._paragraph = False
        self._paragraph_ended(at)

    def _begin_item(self, at: int) -> None:
        """Content follows a list marker, `indent` columns behind it."""
        inner = self.indent if 1 <= self.indent <= 4 else 1
        self._interrupt(at)
        self._containers.append(self._width + inner)
        self.matched += 1
        self.indent -= inner
        self.bare = False
        self._mark = _Mark.NONE

    def _content(self) -> bool:
        """The rest of the line is content. Returns false: this character is the first of it."""
        if not self.fence_length:
            self.fresh = self._mark is _Mark.NONE
            self.bare = self.bare and self.fresh
            if self.matched < len(self._containers) and not self._paragraph:
                self._leave(self.matched)
            self._paragraph = True
        self._hollow = -1
        self._rule = ""
        self._mark = _Mark.NONE
        self.in_prefix = False
        return False

    def _leave_fence(self, depth: int) -> None:
        self._leave(depth)
        self.fence_length = 0
        self._paragraph = False

    def _leave(self, depth: int) -> None:
        """Close all containers but so many."""
        del self._containers[depth:]
        while self._quotes and self._quotes[-1] >= depth:
            self._quotes.pop()

    # The end of a line that is all prefix.

    def _end_bare(self, at: int) -> None:
        mark = self._mark
        if self.fence_length:
            if mark is _Mark.FENCE_TAIL or (mark is _Mark.FENCE and self._count >= self.fence_length):
                self.fence_length = 0
                self._paragraph = False
            elif mark is _Mark.NONE:
                quote = self._open_quote(self.fence_depth)
                if quote is not None:
                    self._leave_fence(quote)
            return
        if mark is _Mark.NONE:
            self._end_blank(at)
        elif self._rule and self._rule_count >= 3:
            self.matched = self._rule_depth
            self._interrupt(at)
        elif mark is _Mark.UNDERLINE or (
            mark in (_Mark.BULLET, _Mark.ITEM, _Mark.RULE) and self._bullet == "-" and self._continues_paragraph()
        ):
            self._interrupt(at)
        elif mark in (_Mark.BULLET, _Mark.ITEM, _Mark.DELIMITER) and not self._continues_paragraph():
            self._interrupt(at)
            self._hollow = len(self._containers)
            self._containers.append(self._width + 1)
        elif mark is _Mark.HASHES and self._count <= 6:
            self._interrupt(at)
        else:
            self._content()

    def _end_blank(self, at: int) -> None:
        """A blank line ends the paragraph, quotes that it does not continue, and an item that has nothing in it."""
        self._paragraph = False
        self._paragraph_ended(at)
        quote = self._open_quote(len(self._containers))
        if quote is not None:
            self._leave(quote)
        if 0 <= self._hollow < len(self._containers):
            self._leave(self._hollow)
        self._hollow = -1

    def _open_quote(self, end: int) -> int | None:
        """The first block quote that this line did not continue."""
        quotes = self._quotes
        place = bisect_left(quotes, self.matched)
        return quotes[place] if place < len(quotes) and quotes[place] < end else None

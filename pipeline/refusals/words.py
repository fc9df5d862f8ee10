"""Text in, at any cut; normalised words out, each once it is complete (R3).

A word is folded for width (NFKC), case, accents, apostrophes and contractions; CJK characters are words of their own. Sentence ends,
clause breaks and code fences come out as words of their own kind. Text in quotes and in code spans is somebody else's: up to three words
of it stay (a tool's name, a scare quote), more become one opaque word.
Promise: the words depend on the text alone, never on the cut; one pass, each character looked at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

COMMA = ","
END = "."
ASK = "?"
FENCE = "```"
OPAQUE = '"'
UNQUOTE = "”"
"""The quote that the answer began with ends: what stood in it was somebody else's, should the answer go on."""

_ASCII_WORD = re.compile("[A-Za-z0-9_]+")
_APOSTROPHES = frozenset("'’‘ʼ´′‛")
_CLAUSE = frozenset(",;:()[]{}—–―、")
_LINES = frozenset("\n\r\x0b\x0c\x85\u2028\u2029")
_ENDS = _LINES | frozenset("!。")
_QUOTES = {'"': '"', "“": "”", "”": "”", "„": "“”", "‟": "”", "«": "»", "»": "«", "「": "」", "『": "』", "《": "》"}
_ABBREVIATIONS = frozenset({"e.g", "i.e", "etc", "vs", "z.b", "d.h", "bzw", "p.ej", "p.ex", "т.е", "т.д", "т.п", "mr", "ms", "dr"})
_KEPT_QUOTE = 3
_WORD_CHARS = 64
_SUFFIXES = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would"}


def _is_cjk(char: str) -> bool:
    code = ord(char)
    return code >= 0x2E80 and (
        code <= 0x2FDF
        or 0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xAC00 <= code <= 0xD7A3
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
        or code in (0x3005, 0x3007)
    )


def _fold_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")


class Words:
    """The normaliser of one text. `contractions` maps a word as written, apostrophe and all, to the words it stands for."""

    __slots__ = (
        "_code",
        "_contractions",
        "_dots",
        "_fresh",
        "_inner",
        "_lead",
        "_opened",
        "_pending",
        "_quote",
        "_raw",
        "_spaced",
        "_started",
        "_ticks",
        "position",
    )

    def __init__(self, contractions: Mapping[str, tuple[str, ...]]) -> None:
        """Begin before the first character."""
        self._contractions = contractions
        self._pending = ""  # the word being read
        self._raw = False  # it is code: no splitting at dots
        self._dots = ""  # dots behind the word, not yet known to end the sentence
        self._ticks = 0  # a run of backticks or tildes being read
        self._code = 0  # length of the run that opened the code span we are in
        self._quote = ""  # the characters that close the quote we are in
        self._inner: list[str] = []  # words inside the quote or span
        self._opened = False
        self._lead = ""  # the characters that close the quote the answer began with
        self._started = False
        self._fresh = True  # no word of this sentence yet
        self._spaced = True  # the last character was a space
        self.position = 0

    def feed(self, text: str) -> list[tuple[str, int]]:
        """Take more text; return the words it completed, each with the number of characters read when it was complete."""
        out: list[tuple[str, int]] = []
        at, end = 0, len(text)
        while at < end:
            if not self._ticks and not self._code and (run := _ASCII_WORD.match(text, at)) is not None:
                self._take_run(run[0], out)
                at = run.end()
                continue
            char = text[at]
            at += 1
            self.position += 1
            if char.isascii():
                self._take(char, out)
            elif unicodedata.category(char) != "Cf":
                # NFKC would turn an ellipsis into dots and a spacing accent into a letter's
                for one in char if char in "…´" else unicodedata.normalize("NFKC", char):
                    self._take(one, out)
        return out

    def close(self) -> list[tuple[str, int]]:
        """The text ended: return what was still pending, with an END behind it."""
        out: list[tuple[str, int]] = []
        self._end_ticks(out)
        self._end_word(out)
        if self._quote or self._code:
            self._end_quote(out)
        self._dots = ""
        out.append((END, self.position))
        return out

    def _take_run(self, run: str, out: list[tuple[str, int]]) -> None:
        """Take ASCII letters and digits in one step: what `_take` would do with each, and most of what text is made of."""
        self.position += 1
        self._dots_inside(out, ends=False)
        if self._pending and _is_cjk(self._pending[0]):
            self._end_word(out)
        self._pending = (self._pending + run.lower())[: _WORD_CHARS + 1]
        self._started = True
        self.position += len(run) - 1

    def _take(self, char: str, out: list[tuple[str, int]]) -> None:
        if char == "`":
            if not self._ticks:
                self._end_word(out)
            self._ticks += 1
            return
        if self._ticks:
            self._end_ticks(out)
        if self._code:
            self._in_code(char, out)
            return
        if (char.isalnum() and char not in _APOSTROPHES) or char == "_":
            self._dots_inside(out, ends=_is_cjk(char))
            if _is_cjk(char):
                self._end_word(out)
                self._pending = char
            else:
                if self._pending and _is_cjk(self._pending[0]):
                    self._end_word(out)
                self._grow(char.lower())
            self._started = True
            return
        if unicodedata.category(char)[0] == "M":
            if self._pending:
                self._grow(char)
            return
        if char in _APOSTROPHES:
            self._dots_inside(out, ends=True)
            if self._pending and not _is_cjk(self._pending[0]):
                self._grow("'")
            return
        if char in ".…":
            if self._dots or not self._pending:
                self._end_sentence(END, out)
            else:
                self._dots = char
            return
        self._dots_inside(out, ends=True)
        self._end_word(out)
        spaced, self._spaced = self._spaced, char == " "
        if char in _QUOTES or (self._quote and char in self._quote):
            self._quoted(char, out)
        elif char in _ENDS:
            if self._quote and char in _LINES:
                self._end_quote(out)
            self._end_sentence(END, out)
        elif char in "?؟":
            self._end_sentence(ASK, out)
        elif (char in _CLAUSE or (char == "-" and spaced)) and not self._fresh:
            self._add(COMMA, out)

    def _grow(self, char: str) -> None:
        if len(self._pending) <= _WORD_CHARS:  # beyond that it is opaque anyhow
            self._pending += char

    def _in_code(self, char: str, out: list[tuple[str, int]]) -> None:
        if char in "\n\r":
            self._end_word(out)
            self._end_quote(out)
            self._end_sentence(END, out)
        elif char.isalnum() or char in "_.-":
            self._grow(char.lower())
            self._raw = True
        else:
            self._end_word(out)

    def _end_ticks(self, out: list[tuple[str, int]]) -> None:
        ticks, self._ticks = self._ticks, 0
        if ticks >= 3 and not self._code:
            out.append((FENCE, self.position))
        elif ticks and self._code == ticks:
            self._end_word(out)
            self._code = 0
            if not self._quote:
                self._flush_inner(out)
        elif ticks and not self._code:
            self._code = ticks

    def _dots_inside(self, out: list[tuple[str, int]], *, ends: bool) -> None:
        """Something follows a dot: inside a word (a.txt, 3.5) the dot belongs to it, else it ended a sentence."""
        if not self._dots:
            return
        dots, self._dots = self._dots, ""
        if not ends and dots == ".":
            self._grow(".")
        elif self._pending in _ABBREVIATIONS:
            self._end_word(out)
        else:
            self._end_word(out)
            self._end_sentence(END, out)

    def _end_sentence(self, kind: str, out: list[tuple[str, int]]) -> None:
        self._dots = ""
        self._end_word(out)
        if self._quote:
            if kind == END:
                return  # a quote may hold whole sentences
            self._end_quote(out)
        if not self._fresh:
            out.append((kind, self.position))
        self._fresh = True

    def _quoted(self, char: str, out: list[tuple[str, int]]) -> None:
        if self._quote:
            if char in self._quote:
                self._end_quote(out)
        elif self._lead and char in self._lead:
            self._lead = ""
            out.append((UNQUOTE, self.position))
        elif self._started or self._opened:
            self._quote = _QUOTES.get(char, "")
        else:
            self._opened = True  # an answer that is quoted as a whole speaks for itself
            self._lead = _QUOTES.get(char, "")

    def _end_quote(self, out: list[tuple[str, int]]) -> None:
        self._quote = ""
        self._code = 0
        self._flush_inner(out)

    def _flush_inner(self, out: list[tuple[str, int]]) -> None:
        inner, self._inner = self._inner, []
        if len(inner) > _KEPT_QUOTE:
            inner = [OPAQUE]
        out += [(word, self.position) for word in inner]

    def _add(self, word: str, out: list[tuple[str, int]]) -> None:
        if self._quote or self._code:
            if len(self._inner) <= _KEPT_QUOTE:
                self._inner.append(word)
        else:
            out.append((word, self.position))

    def _end_word(self, out: list[tuple[str, int]]) -> None:
        word = self._pending
        if not word:
            return
        self._pending = ""
        self._fresh = self._spaced = False
        raw, self._raw = self._raw, False
        if len(word) > _WORD_CHARS:
            self._add(OPAQUE, out)
        elif raw:
            self._add(word, out)
        else:
            for one in _spelled(word, self._contractions):
                self._add(one, out)


def _spelled(word: str, contractions: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if _is_cjk(word[0]):
        return (unicodedata.normalize("NFC", word),)
    word = _fold(word).strip("'_")
    if word in contractions:
        return contractions[word]
    if "'" not in word:
        return (word,) if word else ()
    for suffix, full in _SUFFIXES.items():
        if word.endswith(suffix) and len(word) > len(suffix):
            return (*_spelled(word.removesuffix(suffix), contractions), full)
    return tuple(part for part in word.split("'") if part)


@lru_cache(maxsize=4096)
def _fold(word: str) -> str:
    return _fold_accents(word.casefold())


def fold(text: str, contractions: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The words of a short text, without its end: how phrase data is read."""
    words = Words(contractions)
    return [word for word, _ in words.feed(text) + words.close()[:-1]]

"""Where in a markdown text we are: lines, containers, fences, code spans (S4), one character after the other.

In: pieces of text, in order. Out: what the sieve must decide itself, and calls back when a paragraph ends or a code span closes.
Promise: resumable, every character is looked at once (but the few of a head that was cut by the end of a piece); the answer does not
depend on where pieces end. It follows CommonMark: a fence opens with at most three columns of indent and closes by its own rule or with its
container (`lines.py`), runs of backticks pair by equal length.

How code spans are told. Runs that found no partner yet stand in `open`, oldest first. A run of a length that stands there closes that span, and
what is younger was inside it; any other length joins the list. Therefore a place is inside a span if and only if, before the paragraph
ends, a run closes one that was open at that place: the sieve lets a block wait until it knows.

A fence of backticks may still turn out a code span (if its line has more backticks further on); until its line ends a fence is `maybe`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol
from weakref import ref

from pipeline.text.lines import Lines

_MARKS = "`~\n\r\\\\"
_LINE_END = re.compile("[\n\r]")
_RUNS = {"`": re.compile("`+"), "~": re.compile("~+")}
_SLASHES = re.compile(r"\\+")
_BLANKS = re.compile(r"[^\S\n\r]*")


def first_of(starts: str) -> re.Pattern[str]:
    """Finds the first character that means anything inside a line: of markdown, or one of `starts`."""
    return re.compile(f"[{_MARKS}{re.escape(starts)}]")


class Stop(IntEnum):
    """Why `scan` returned; `at` says where."""

    END = 0
    """All was looked at. The last `run_length` characters may belong to a longer run."""
    RUN = 1
    """Behind a whole run of three or more marks outside fences: `take_run`, or begin a block."""
    OPENER = 2
    """At a character that begins an opener."""
    HOLD = 3
    """At a character that may begin an opener when more arrives."""
    BRACKET = 4
    """At a `[` with nothing but white space before it in its line."""


class Waiting(Protocol):
    """Who wants to know what becomes of code spans."""

    def span_closed(self, index: int) -> None:
        """The span that began with the open run number `index` is closed."""

    def paragraph_ended(self) -> None:
        """No open run will find a partner any more."""

    def fence_opened(self) -> None:
        """What stood behind the marks of `maybe` in their line is a fence's info string."""

    def fence_denied(self) -> None:
        """The marks of `maybe` were an ordinary run; it was put among the open ones, or closed a span."""


class Markdown:
    """The state; `scan` moves it on."""

    __slots__ = (
        "__weakref__",
        "_first",
        "_odd_slash",
        "_opener",
        "_place_of",
        "_run_escaped",
        "_run_whole",
        "at",
        "behind",
        "first_in_line",
        "lines",
        "maybe",
        "open",
        "run_char",
        "run_first",
        "run_length",
        "waiting",
        "watch",
    )

    def __init__(self, opener: re.Pattern[str], starts: re.Pattern[str]) -> None:
        """`opener` matches an opener (its group `whole`) or a text that ends within one; `starts` is `first_of` their characters."""
        self._opener = opener
        self._first = starts
        self.lines = Lines(_ended(ref(self)))
        self.at = 0
        self.watch = False
        self.waiting: Waiting | None = None
        self.open: list[int] = []
        # Where each length stands in `open`, which never holds one twice: runs are looked up in it far more often than put there (S14).
        self._place_of: dict[int, int] = {}
        self.maybe: tuple[str, int, int] | None = None
        self.run_char = ""
        self.run_length = 0
        self.run_first = False
        self.first_in_line = False
        self.behind = False
        self._run_whole = False
        self._run_escaped = False
        self._odd_slash = False

    def use(self, opener: re.Pattern[str]) -> None:
        """From here on look for other openers, which begin with the same characters."""
        self._opener = opener

    @property
    def resting(self) -> bool:
        """Inside a line, nothing half seen: a text without any character that `search` finds changes nothing."""
        return not (self.lines.in_prefix or self.run_length or self.behind or self.lines.fresh or self._odd_slash)

    def scan(self, text: str, at: int) -> Stop:
        """Go on at an index of this piece until something must be decided; `self.at` is where."""
        size = len(text)
        begin = at
        lines = self.lines
        if self.run_length and at < size and not self._run_whole:
            end = self._end_of_run(text, at)
            self.run_length += end - at
            at = end
            if at == size:
                self.at = at
                return Stop.END
            self._run_whole = True
        if self.run_length and self._run_whole:
            if self.run_length >= 3:
                self.at = at
                return Stop.RUN
            self.at = at
            self.take_run()
        while at < size:
            if self.behind:
                found = _BLANKS.match(text, at)
                at = found.end() if found else at
                if at == size:
                    break
                self.behind = False
                if text[at] not in "\n\r":
                    # The first thing behind a block counts as first in its line, but opens no fence.
                    lines.fresh = lines.bare = True
                    lines.indent = 4
            if lines.in_prefix:
                at = lines.read(text, at)
                if lines.in_prefix:
                    break
            if lines.fence_length:
                found = _LINE_END.search(text, at)
                if found is None:
                    at = size
                    break
                at = found.end()
                lines.end(at, carriage_return=text[at - 1] == "\r")
                continue
            fresh, lines.fresh = lines.fresh, False
            if fresh and self.watch and lines.bare and text[at] == "[":
                lines.fresh = True
                self.at = at
                return Stop.BRACKET
            found = self._first.search(text, at)
            if found is None:
                self._odd_slash = False
                at = size
                break
            start = found.start()
            char = text[start]
            first = fresh and start == at
            # An odd number of backslashes right before a run makes its first mark a plain character.
            odd = self._odd_slash and (start == begin or text[start - 1] == "\\")
            self._odd_slash = False
            if char in "\n\r":
                self.at = start
                self._line_ended(carriage_return=char == "\r")
                at = start + 1
            elif char in "`~":
                self.run_char = char
                self.run_first = first and lines.indent < 4
                self._run_escaped = odd
                at = self._end_of_run(text, start)
                self.run_length = at - start
                self._run_whole = at < size
                if not self._run_whole:
                    break
                self.at = at
                if self.run_length >= 3:
                    return Stop.RUN
                self.take_run()
            elif char == "\\":
                slashes = _SLASHES.match(text, start)
                at = slashes.end() if slashes else start + 1
                self._odd_slash = ((at - start) % 2 == 1) != odd
            else:
                opener = self._opener.match(text, start)
                if opener is None:
                    at = start + 1
                    continue
                self.at = start
                self.first_in_line = first and lines.bare
                lines.fresh = first
                return Stop.HOLD if opener.lastgroup is None else Stop.OPENER
        self.at = at
        return Stop.END

    def _end_of_run(self, text: str, at: int) -> int:
        found = _RUNS[self.run_char].match(text, at)
        return found.end() if found else at

    def skip(self) -> None:
        """What `scan` stopped at is plain text: the caller goes on behind its first character."""
        self.lines.fresh = False

    def take_run(self) -> None:
        """The run before `at` is markdown, no opener."""
        char, length, escaped = self.run_char, self.run_length, self._run_escaped
        self.run_length = 0
        first = self.run_first and not escaped
        if char == "~":
            if first and length >= 3:
                # No info string can undo this one, so the paragraph is over.
                self.end_paragraph()
                self.maybe = (char, length, self.lines.matched)
            return
        if self.maybe is not None:
            if self.maybe[0] == "~":
                return
            self._deny()
        if first and length >= 3:
            self.maybe = (char, length, self.lines.matched)
        else:
            self._pair(length, escaped=escaped)

    def _deny(self) -> None:
        if self.maybe is not None:
            length = self.maybe[1]
            self.maybe = None
            self._pair(length, escaped=False)
            if self.waiting is not None:
                self.waiting.fence_denied()

    def _pair(self, length: int, *, escaped: bool) -> None:
        index = self._place_of.get(length)
        if index is not None:
            for closed in self.open[index:]:
                del self._place_of[closed]
            del self.open[index:]
            if self.waiting is not None:
                self.waiting.span_closed(index)
        elif not escaped:
            self._open_run(length)
        elif length > 1 and length - 1 not in self._place_of:
            self._open_run(length - 1)

    def _open_run(self, length: int) -> None:
        self._place_of[length] = len(self.open)
        self.open.append(length)

    def block_ended(self) -> None:
        """A block that became a call, or waits, ended here; to markdown it is one opaque character."""
        self.run_length = 0
        self.behind = True
        self._odd_slash = False
        self.lines.enter()

    def text_ended(self, *, line_broken: bool, paragraph_broken: bool) -> None:
        """A block that turned out to be text ended here, within a line; a line break or a blank line stood in it."""
        if self.run_length:
            self.take_run()
        self._odd_slash = False
        self.lines.enter()
        if line_broken:
            self._line_ended()
            if paragraph_broken and not self.lines.fence_length:
                self.end_paragraph()
            self.lines.enter()

    def fence_block(self) -> None:
        """The run before `at` opens a block that is a fence of its own: it ends the paragraph."""
        if self.run_first:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        """No run before this place pairs with one behind it."""
        self.open.clear()
        self._place_of.clear()
        if self.waiting is not None:
            self.waiting.paragraph_ended()

    def close(self) -> None:
        """The text is over."""
        if self.maybe is not None:
            self.maybe = None
            if self.waiting is not None:
                self.waiting.fence_opened()
        self.end_paragraph()

    def _line_ended(self, *, carriage_return: bool = False) -> None:
        if self.maybe is not None:
            char, length, depth = self.maybe
            self.maybe = None
            self.lines.open_fence(char, length, depth)
            if self.waiting is not None:
                self.waiting.fence_opened()
            self.end_paragraph()
        self.lines.end(self.at, carriage_return=carriage_return)

    def _paragraph_ended(self, at: int) -> None:
        self.at = at
        self.end_paragraph()


def _ended(markdown: ref[Markdown]) -> Callable[[int], None]:
    """Tell the scanner without holding it: it holds the lines, and the two would wait for the collector with all that an answer's sieve holds."""

    def tell(at: int) -> None:
        found = markdown()
        if found is not None:
            found._paragraph_ended(at)  # noqa: SLF001 - this file's own

    return tell

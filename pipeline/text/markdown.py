"""Where in a markdown text we are: lines, containers, fences, code spans (S4), one character after the other.

In: pieces of text, in order. Out: what the sieve must decide itself, and calls back when a paragraph ends or a code span closes.
Promise: resumable, every character is looked at once (but the few of a head that was cut by the end of a piece); the answer does not
depend on where pieces end. It follows CommonMark: containers are block quotes and list items with their content column, a fence
opens with at most three columns of indent and closes by its own rule or with its container, runs of backticks pair by equal length.

How code spans are told. Runs that found no partner yet stand in `open`, oldest first. A run of a length that stands there closes that span, and
what is younger was inside it; any other length joins the list. Therefore a place is inside a span if and only if, before the paragraph
ends, a run closes one that was open at that place: the sieve lets a block wait until it knows.

A fence at the start of a line may still turn out a code span (backticks further on in its line); until the line ends it is `maybe`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Protocol

_MARKS = "`~\n\r\\\\"
_LINE_END = re.compile("[\n\r]")
_RUNS = {"`": re.compile("`+"), "~": re.compile("~+")}
_SLASHES = re.compile(r"\\+")
_BLANKS = re.compile(r"[^\S\n\r]*")
_QUOTE = 0
"""A container: 0 for a block quote, for a list item the column its content starts at."""


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


class _Mark(IntEnum):
    NONE = 0
    BULLET = 1
    DIGITS = 2
    DELIMITER = 3
    ITEM = 4
    HASHES = 5
    FENCE = 6
    FENCE_TAIL = 7


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
        "_absorb",
        "_bare",
        "_column",
        "_containers",
        "_count",
        "_cr",
        "_first",
        "_fresh",
        "_heading",
        "_indent",
        "_mark",
        "_matched",
        "_odd_slash",
        "_opener",
        "_paragraph",
        "_run_escaped",
        "_run_whole",
        "_width",
        "at",
        "behind",
        "fence_char",
        "fence_depth",
        "fence_length",
        "first_in_line",
        "in_prefix",
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
        self.at = 0
        self.watch = False
        self.waiting: Waiting | None = None
        self.open: list[int] = []
        self.maybe: tuple[str, int, int] | None = None
        self.fence_char = ""
        self.fence_length = 0
        self.fence_depth = 0
        self.run_char = ""
        self.run_length = 0
        self.run_first = False
        self.first_in_line = False
        self.behind = False
        self.in_prefix = True
        self._run_whole = False
        self._run_escaped = False
        self._odd_slash = False
        self._containers: list[int] = []
        self._paragraph = False
        self._heading = False
        self._fresh = False
        self._cr = False
        self._new_line()

    def use(self, opener: re.Pattern[str]) -> None:
        """From here on look for other openers, which begin with the same characters."""
        self._opener = opener

    @property
    def resting(self) -> bool:
        """Inside a line, nothing half seen: a text without any character that `search` finds changes nothing."""
        return not (self.in_prefix or self.run_length or self.behind or self._fresh or self._odd_slash)

    def scan(self, text: str, at: int) -> Stop:
        """Go on at an index of this piece until something must be decided; `self.at` is where."""
        size = len(text)
        begin = at
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
                    self._fresh = self._bare = True
                    self._indent = 4
            if self.in_prefix:
                at = self._prefix(text, at)
                if self.in_prefix:
                    break
            if self.fence_length:
                found = _LINE_END.search(text, at)
                if found is None:
                    at = size
                    break
                at = found.end()
                self._cr = text[at - 1] == "\r"
                self._new_line()
                continue
            fresh, self._fresh = self._fresh, False
            if fresh and self.watch and self._bare and text[at] == "[":
                self._fresh = True
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
                self._line_ended()
                self._cr = char == "\r"
                at = start + 1
            elif char in "`~":
                self.run_char = char
                self.run_first = first and self._indent < 4
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
                self.first_in_line = first and self._bare
                self._fresh = first
                return Stop.HOLD if opener.lastgroup is None else Stop.OPENER
        self.at = at
        return Stop.END

    def _end_of_run(self, text: str, at: int) -> int:
        found = _RUNS[self.run_char].match(text, at)
        return found.end() if found else at

    def skip(self) -> None:
        """What `scan` stopped at is plain text: the caller goes on behind its first character."""
        self._fresh = False

    def take_run(self) -> None:
        """The run before `at` is markdown, no opener."""
        char, length, escaped = self.run_char, self.run_length, self._run_escaped
        self.run_length = 0
        first = self.run_first and not escaped
        if char == "~":
            if first and length >= 3:
                self.maybe = (char, length, self._matched)
            return
        if self.maybe is not None and self.maybe[0] == "`":
            self._deny()
        if first and length >= 3:
            self.maybe = (char, length, self._matched)
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
        if length in self.open:
            index = self.open.index(length)
            del self.open[index:]
            if self.waiting is not None:
                self.waiting.span_closed(index)
        elif not escaped:
            self.open.append(length)
        elif length > 1 and length - 1 not in self.open:
            self.open.append(length - 1)

    def block_ended(self) -> None:
        """A block that became a call, or waits, ended here; to markdown it is one opaque character."""
        self.run_length = 0
        self.behind = True
        self._inside_line()

    def text_ended(self, *, line_broken: bool, paragraph_broken: bool) -> None:
        """A block that turned out to be text ended here, within a line; a line break or a blank line stood in it."""
        if self.run_length:
            self.take_run()
        self._inside_line()
        if line_broken:
            self._line_ended()
            if paragraph_broken and not self.fence_length:
                self.end_paragraph()
            self._inside_line()

    def _inside_line(self) -> None:
        self.in_prefix = False
        self._fresh = False
        self._cr = False
        self._odd_slash = False
        self._mark = _Mark.NONE
        self._paragraph = True

    def fence_block(self) -> None:
        """The run before `at` opens a block that is a fence of its own: it ends the paragraph."""
        if self.run_first:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        """No run before this place pairs with one behind it."""
        self.open.clear()
        if self.waiting is not None:
            self.waiting.paragraph_ended()

    def close(self) -> None:
        """The text is over."""
        if self.maybe is not None:
            self.maybe = None
            if self.waiting is not None:
                self.waiting.fence_opened()
        self.end_paragraph()

    def _line_ended(self) -> None:
        if self.fence_length:
            self._new_line()
            return
        if self._heading:
            self._heading = self._paragraph = False
            self.end_paragraph()
        if self.maybe is not None:
            self.fence_char, self.fence_length, depth = self.maybe
            self.maybe = None
            del self._containers[depth:]
            self.fence_depth = len(self._containers)
            self._paragraph = False
            if self.waiting is not None:
                self.waiting.fence_opened()
            self.end_paragraph()
        self._new_line()

    def _new_line(self) -> None:
        self.in_prefix = True
        self._matched = 0
        self._indent = 0
        self._column = 0
        self._absorb = False
        self._mark = _Mark.NONE
        self._count = 0
        self._width = 0
        self._bare = True

    def _prefix(self, text: str, at: int) -> int:
        """Read white space, container marks, a closing fence at the start of a line; return where the content begins."""
        size = len(text)
        while at < size:
            char = text[at]
            if self._cr:
                self._cr = False
                if char == "\n":
                    at += 1
                    continue
            if char in "\n\r":
                self.at = at
                self._blank_line()
                self._cr = char == "\r"
                self._new_line()
                at += 1
                continue
            mark = self._mark
            if mark >= _Mark.FENCE:
                if char == self.fence_char and mark is _Mark.FENCE:
                    self._count += 1
                elif char in " \t" and (mark is _Mark.FENCE_TAIL or self._count >= self.fence_length):
                    self._mark = _Mark.FENCE_TAIL
                else:
                    return self._content(at)
                at += 1
                continue
            if char in " \t":
                if mark is _Mark.HASHES and self._count <= 6:
                    self.at = at
                    self.end_paragraph()
                    self._heading = True
                    return self._content(at)
                if mark in (_Mark.DIGITS, _Mark.HASHES) or (mark is _Mark.DELIMITER and self._continues_paragraph()):
                    return self._content(at)
                if mark in (_Mark.BULLET, _Mark.DELIMITER):
                    self.at = at
                    self._begin_item()
                self._blank(char)
                at += 1
                continue
            if mark is _Mark.DIGITS and "0" <= char <= "9" and self._width < 9:
                self._count = self._count * 10 + ord(char) - 48
                self._width += 1
            elif mark is _Mark.DIGITS and char in ".)":
                self._mark = _Mark.DELIMITER
                self._width += 1
            elif mark is _Mark.HASHES and char == "#":
                self._count += 1
            elif mark in (_Mark.NONE, _Mark.ITEM):
                if mark is _Mark.ITEM:
                    self._item_content()
                if self._match_containers(char):
                    at += 1
                    continue
                self.at = at
                if not self._starts_block(char):
                    return self._content(at)
            else:
                return self._content(at)
            self._column += 1
            at += 1
        return at

    def _blank(self, char: str) -> None:
        width = 1 if char == " " else 4 - self._column % 4
        self._column += width
        if self._absorb:
            self._absorb = False
            width -= 1
        self._indent += width

    def _match_containers(self, char: str) -> bool:
        """Match the containers that are open; true when this character is the mark of one and thereby used up."""
        self._absorb = False
        containers = self._containers
        most = self.fence_depth if self.fence_length else len(containers)
        while self._matched < most:
            kind = containers[self._matched]
            if kind == _QUOTE:
                if char == ">" and self._indent < 4:
                    self._enter_quote()
                    return True
                return False
            if self._indent < kind:
                return False
            self._indent -= kind
            self._matched += 1
        return False

    def _enter_quote(self) -> None:
        self._matched += 1
        self._indent = 0
        self._column += 1
        self._absorb = True
        self._bare = False

    def _starts_block(self, char: str) -> bool:
        """Take a mark that opens a container, a heading or closes a fence; false for the first character of content."""
        if self.fence_length:
            if self._matched < self.fence_depth:
                self._leave_fence(self._matched)
            elif char == self.fence_char and self._indent < 4:
                self._mark = _Mark.FENCE
                self._count = 1
                return True
            else:
                return False
        if self._indent >= 4:
            return False
        if char == ">":
            del self._containers[self._matched :]
            self.end_paragraph()
            self._paragraph = False
            self._containers.append(_QUOTE)
            self._enter_quote()
            self._column -= 1
            return True
        if char in "-+*":
            self._mark = _Mark.BULLET
            self._width = self._indent + 1
        elif "0" <= char <= "9":
            self._mark = _Mark.DIGITS
            self._count = ord(char) - 48
            self._width = 1
        elif char == "#":
            self._mark = _Mark.HASHES
            self._count = 1
        else:
            return False
        return True

    def _continues_paragraph(self) -> bool:
        """An ordered item that does not start at 1 interrupts no paragraph, unless it is a sibling in a list."""
        return self._paragraph and self._count != 1 and self._matched == len(self._containers)

    def _begin_item(self) -> None:
        if self._mark is _Mark.DELIMITER:
            self._width += self._indent
        del self._containers[self._matched :]
        self.end_paragraph()
        self._paragraph = False
        self._mark = _Mark.ITEM
        self._indent = 0
        self._bare = False

    def _item_content(self) -> None:
        inner = self._indent if 1 <= self._indent <= 4 else 1
        self._containers.append(self._width + inner)
        self._matched += 1
        self._indent -= inner
        self._mark = _Mark.NONE

    def _content(self, at: int) -> int:
        """The rest of the line is content."""
        if not self.fence_length:
            if self._mark is not _Mark.NONE:
                self._bare = False
            self._fresh = self._mark is _Mark.NONE
            if self._matched < len(self._containers) and not self._paragraph:
                del self._containers[self._matched :]
            self._paragraph = True
        self._mark = _Mark.NONE
        self.in_prefix = False
        return at

    def _leave_fence(self, depth: int) -> None:
        del self._containers[depth:]
        self.fence_length = 0
        self._paragraph = False

    def _blank_line(self) -> None:
        """A line of nothing but white space and marks is over."""
        mark = self._mark
        if self.fence_length:
            if mark is _Mark.FENCE_TAIL or (mark is _Mark.FENCE and self._count >= self.fence_length):
                self.fence_length = 0
                self._paragraph = False
                return
            if mark is _Mark.NONE:
                quote = self._open_quote(self.fence_depth)
                if quote is not None:
                    self._leave_fence(quote)
            return
        if mark is _Mark.DIGITS or (mark is _Mark.HASHES and self._count > 6):
            self._content(self.at)
            return
        if mark in (_Mark.BULLET, _Mark.DELIMITER) and not self._paragraph:
            self._begin_item()
            mark = _Mark.ITEM
        if mark is _Mark.ITEM:
            self._containers.append(self._width + 1)
        elif mark is _Mark.NONE:
            quote = self._open_quote(len(self._containers))
            if quote is not None:
                del self._containers[quote:]
        self._paragraph = False
        self.end_paragraph()

    def _open_quote(self, end: int) -> int | None:
        """The first block quote that this line did not continue."""
        for index in range(self._matched, end):
            if self._containers[index] == _QUOTE:
                return index
        return None

"""Which stretches of a text stand in CDATA sections, wherever its pieces end.

In: the text behind a block of tags that was refused, in pieces. Out: runs of it, each quoted or not. What a section quotes belongs to the refused block,
and what is quoted must not run (S3). Promise: no character is kept but the last few, for a mark that goes on in the next piece.

A section closes at `]]>` when a tag follows at once; when text follows, a closer ends both (S5). Sections in sections are counted. The refused
block is over at the closer of its wrapper or at a blank line, outside of a section: from there on nothing is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

_MARKS = (
    re.compile(r"(<!\[CDATA\[)|(</[^<>\n]{0,32}?calls|\n[ \t\r]{0,8}\n)", re.IGNORECASE),
    re.compile(r"(<!\[CDATA\[)|(\]\]>)"),
    re.compile(r"(<!\[CDATA\[)|(</)"),
)
_SPACE = re.compile(r"\s*")
_KEPT = 48
"""No mark is longer."""


class _In(IntEnum):
    OUTSIDE = 0
    SECTION = 1
    BEHIND = 2
    """Behind the end of a section that text follows."""
    CLOSED = 3
    """Right behind the end of a section."""


class Sections:
    """The sections of one refused block. `over` once the block is."""

    __slots__ = ("_depth", "_kept", "_state", "over")

    def __init__(self) -> None:
        """Begin behind the block's last character that was read as a part of it."""
        self.over = False
        self._state = _In.OUTSIDE
        self._depth = 0
        self._kept = ""

    def runs(self, text: str) -> Iterator[tuple[str, bool]]:
        """The next piece in runs that add up to it: text, and whether a section quotes it. A section's opener is not quoted."""
        start = at = 0
        while at < len(text) and not self.over:
            if self._state is _In.CLOSED:
                found = _SPACE.match(text, at)
                at = found.end() if found else at
                if at < len(text):
                    self._state = _In.OUTSIDE if text[at] == "<" else _In.BEHIND
                    if text[at] == "<" and at > start:
                        yield text[start:at], True
                        start = at
                continue
            kept, self._kept = self._kept, ""
            known, skipped = (kept + text[at:], at - len(kept)) if kept else (text, 0)
            mark = _MARKS[self._state].search(known, at - skipped - len(kept))
            if mark is None:
                self._kept = known[max(len(known) - _KEPT, at - skipped - len(kept)) :]
                break
            at = skipped + mark.end()
            before, opens = self._state, mark[1] is not None
            self._pass(opens=opens)
            if (before is _In.OUTSIDE) is not (self._state is _In.OUTSIDE):
                yield text[start:at], before is not _In.OUTSIDE
                start = at
            elif before is _In.OUTSIDE:
                # Over is what stands behind the mark: a block that begins before it may still be a part of the refused one.
                yield text[start:at], False
                start = at
                self.over = True
        if start < len(text):
            yield text[start:], self._state is not _In.OUTSIDE

    def _pass(self, *, opens: bool) -> None:
        """Behind a mark: an opener, or what ends the state."""
        if opens:
            self._depth = self._depth + 1 if self._state is _In.SECTION else 1
            self._state = _In.SECTION
        elif self._state is _In.SECTION:
            self._depth -= 1
            self._state = _In.SECTION if self._depth else _In.CLOSED
        elif self._state is _In.BEHIND:
            self._state = _In.OUTSIDE
            self._kept = "</"

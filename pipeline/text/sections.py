"""Which stretches of a text stand in CDATA sections, wherever its pieces end.

In: the text behind a block of tags that was refused, in pieces. Out: runs of it, each quoted or not. What a section quotes belongs to the refused block,
and what is quoted must not run (S3). Promise: no character is kept but the last few, for a mark that goes on in the next piece.

A section closes at `]]>` with a tag behind it, white space in between or not; sections in sections are counted. The refused block is over at
the closer of its wrapper or at a blank line, outside of a section: from there on nothing is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPENS = "<![CDATA["
_OUTSIDE = re.compile(r"(<!\[CDATA\[)|</[^<>\n]{0,32}?calls|\n[ \t\r]{0,8}\n", re.IGNORECASE)
_INSIDE = re.compile(r"(<!\[CDATA\[)|\]\]>")
_SPACE = re.compile(r"\s*")
_KEPT = 48
"""No mark is longer."""


class Sections:
    """The sections of one refused block. `over` once the block is."""

    __slots__ = ("_closing", "_depth", "_kept", "over")

    def __init__(self) -> None:
        """Begin behind the block's last character that was read as a part of it."""
        self.over = False
        self._depth = 0
        self._closing = False
        self._kept = ""

    def runs(self, text: str) -> Iterator[tuple[str, bool]]:
        """The next piece in runs that add up to it: text, and whether a section quotes it. A section's opener is not quoted."""
        start = at = 0
        while at < len(text):
            if self._closing:
                found = _SPACE.match(text, at)
                at = found.end() if found else at
                if at == len(text):
                    break
                self._closing = False
                if text[at] == "<":
                    self._depth = 0
                    if at > start:
                        yield text[start:at], True
                    start = at
                continue
            if self.over:
                break
            kept, self._kept = self._kept, ""
            known, skipped = (kept + text[at:], at - len(kept)) if kept else (text, 0)
            mark = (_INSIDE if self._depth else _OUTSIDE).search(known, at - skipped - len(kept))
            if mark is None:
                self._kept = known[max(len(known) - _KEPT, at - skipped - len(kept)) :]
                break
            at = skipped + mark.end()
            if self._depth == 0:
                yield text[start:at], False
                start = at
                self._depth, self.over = (1, False) if mark[1] else (0, True)
            elif mark[1]:
                self._depth += 1
            elif self._depth == 1:
                self._closing = True
            else:
                self._depth -= 1
        if start < len(text):
            yield text[start:], self._depth > 0

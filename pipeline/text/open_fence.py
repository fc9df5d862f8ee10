"""Where a fence that opened in the middle of a line ends (S7): such a fence is none to Markdown, but it is one to who wrote it.

In: the text behind a refused block, in pieces. Out: runs of it, quoted up to the end of the fence and not behind it. The fence ends behind the first run
of at least as many marks, wherever that stands, as the fence of a call does; and at a blank line, since what never closes must not take the
rest of the answer along. Promise: no character is kept but the last few.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK_LINE = r"\n[ \t\r]{0,8}\n"


class OpenFence:
    """The rest of one refused block. `over` once its fence is closed."""

    __slots__ = ("_behind", "_end", "_kept", "_mark", "_most", "over")

    def __init__(self, mark: str, length: int) -> None:
        """The fence was opened with so many of these marks."""
        self.over = False
        self._mark = mark
        self._end = re.compile(rf"({mark}{{{length}}})|{_BLANK_LINE}")
        self._most = max(length, 16)
        self._kept = ""
        self._behind = False

    def runs(self, text: str) -> Iterator[tuple[str, bool]]:
        """The next piece in runs that add up to it: text, and whether it stands in the fence."""
        at = 0
        if not self.over and not self._behind:
            kept = self._kept
            end = self._end.search(kept + text)
            if end is None:
                self._kept = (kept + text)[-self._most :]
                yield text, True
                return
            at = end.end() - len(kept)
            self._behind, self.over = (True, False) if end[1] else (False, True)
        if self._behind:
            while at < len(text) and text[at] == self._mark:
                at += 1
            if at < len(text):
                self._behind, self.over = False, True
        if at:
            yield text[:at], True
        if at < len(text):
            yield text[at:], False

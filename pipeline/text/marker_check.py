"""Does delivered text still hold the marker of a dialect? An independent, dumb look at what the client got, not the sieve's own state.

In: text in pieces. Out: the name of the first dialect whose marker stands in it outside fenced code and inline code. Promise: memory bounded,
linear time, next to no work on the way: the text is looked at when it is over, or every 64 K characters. Feeds the signature "parser failure",
which is strong just because this check knows nothing of how blocks are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# What a model writes at the start of a block, in lower case.
MARKERS: dict[str, tuple[str, ...]] = {
    "json_action": ("```json action", "~~~json action"),
    "dsml": ("<|dsml|", "<｜dsml｜", "<tool_calls>", "<invoke name="),
}

_LOOK_AFTER = 64 << 10
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


class MarkerCheck:
    """Collects what was delivered; `found` is the dialect, once one was found."""

    __slots__ = ("_fence", "_markers", "_pieces", "_size", "found")

    def __init__(self, dialects: Sequence[str]) -> None:
        """Look for the markers of these dialects; those not known here have none."""
        self._markers = [(marker, name) for name in dialects for marker in MARKERS.get(name, ())]
        self._pieces: list[str] = []
        self._size = 0
        self._fence = ""
        self.found: str | None = None

    def feed(self, text: str) -> None:
        """Take a piece."""
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= _LOOK_AFTER:
            whole = "".join(self._pieces)
            end = whole.rfind("\n") + 1 or len(whole)
            self._pieces = [whole[end:]]
            self._size = len(whole) - end
            self._look(whole[:end])

    def close(self) -> str | None:
        """Look at what is left; return `found`."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._look(text)
        return self.found

    def _look(self, text: str) -> None:
        if self.found is not None:
            return
        text = text.lower()
        if not self._fence and "```" not in text and "~~~" not in text and not any(marker in text for marker, _ in self._markers):
            return
        for line in text.split("\n"):
            fence = _FENCE.match(line)
            if self._fence:
                if fence is not None and fence[1].startswith(self._fence) and not line[fence.end() :].strip():
                    self._fence = ""
                continue
            for marker, name in self._markers:
                at = line.find(marker)
                if at >= 0 and not _in_code_span(line[:at]):
                    self.found = name
                    return
            if fence is not None:
                self._fence = fence[1]


def _in_code_span(before: str) -> bool:
    return before.count("`") % 2 == 1

"""Stop sequences on visible text (E10, E-stop).

In: text in pieces. Out: text up to the first stop sequence, and which one it was. Promise: the result does not depend on how the
text was cut; only what may still become a stop sequence is held back; linear time. Of two sequences the one that is complete first
wins, at the same place the longer one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class StopSequences:
    """Looks for the first of several stop sequences. `hit` is the one found, or None; after a hit nothing comes any more."""

    __slots__ = ("_first", "_held", "_stops", "hit")

    def __init__(self, stops: Sequence[str]) -> None:
        """Take the sequences; empty ones and doubles do not count."""
        unique = sorted({stop for stop in stops if stop}, key=len, reverse=True)
        self._stops = [_Matcher(stop) for stop in unique]
        # One search for all of them: looked for apart, a first character that does not come would cost the whole rest each time.
        self._first = re.compile(f"[{re.escape(''.join({stop[0] for stop in unique}))}]" if unique else "(?!)")
        self._held = ""
        self.hit: str | None = None

    def feed(self, text: str) -> str:
        """Take a piece; return what is certain to stand before any stop sequence."""
        if self.hit is not None:
            return ""
        start = 0 if self._held else self._next_start(text, 0)
        if start == len(text):
            return text
        kept = len(self._held)
        buffer = self._held + text
        at = kept + start
        while at < len(buffer):
            character = buffer[at]
            at += 1
            longest = 0
            for stop in self._stops:
                matched = stop.step(character)
                if matched == len(stop.text):
                    self.hit = stop.text
                    self._held = ""
                    return buffer[: at - matched]
                longest = max(longest, matched)
            if not longest:
                at = self._next_start(buffer, at)
        hold = max(stop.matched for stop in self._stops)
        self._held = buffer[len(buffer) - hold :]
        return buffer[: len(buffer) - hold]

    def close(self) -> str:
        """The text ends, or is interrupted by something that is no text: return what was held; matching starts anew."""
        held, self._held = self._held, ""
        for stop in self._stops:
            stop.matched = 0
        return held

    def _next_start(self, text: str, at: int) -> int:
        found = self._first.search(text, at)
        return found.start() if found is not None else len(text)


class _Matcher:
    """How much of one sequence the text ends with (Knuth, Morris, Pratt), so that no piece is read twice."""

    __slots__ = ("_fallback", "matched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._fallback = [0] * len(text)
        length = 0
        for at in range(1, len(text)):
            while length and text[at] != text[length]:
                length = self._fallback[length - 1]
            if text[at] == text[length]:
                length += 1
            self._fallback[at] = length

    def step(self, character: str) -> int:
        matched = self.matched
        if matched == len(self.text):
            matched = self._fallback[matched - 1]
        while matched and self.text[matched] != character:
            matched = self._fallback[matched - 1]
        self.matched = matched + (self.text[matched] == character)
        return self.matched

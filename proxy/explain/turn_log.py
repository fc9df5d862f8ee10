"""Log lines gathered into turns.

In: one parsed line at a time, of any number of turns and workers, mixed. Out: a TurnLog when a turn's canonical line comes; at the end those that
never got one. Promise: memory is bounded by turns that are open; a line that belongs to no turn is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Line = Mapping[str, Any]
MAX_OPEN = 50_000
"""Turns kept open at once; beyond it the oldest is given out as unfinished."""


class TurnLog(msgspec.Struct):
    """All lines of one turn. `turn` is its canonical line, `events` what its stages said before, in order."""

    rid: str
    turn: Line | None = None
    events: list[Line] = []

    def of(self, *names: str) -> list[Line]:
        """The events of these names."""
        return [line for line in self.events if line.get("event") in names]


class Gatherer:
    """Puts lines together by request id and trace id. `stray` are lines of the process itself."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: dict[tuple[str, object], TurnLog] = {}
        self.stray: dict[str, int] = {}

    def feed(self, line: Line) -> TurnLog | None:
        """Take one line; the turn that it completes, or the one that has to make room."""
        rid = line.get("rid")
        if not isinstance(rid, str):
            event = str(line.get("event"))
            self.stray[event] = self.stray.get(event, 0) + 1
            return None
        key = (rid, line.get("trace_id"))
        if line.get("event") == "turn":
            log = self._open.pop(key, None) or TurnLog(rid)
            log.turn = line
            return log
        log = self._open.get(key) or self._open.setdefault(key, TurnLog(rid))
        log.events.append(line)
        if len(self._open) > MAX_OPEN:
            return self._open.pop(next(iter(self._open)))
        return None

    def close(self) -> Iterator[TurnLog]:
        """The turns without an end."""
        while self._open:
            yield self._open.pop(next(iter(self._open)))

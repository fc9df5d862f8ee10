"""Log lines gathered into turns.

In: one parsed line at a time, of any number of turns and workers, mixed. Out: a TurnLog when a turn's canonical line comes; at the end those that
never got one. Promise: memory is bounded by turns that are open; a line that belongs to no turn is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proxy.explain.process_log import ProcessLog

Line = Mapping[str, Any]
_BESIDE = frozenset({"capture_failed", "bad_request"})
"""What goes wrong beside a turn, with its ids: no fault of the turn, and often logged after its end."""
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
    """Puts lines together by request id and trace id. `process` keeps what belongs to no turn."""

    def __init__(self) -> None:
        """Begin with none."""
        self._open: dict[tuple[str, object], TurnLog] = {}
        self.process = ProcessLog()

    def feed(self, line: Line) -> TurnLog | None:
        """Take one line; the turn that it completes, or the one that has to make room."""
        rid = line.get("rid")
        if not isinstance(rid, str):
            self.process.feed(line)
            return None
        key = (rid, line.get("trace_id"))
        if line.get("event") == "turn":
            log = self._open.pop(key, None) or TurnLog(rid)
            log.turn = line
            return log
        if line.get("event") in _BESIDE:
            self.process.feed(line)
            return None
        log = self._open.get(key) or self._open.setdefault(key, TurnLog(rid))
        log.events.append(line)
        return self._oldest() if len(self._open) > MAX_OPEN else None

    def close(self) -> Iterator[TurnLog]:
        """The turns without an end."""
        while self._open:
            log = self._oldest()
            if log is not None:
                yield log

    def _oldest(self) -> TurnLog | None:
        """Give out the oldest open turn, unless it was none: faults are also logged of requests that are no turns, a token count for example."""
        log = self._open.pop(next(iter(self._open)))
        if all(line.get("event") == "unexpected" for line in log.events):
            for line in log.events:
                self.process.feed(line)
            return None
        return log

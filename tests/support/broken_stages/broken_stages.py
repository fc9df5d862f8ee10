"""Stages that do what a stage must not: for incidents. Loaded by entry point, as anybody's would be.

`careless` raises while an answer goes through it, in every second attempt. `doubling` gives every call twice, under one number. `dawdling` blocks the
event loop for as long as its option `seconds` says.
"""

from __future__ import annotations

import itertools
import time

from pipeline.events import CallDone, End, Event
from pipeline.settings import Settings
from pipeline.stage import Note, Receiver
from pipeline.turn import Turn


class Careless:
    """Raises in every second attempt."""

    name = "careless"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        self._count = itertools.count()

    def prepare(self, turn: Turn, note: Note) -> Turn:
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return _Raising() if next(self._count) % 2 else None


class _Raising:
    def feed(self, event: Event) -> list[Event]:
        raise RuntimeError("a bug of this stage")

    def close(self, end: End) -> list[Event]:
        raise RuntimeError("a bug of this stage")


class Doubling:
    """Gives every call twice."""

    name = "doubling"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        pass

    def prepare(self, turn: Turn, note: Note) -> Turn:
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return _Twice()


class _Twice:
    def feed(self, event: Event) -> list[Event]:
        return [event, event] if isinstance(event, CallDone) else [event]

    def close(self, end: End) -> list[Event]:
        return [end]


class Dawdling:
    """Blocks the event loop."""

    name = "dawdling"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        self._seconds = float(str(settings.stages.get(self.name, {}).get("seconds", 0.0)))

    def prepare(self, turn: Turn, note: Note) -> Turn:
        time.sleep(self._seconds)
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return None

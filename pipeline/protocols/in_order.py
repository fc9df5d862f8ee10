"""Puts the events of an answer into an order that every protocol can write down.

In: events as they came, in which begun calls may overlap each other and text (native upstreams do that). Out: the same events, those of a
begun call together, from its `CallBegun` to its `CallDone`; what arrives meanwhile waits behind it (CS05, AS04, RS03). Promise: nothing
is lost, nothing is held while no call is open, and then the very same sequence comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Event


class InOrder:
    """Holds back what would stand inside a call."""

    __slots__ = ("_open", "_waiting")

    def __init__(self) -> None:
        """Begin with no call open."""
        self._open: int | None = None
        self._waiting: list[Event] = []

    def feed(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take events, return those whose turn it is."""
        if self._open is None:
            for event in events:
                if type(event) is CallBegun:
                    break
            else:
                return events
        out: list[Event] = []
        self._sort(events, out)
        return out

    def close(self) -> list[Event]:
        """The answer is over: return all that waited, behind a call that was never done."""
        out: list[Event] = []
        while self._open is not None:
            self._open = None
            waiting, self._waiting = self._waiting, []
            self._sort(waiting, out)
        return out

    def _sort(self, events: Sequence[Event], out: list[Event]) -> None:
        queue = list(reversed(events))
        while queue:
            event = queue.pop()
            if self._open is None:
                out.append(event)
                if type(event) is CallBegun:
                    self._open = event.index
            elif isinstance(event, ArgumentsDelta | CallDone) and event.index == self._open:
                out.append(event)
                if type(event) is CallDone:
                    self._open = None
                    queue += reversed(self._waiting)
                    self._waiting = []
            else:
                self._waiting.append(event)

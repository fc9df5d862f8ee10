"""One upstream request and what came of it, as the engine keeps it.

In: reads of the upstream's body. Out: events that went through the reader and every receiver, in order, ending with one End.
Promise: never raises; a stage that does is noted, taken out of this attempt, and the events go on without it (fail open).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.events import BlockSeen, CallBegun, CallDone, End, Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.history.inspection import has_orphan
from pipeline.settings import UpstreamTraits
from pipeline.stage import Reader, Receiver, Watch
from pipeline.text.visible import visible
from pipeline.turn import Turn
from pipeline.verdicts import Cause, ErrorKind, Invariant, Verdict

MAX_ERROR_BODY = 64 << 10


class Attempt:
    """State of one attempt: what it asked, what it read, what it holds."""

    __slots__ = (
        "_begun",
        "_events_after_end",
        "_last",
        "_leaked",
        "_on_stage_error",
        "_receivers",
        "begun",
        "blocks",
        "calls",
        "cause",
        "delivered",
        "end",
        "error_body",
        "first_byte_at",
        "headers",
        "held",
        "held_since",
        "holding",
        "last_byte_at",
        "number",
        "open",
        "passing",
        "reader",
        "reasoned",
        "sent_at",
        "status",
        "target",
        "text",
        "text_chars",
        "turn",
        "verdict",
        "warnings",
        "watch",
        "without",
    )

    def __init__(
        self,
        number: int,
        cause: Cause,
        target: UpstreamTraits,
        turn: Turn,
        receivers: Sequence[tuple[str, Receiver]],
        watch: Watch | None,
        on_stage_error: Callable[[str, Exception], None],
        now: float,
    ) -> None:
        """Begin with nothing read; `receivers` are (stage name, receiver) in order."""
        self.number = number
        self.cause = cause
        self.target = target
        self.turn = turn
        self.without: frozenset[str] = frozenset()
        self.warnings: tuple[str, ...] = ()
        self.passing = False
        self.open = True
        self.sent_at = now
        self.first_byte_at: float | None = None
        self.last_byte_at = now
        self.status = 0
        self.headers: dict[str, str] = {}
        self.error_body = b""
        self.reader: Reader | None = None
        self.watch = watch
        self.holding = True
        self.held: list[Event] = []
        self.held_since: float | None = None
        self.text: list[str] = []
        self.text_chars = 0
        self.calls: list[CallDone] = []
        self.begun = 0
        self.blocks: list[BlockSeen] = []
        self.reasoned = False
        self.end: End | None = None
        self.verdict: Verdict | None = None
        self.delivered: Verdict | None = None  # what a discarded attempt counts as if it is delivered after all
        self._receivers = list(receivers)
        self._on_stage_error = on_stage_error
        self._begun: set[int] = set()
        self._last: Event | None = None
        self._leaked = False
        self._events_after_end = False

    def read(self, data: bytes) -> list[Event]:
        """Events of one read of the body."""
        if self.end is not None or self.reader is None:
            return []
        try:
            events = self.reader.feed(data)
        except Exception as exc:  # noqa: BLE001 - the boundary that keeps a turn alive
            self._on_stage_error("upstream", exc)
            events = [Failed(ErrorKind.INTERNAL, "the answer of the upstream could not be read")]
        return self.take(events) if events else events

    @property
    def finishing(self) -> bool:
        """Whether the upstream said why it stopped and only its usage or its end is still out (U03)."""
        return self.end is None and self.reader is not None and self.reader.finishing

    def finish_reading(self) -> list[Event]:
        """Events that were still due when the body ended in order."""
        if self.end is not None or self.reader is None:
            return []
        try:
            events = self.reader.close()
        except Exception as exc:  # noqa: BLE001
            self._on_stage_error("upstream", exc)
            events = [Failed(ErrorKind.INTERNAL, "the answer of the upstream could not be read")]
        return self.take(events)

    def take(self, events: list[Event]) -> list[Event]:
        """Lead events through the receivers and book what comes out."""
        for at, (name, receiver) in enumerate(self._receivers):
            try:
                events = _through(receiver, events)
            except Exception as exc:  # noqa: BLE001
                self._on_stage_error(name, exc)
                self._receivers[at] = (name, _OPEN)
        return self._book(events)

    def _book(self, events: list[Event]) -> list[Event]:
        for at, event in enumerate(events):
            kind = type(event)
            if kind is TextDelta:
                self.text.append(event.text)  # type: ignore[union-attr]
                self.text_chars += len(event.text)  # type: ignore[union-attr]
            elif kind is CallDone:
                self.calls.append(event)  # type: ignore[arg-type]
                self._look_back(event, events[at - 1] if at else self._last)  # type: ignore[arg-type]
            elif kind is CallBegun:
                self.begun += 1
                self._begun.add(event.index)  # type: ignore[union-attr]
            elif kind is ReasoningDelta:
                self.reasoned = True
            elif kind is BlockSeen:
                self.blocks.append(event)  # type: ignore[arg-type]
            elif kind is Finish or kind is Failed:
                self.end = event  # type: ignore[assignment]
                self._events_after_end = len(events) > at + 1
                return events[:at]
        if events:
            self._last = events[-1]
        return events

    def _look_back(self, call: CallDone, before: Event | None) -> None:
        """Was what lies just before a call, as text, a part of the call?"""
        if type(before) is TextDelta and call.span[0] < before.span[1] <= call.span[1]:
            self._leaked = True

    def broken_promises(self) -> list[Invariant]:
        """What the request and the events that left the receivers broke of a stage's promises. Ours keep them; a deployment's own may not."""
        found = []
        if has_orphan(self.turn.messages):
            found.append(Invariant.ORPHAN_RESULT)
        done = [call.index for call in self.calls]
        if len(set(done)) < len(done):
            found.append(Invariant.DUPLICATE_ID)
        if sorted(set(done)) != list(range(len(set(done)))):
            found.append(Invariant.INDEX_GAP)
        if isinstance(self.end, Finish) and not self._begun.issubset(done):
            found.append(Invariant.DANGLING_CALL)
        if self._leaked:
            found.append(Invariant.LEAKED_FRAGMENT)
        if self._events_after_end:
            found.append(Invariant.EVENT_AFTER_END)
        return found

    def let_go(self) -> None:
        """Forget whom to tell: the engine and its attempts would else hold each other until the collector comes, with all they have read."""
        self._on_stage_error = _nobody

    @property
    def has_words(self) -> bool:
        """Whether it says anything that can be seen."""
        return any(map(visible, self.text))

    @property
    def gave_something(self) -> bool:
        """Whether anything a client could see came of it."""
        return bool(self.text_chars or self.calls or self.begun or self.reasoned)


def _through(receiver: Receiver, events: list[Event]) -> list[Event]:
    if len(events) == 1:
        event = events[0]
        return receiver.close(event) if isinstance(event, Finish | Failed) else receiver.feed(event)
    out: list[Event] = []
    for event in events:
        if isinstance(event, Finish | Failed):
            out += receiver.close(event)
            break
        out += receiver.feed(event)
        if out and isinstance(out[-1], Finish | Failed):
            break
    return out


class _Open:
    """What stands in for a receiver that failed: events go through."""

    def feed(self, event: Event) -> list[Event]:
        return [event]

    def close(self, end: End) -> list[Event]:
        return [end]


_OPEN = _Open()


def _nobody(_: str, __: Exception) -> None:
    """Hear of a failed stage when the turn is over."""

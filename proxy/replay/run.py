"""The engine on its own, fed what was captured: attempt by attempt, read by read, at the times at which it came, with every tick between.

In: a capture and the plans of today's configuration. Out: what the turn comes to now. Promise: no socket is opened and no clock is read; the same
capture gives the same result. An attempt that today's pipeline makes and that was never made then finds nobody there.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pipeline.commands import Abort, Command, Done, Emit, Ended, Happening, Head, Lost, Opened, Received, Send, Tick, Wait
from pipeline.events import Failed
from pipeline.exchange import Exchange
from pipeline.protocols.errors import error_response
from pipeline.stage import Note, StageError
from pipeline.verdicts import Noted, UpstreamOutcome, Verdict
from proxy.auth import Gate
from proxy.config.tree import Limits
from proxy.intake import Intake
from proxy.replay.captured import Answered, Captured
from proxy.routing import Plan
from proxy.telemetry.capture import COMPLETE, bytes_of
from proxy.telemetry.turn_line import Measured, turn_fields

_MAX_TICKS = 10_000


class Noticed(msgspec.Struct, frozen=True):
    """What a stage said on the way."""

    stage: str
    attempt: int
    noted: Noted
    fields: dict[str, Any]


class Replayed(msgspec.Struct):
    """What the turn comes to now. `requests` went upstream, by attempt; `unanswered` are attempts that were not made then."""

    turn: dict[str, Any]
    client: bytes
    requests: dict[int, bytes]
    unanswered: list[int]
    notes: list[Noticed]


class Plans:
    """Today's routes, as `Intake` asks for them."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        """Take them in order."""
        self.plans = tuple(plans)

    def find(self, model: str) -> Plan | None:
        """The first route that takes this model."""
        return next((plan for plan in self.plans if plan.takes(model)), None)


def replay(captured: Captured, plans: Plans, limits: Limits) -> Replayed:
    """Run one captured turn."""
    notes: list[Noticed] = []

    def bind(stage: str, attempt: int) -> Note:
        return lambda noted, /, **fields: notes.append(Noticed(stage, attempt, noted, fields))

    request = captured.request
    intake = Intake(limits, Gate(()), plans)
    try:
        turn, plan = intake.turn(request.api, bytes_of(request.body), request.headers, captured.rid)
    except StageError as exc:
        return _refused(captured, exc.failed)
    exchange = Exchange(plan.chain, turn, plan.targets, bind, {}, 0.0)
    stage = _Stage(exchange, captured)
    stage.play()
    record = exchange.record
    record.history_repairs = record.history_repairs or sum(
        one.fields.get("count") or 1 for one in notes if one.noted is Noted.HISTORY_REPAIRED
    )
    fields = turn_fields(record, Measured(model=plan.label, out_bytes=len(stage.client)))
    return Replayed(fields, bytes(stage.client), stage.requests, stage.unanswered, notes)


def _refused(captured: Captured, failed: Failed) -> Replayed:
    status, _, body = error_response(captured.request.api, failed, captured.rid)
    turn = {"verdict": Verdict.REJECTED, "status": status, "error_kind": failed.kind, "attempts": 0}
    return Replayed(turn, body, {}, [], [])


class _Stage:
    """Plays the sockets and the clock for one exchange."""

    def __init__(self, exchange: Exchange, captured: Captured) -> None:
        self._exchange = exchange
        self._answers = {one.number: one for one in captured.attempts}
        self._due: list[tuple[float, int, Happening]] = []
        self._order = itertools.count()
        self._aborted: set[int] = set()
        self._wake: float | None = None
        self._done = False
        self.client = bytearray()
        self.requests: dict[int, bytes] = {}
        self.unanswered: list[int] = []

    def play(self) -> None:
        """To the end. A turn that only waits is given its ticks until it gives up."""
        now, ticks = 0.0, 0
        self._carry(self._exchange.start(now), now)
        while not self._done and ticks < _MAX_TICKS:
            if self._due and (self._wake is None or self._due[0][0] <= self._wake):
                at, _, happening = heapq.heappop(self._due)
                if getattr(happening, "attempt", 0) in self._aborted:
                    continue
            elif self._wake is not None:
                at, happening = self._wake, Tick()
                self._wake = None
                ticks += 1
            else:
                return
            now = max(now, at)
            self._carry(self._exchange.receive(happening, now), now)

    def _carry(self, commands: Sequence[Command], now: float) -> None:
        for command in commands:
            if isinstance(command, Emit):
                self.client += command.data
            elif isinstance(command, Send):
                self._send(command, now)
            elif isinstance(command, Wait):
                self._wake = command.until
            elif isinstance(command, Abort):
                self._aborted.add(command.attempt)
            elif isinstance(command, Done):
                self._done = True
            elif isinstance(command, Head):
                continue

    def _send(self, send: Send, now: float) -> None:
        self.requests[send.attempt] = send.request.body
        answer = self._answers.get(send.attempt)
        if answer is None:
            self.unanswered.append(send.attempt)
            self._put(now, Lost(send.attempt, UpstreamOutcome.CONNECT))
            return
        for at, happening in _happenings(answer):
            self._put(max(at, now), happening)

    def _put(self, at: float, happening: Happening) -> None:
        heapq.heappush(self._due, (at, next(self._order), happening))


def _happenings(answer: Answered) -> Iterator[tuple[float, Happening]]:
    number = answer.number
    if answer.status:
        yield answer.opened_ms / 1000, Opened(number, answer.status, answer.headers)
        for at, data in answer.timed():
            yield at, Received(number, data)
    end = answer.end_s
    if end is None:
        return  # we closed it then: what it would have said is not known
    yield end, Ended(number) if answer.ended == COMPLETE else Lost(number, UpstreamOutcome(answer.ended))

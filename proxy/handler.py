"""THE driver: carries the engine's commands out and brings it what happens. One for each turn.

    handler task        start, then waits for Done; its cancellation means that the client left
    one task an attempt sends upstream, hands in every read, carries out what comes back, inline
    one timer           hands in a Tick when the engine's Wait has come

Whoever hands something in holds the turn's lock until its commands are carried out, so the engine sees one thing after another, and a slow
client slows its upstream down. Nothing is queued. However a turn ends, its tasks end and its upstreams are closed. Times are
`time.monotonic`: uvloop's own clock stands still within a round of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from time import monotonic
from typing import Protocol

from aiohttp import web

from pipeline.commands import (
    Abort,
    ClientGone,
    Command,
    Done,
    Draining,
    Emit,
    Ended,
    Happening,
    Head,
    Learn,
    Lost,
    Opened,
    Received,
    Send,
    Tick,
    Wait,
)
from pipeline.exchange import Exchange
from pipeline.verdicts import UpstreamOutcome
from proxy.client import Client
from proxy.headers import passed_on, processing_ms
from proxy.telemetry.ledger import Ledger
from proxy.transport import TransportError


class UpstreamAnswer(Protocol):
    """What the transport gives for a request: raw body bytes as they arrive (TransportError when the body is cut)."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body."""

    def abort(self) -> None:
        """Close the connection at once."""


_ROUNDING_S = 0.001
"""Event loops count in milliseconds: a Tick that comes too early would only be asked for again."""
Sender = Callable[[Send], Coroutine[None, None, UpstreamAnswer]]
"""Starts an upstream request with the keys and headers that belong to it. Raises TransportError."""


class TurnDriver:
    """Runs one exchange over one client connection."""

    __slots__ = (
        "_answers",
        "_clean",
        "_client",
        "_exchange",
        "_learn",
        "_ledger",
        "_lock",
        "_loop",
        "_over",
        "_sender",
        "_tasks",
        "_timer",
        "_told_gone",
        "_upstream_headers",
        "busy_s",
    )

    def __init__(
        self,
        exchange: Exchange,
        client: Client,
        sender: Sender,
        ledger: Ledger,
        learn: Callable[[str, str], None],
    ) -> None:
        """`learn` keeps what an upstream refuses."""
        self._exchange = exchange
        self._client = client
        self._sender = sender
        self._ledger = ledger
        self._learn = learn
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._answers: dict[int, UpstreamAnswer | None] = {}
        self._upstream_headers: Mapping[str, str] = {}
        self._told_gone = False
        self.busy_s = 0.0
        self._clean = False

    async def run(self) -> web.StreamResponse | None:
        """Drive the turn to its end, the client's last byte included; None where the engine never answered.

        Raises CancelledError when the client left, after all is closed.
        """
        try:
            await self._start()
            await self._over
            return await self._client.end(clean=self._clean)
        except asyncio.CancelledError:
            if not self._client.finished:
                self._client.gone = True
                await self.tell(ClientGone())
            raise
        finally:
            await self._close()

    async def drain(self) -> None:
        """The process must end: close the turn with the protocol's error."""
        await self.tell(Draining())

    # --- handing in -----------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._lock:
            begun = monotonic()
            await self._carry(self._exchange.start(begun))
            self.busy_s += monotonic() - begun

    async def tell(self, happening: Happening) -> None:
        """Hand one happening in and carry out what the engine says to it."""
        async with self._lock:
            begun, waited = monotonic(), self._client.waited_s
            await self._carry(self._exchange.receive(happening, begun))
            if self._client.gone and not self._told_gone:
                self._told_gone = True
                await self._carry(self._exchange.receive(ClientGone(), monotonic()))
            self.busy_s += monotonic() - begun - (self._client.waited_s - waited)

    async def _carry(self, commands: list[Command]) -> None:
        for command in commands:
            kind = type(command)
            if kind is Emit:
                await self._client.write(command.data)  # type: ignore[union-attr]
            elif isinstance(command, Wait):
                self._wake_at(command.until)
            elif isinstance(command, Send):
                self._spawn(partial(self._attempt, command), command.attempt)
            elif isinstance(command, Head):
                record = self._exchange.record
                spent = processing_ms(record.api, monotonic() - record.started)
                await self._client.open(command, (*passed_on(self._upstream_headers, command.status), *spent))
            elif isinstance(command, Abort):
                self._abort(command.attempt)
            elif isinstance(command, Learn):
                self._learn(command.target, command.parameter)
            elif isinstance(command, Done):
                self._clean = command.clean
                if not self._over.done():
                    self._over.set_result(None)

    # --- upstream -------------------------------------------------------------------------------------------------------------

    async def _attempt(self, send: Send) -> None:
        number = send.attempt
        self._answers[number] = None
        sent = monotonic()
        try:
            answer = await self._sender(send)
        except TransportError as exc:
            await self.tell(Lost(number, exc.outcome))
            return
        self._answers[number] = answer
        self._upstream_headers = answer.headers
        try:
            await self.tell(Opened(number, answer.status, answer.headers))
            first = True
            async for data in answer:
                if first:
                    first = False
                    self._ledger.upstream_first_byte(send.target, monotonic() - sent)
                self._ledger.measured.read(len(data))
                await self.tell(Received(number, data))
                if number not in self._answers:
                    return
            await self.tell(Ended(number))
        except TransportError as exc:
            await self.tell(Lost(number, exc.outcome))
        finally:
            if self._answers.pop(number, None) is not None:  # else it was aborted already
                answer.abort()

    def _abort(self, number: int) -> None:
        answer = self._answers.pop(number, None)
        if answer is not None:
            answer.abort()
        current = asyncio.current_task()
        for task, its in self._tasks.items():
            if its == number and task is not current:  # the current one sees it after this command
                task.cancel()

    # --- tasks and time -------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Callable[[], Coroutine[None, None, None]], number: int) -> None:
        task = self._loop.create_task(self._guarded(work, number))
        self._tasks[task] = number
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    async def _guarded(self, work: Callable[[], Coroutine[None, None, None]], number: int) -> None:
        """Do the work, which begins here: a task that is cancelled before its first step leaves no coroutine behind that nobody awaits."""
        try:
            await work()
        except Exception as exc:  # noqa: BLE001 - a fault here must end as an error of the turn, not as a client that waits for ever
            self._ledger.unexpected("driver", exc)
            if number:
                await self.tell(Lost(number, UpstreamOutcome.CUT))

    def _wake_at(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(until - monotonic(), 0.0) + _ROUNDING_S, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._spawn(partial(self.tell, Tick()), 0)

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

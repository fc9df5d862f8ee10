"""How many turns run at once, and who waits. First come, first served.

In: a turn that wants to begin. Out: a place, or a refusal that says when to come back (E8). Promise: a place is given back exactly once; a
waiting client that leaves gives its turn to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import ErrorKind
from proxy.config.tree import Limits
from proxy.telemetry.catalogue import Reject


class Admission:
    """Counts the running turns and lets them in."""

    def __init__(self, limits: Limits, on_reject: Callable[[Reject], None]) -> None:
        """`on_reject` hears why a turn was turned away."""
        self._limits = limits
        self._on_reject = on_reject
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def saturated(self) -> bool:
        """Whether a further turn would have to wait."""
        return bool(self._limits.max_concurrency) and self.running >= self._limits.max_concurrency

    def ticket(self) -> Ticket:
        """For one turn: it takes its place when it comes to that, and gives it back when it is over."""
        return Ticket(self)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place at once, for as long as the block runs. Raises what `Ticket.take` raises."""
        with self.ticket() as ticket:
            await ticket.take()
            yield

    async def enter(self) -> None:
        """Take a place, to be given back with `leave`."""
        if self._closed:
            raise self._refusal(Reject.DRAINING, ErrorKind.SHUTTING_DOWN, "it is shutting down")
        if self.saturated or self._waiting:
            await self._wait()
        else:
            self.running += 1

    async def _wait(self) -> None:
        if len(self._waiting) >= self._limits.max_queue:
            raise self._refusal(Reject.QUEUE_FULL, ErrorKind.RATE_LIMIT, "too many requests are waiting")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await place
        except BaseException as exc:
            if place in self._waiting:
                self._waiting.remove(place)
            elif place.done() and not place.cancelled() and place.exception() is None:
                self.leave()  # the place came in the same moment: hand it on
            if isinstance(exc, TimeoutError):
                raise self._refusal(Reject.QUEUE_TIMEOUT, ErrorKind.OVERLOADED, "no place became free in time") from None
            raise

    def close(self) -> None:
        """Turn away those who wait, and everybody from now on."""
        self._closed = True
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(self._refusal(Reject.DRAINING, ErrorKind.SHUTTING_DOWN, "it is shutting down"))

    def leave(self) -> None:
        """Hand the place to the longest waiting turn, or free it."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)  # `running` stays: the place changes hands
                return
        self.running -= 1

    def _refusal(self, why: Reject, kind: ErrorKind, message: str) -> StageError:
        self._on_reject(why)
        return StageError(Failed(kind, f"The server is busy: {message}.", retry_after=str(self._limits.retry_after_s), retryable=True))


class Ticket:
    """One turn's place, taken once, given back when the block ends."""

    __slots__ = ("_admission", "_taken")

    def __init__(self, admission: Admission) -> None:
        """Begin without a place."""
        self._admission = admission
        self._taken = False

    async def take(self) -> None:
        """Wait for the place, where it is not there yet.

        Raises StageError: RATE_LIMIT when the queue is full, OVERLOADED when the wait was too long, SHUTTING_DOWN at the end of the process.
        """
        if not self._taken:
            await self._admission.enter()
            self._taken = True

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the place back."""
        if self._taken:
            self._taken = False
            self._admission.leave()

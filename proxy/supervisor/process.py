"""One worker process as its supervisor sees it: born of an order, ready, alive, ended.

In: an order. Out: futures for `ready` and `ended`, the time of the last sign of life. Promise: the child inherits the link and its own sockets and
nothing else; it is no member of the supervisor's process group, so that Ctrl-C reaches the supervisor alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Any

from proxy.supervisor.link import Hearing, Order, Said, line_of

PROGRAM = "proxy.supervisor.worker"
_KILLED_S = 10.0
"""How long a killed process is waited for: one that hangs in the kernel ends when the kernel lets it."""


class WorkerProcess:
    """A running worker. `ended` has its exit code, negative for a signal; it is set by whoever reaps."""

    def __init__(self, order: Order, environ: Mapping[str, str], drain_s: float) -> None:
        """Start it; `drain_s` is what its configuration gives a drain. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.worker = order.worker
        self.drain_s = drain_s
        self.born = self.last_alive = monotonic()
        self.ready: asyncio.Future[Said] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()
        self.dismissed = False
        """Told to end: its end is no crash."""
        ours, theirs = socket.socketpair()
        try:
            self.pid = _spawn(order, environ, theirs.fileno())
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._link = ours
        self._task = loop.create_task(self._talk(line_of(order)))

    async def _talk(self, order: bytes) -> None:
        loop = asyncio.get_running_loop()
        hearing = Hearing(self._heard)
        with contextlib.suppress(OSError):
            await loop.sock_sendall(self._link, order)
            while data := await loop.sock_recv(self._link, 65536):
                hearing.feed(data)

    def _heard(self, said: Said) -> None:
        self.last_alive = monotonic()
        if said.what == "ready" and not self.ready.done():
            self.ready.set_result(said)

    async def started(self, within_s: float) -> Said | None:
        """What it says when it is ready; None when it ended first, or took too long (then it is killed)."""
        either: tuple[asyncio.Future[Any], ...] = (self.ready, self.ended)
        await asyncio.wait(either, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if self.ended.done():
            return None
        if not self.ready.done():
            self.kill()
            await asyncio.wait((self.ended,), timeout=_KILLED_S)
            return None
        return self.ready.result()

    async def over(self) -> int:
        """Its exit code, once it has ended. Waiting for it may be cancelled; awaiting `ended` itself would cancel that for everybody."""
        await asyncio.wait((self.ended,))
        return self.ended.result()

    def tell(self, said: Said) -> None:
        """Say something to it. One that does not read is not waited for."""
        with contextlib.suppress(OSError):
            self._link.send(line_of(said))

    def replaced(self) -> None:
        """Another process has taken its place: let it drain."""
        self.dismissed = True
        self.tell(Said("replaced"))

    def terminate(self) -> None:
        """SIGTERM: let it drain, or end at once when it drains already."""
        self.dismissed = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended.done():  # afterwards the number may be somebody else's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def close(self) -> None:
        """Forget it, once it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._link.close()


def _spawn(order: Order, environ: Mapping[str, str], link: int) -> int:
    """Start the program with these file descriptors. `-P`: whatever folder this runs in, the worker is of the same installation."""
    fds = [link, *order.public, *order.admin]
    for fd in fds:
        os.set_inheritable(fd, True)
    try:
        command = [sys.executable, "-P", "-m", PROGRAM, str(order.worker), str(link)]
        return os.posix_spawn(sys.executable, command, dict(environ), setpgroup=0)
    finally:
        for fd in fds:
            os.set_inheritable(fd, False)

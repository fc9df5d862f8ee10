"""One worker's place: a process is started in it, watched, restarted when it crashes, replaced when asked.

    first crash           restarted at once; its socket stays open, connections wait the moment it takes
    crash after crash     0.5 s, 1 s, 2 s ... 30 s pass before the next start; meanwhile its socket is closed, so that nobody waits
    a minute of life      all is forgiven

A replacement starts beside the old process, on the same sockets; only when it is ready is the old one told to drain. From then on it is the new
one that is watched over, and the old one has the time of its drain: one that is still there afterwards is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from proxy.supervisor.link import Said
from proxy.supervisor.process import WorkerProcess
from proxy.supervisor.sockets import WorkerSockets

START_S = 60.0
"""How long a worker may take to be ready."""
FAREWELL_S = 10.0
"""What a drain may take beyond its lame duck and its wait for turns; how long a process that was told again, or killed, may take to be gone."""


class Backoff:
    """How long to wait before the next start."""

    first_s = 0.5
    longest_s = 30.0
    forgiven_s = 60.0

    def __init__(self) -> None:
        """Begin with no failure."""
        self._failures = 0

    def failed(self, lived_s: float) -> float:
        """A process ended that lived for so long. Returns the seconds to wait, 0 for none."""
        if lived_s >= self.forgiven_s:
            self._failures = 0
        self._failures += 1
        return 0.0 if self._failures == 1 else min(self.first_s * 2 ** (self._failures - 2), self.longest_s)


class Spawn(Protocol):
    """Starts a process for this worker with these sockets. Raises OSError."""

    def __call__(self, worker: int, sockets: WorkerSockets, *, reloaded: bool) -> WorkerProcess:
        """The running process."""


class Slot:
    """The place of worker number `worker`. `processes` are all that run in it: one, or two while one replaces the other."""

    def __init__(self, worker: int, sockets: WorkerSockets, spawn: Spawn, log: FilteringBoundLogger) -> None:
        """Begin empty."""
        self.worker = worker
        self.sockets = sockets
        self.processes: set[WorkerProcess] = set()
        self._spawn = spawn
        self._log = log.bind(worker=worker)
        self._current: WorkerProcess | None = None
        self._backoff = Backoff()
        self._moved = asyncio.Event()
        """Another process has become the current one."""
        self._watching: set[asyncio.Task[None]] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._keeping: asyncio.Task[None] | None = None
        self._closing = False

    # --- starting ---------------------------------------------------------------------------------------------------------------

    async def start(self) -> Said | None:
        """Start the first process and watch over the place from then on. Returns what it says when it is ready, None when it cannot be had."""
        said = await self._begin(reloaded=False)
        if said is not None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep())
        return said

    async def _begin(self, *, reloaded: bool) -> Said | None:
        """Start a process; once ready it is the current one, and the one before may drain. None when it did not become ready, which is logged."""
        try:
            process = self._spawn(self.worker, self.sockets, reloaded=reloaded)
        except OSError as exc:
            self._log.error("worker_not_started", error=type(exc).__name__)
            return None
        self.processes.add(process)
        _remember(self._watching, self._watch(process))
        said = await process.started(START_S)
        if said is None:
            if not process.dismissed:
                self._log.error("worker_not_started", exit=process.ended.result() if process.ended.done() else None)
            return None
        before, self._current = self._current, process
        self._moved.set()
        if before is not None:
            before.replaced()
            if not before.ended.done():
                _remember(self._retiring, self._retire(before))
        self._log.info("worker_ready", pid=process.pid, start_ms=round((monotonic() - process.born) * 1000))
        return said

    async def _retire(self, process: WorkerProcess) -> None:
        """See a process off that was told to drain. A disk or a loop that is stuck must not keep it, nor the reload that waits for it."""
        if await _ends(process, process.drain_s + FAREWELL_S):
            return
        self._log.error("worker_overdue", pid=process.pid)
        process.terminate()
        if await _ends(process, FAREWELL_S):
            return
        process.kill()
        if not await _ends(process, FAREWELL_S):
            self._log.error("worker_not_killed", pid=process.pid)  # it waits in the kernel: nobody can end it, and nobody waits for it

    async def _watch(self, process: WorkerProcess) -> None:
        code = await process.over()
        self.processes.discard(process)
        lived = round(monotonic() - process.born, 3)
        if process.ready.done():
            level: Callable[..., Any] = self._log.info if process.dismissed and code == 0 else self._log.error
            level("worker_ended", pid=process.pid, exit=code, lived_s=lived)
        await process.close()

    # --- keeping ----------------------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """See to it that a process runs in this place."""
        while True:
            process = self._current
            if process is None or process.ended.done():
                await self._restart(0.0 if process is None else monotonic() - process.born)
            else:
                await self._over_or_succeeded(process)
            if self._closing:
                return

    async def _over_or_succeeded(self, process: WorkerProcess) -> None:
        """Wait until this process has ended or is not the current one any more: the other one may end first."""
        self._moved.clear()
        succeeded = asyncio.ensure_future(self._moved.wait())
        try:
            either: tuple[asyncio.Future[Any], ...] = (process.ended, succeeded)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            succeeded.cancel()

    async def _restart(self, lived_s: float) -> None:
        delay = self._backoff.failed(lived_s)
        self._current = None
        self._moved.clear()
        if delay:
            self._log.warning("worker_waits", delay_s=delay)
            self.sockets.pause()
            await asyncio.sleep(delay)
            if self._moved.is_set():  # a reload came first
                return
        try:
            self.sockets.open()
        except OSError as exc:
            self._log.error("socket_not_opened", error=type(exc).__name__)
            return
        await self._begin(reloaded=False)

    def end_stuck(self, after_s: float) -> None:
        """Kill a process that has shown no sign of life for so long: its event loop is stuck."""
        for process in self.processes:
            silent = monotonic() - process.last_alive
            if process.ready.done() and silent > after_s:
                self._log.error("worker_stuck", pid=process.pid, silent_s=round(silent, 1))
                process.kill()

    def forgive_silence(self) -> None:
        """The supervisor itself did not run: what it did not hear tells nothing."""
        for process in self.processes:
            process.last_alive = monotonic()

    # --- replacing and ending ---------------------------------------------------------------------------------------------------

    async def replace(self) -> bool:
        """Put a new process in the old one's place and wait until the old one has drained, or had its time. False when no new one could be had."""
        self.sockets.open()
        if await self._begin(reloaded=True) is None:
            return False
        while self._retiring:
            await asyncio.wait(set(self._retiring))
        return True

    def tell(self, said: Said) -> None:
        """Say something to whoever runs here."""
        for process in self.processes:
            process.tell(said)

    async def close(self) -> None:
        """Stop keeping: from now on what ends stays ended. Processes go on; `terminate` and `gone` are for them."""
        self._closing = True
        self.sockets.close()
        tasks = [*self._retiring, *([self._keeping] if self._keeping is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def terminate(self, *, again: bool = False) -> None:
        """Let every process drain; one that drains already is left alone unless `again`."""
        for process in self.processes:
            if again or not process.dismissed:
                process.terminate()

    def kill(self) -> None:
        """End every process at once."""
        for process in self.processes:
            process.kill()

    async def gone(self) -> None:
        """Wait until no process is left."""
        while self._watching:
            await asyncio.wait(set(self._watching))


def _remember(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Run this and keep it among these tasks until it is done."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _ends(process: WorkerProcess, within_s: float) -> bool:
    await asyncio.wait((process.ended,), timeout=within_s)
    return process.ended.done()

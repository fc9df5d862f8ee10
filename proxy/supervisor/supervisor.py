"""The supervisor: opens the sockets, starts the workers, and stays. It serves nothing itself.

    SIGHUP            reads the configuration anew; workers are replaced one by one, each when its successor is ready. A faulty
                      configuration, or a successor that does not start, leaves everything as it is
    SIGTERM, SIGINT   all workers drain; a second one ends them at once
    SIGCHLD           children are reaped, orphans too when it is PID 1

In: a configuration and how to read it again. Out: an exit status. Promise: no worker outlives it, none is waited for longer than a drain may take;
nothing that it says is waited for, whoever reads standard output or standard error, or does not.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from time import monotonic
from typing import Any

import msgspec
from structlog.typing import FilteringBoundLogger

from proxy.config import Config, ConfigError
from proxy.config.write import to_toml
from proxy.reaping import reap
from proxy.supervisor.link import Order, Said
from proxy.supervisor.process import WorkerProcess
from proxy.supervisor.slot import FAREWELL_S, Slot
from proxy.supervisor.sockets import WorkerSockets, open_sockets
from proxy.systemd import Notifier
from proxy.telemetry.logs import describe, lead_libraries, make_logger
from proxy.telemetry.sink import LogSink

_LOOK_EVERY_S = 0.5
STUCK_S = 30.0
"""A worker without a sign of life for so long is killed. systemd's WatchdogSec goes before it."""

OnReady = Callable[[Sequence[Said]], str | None]
"""What to tell a person on standard error once all workers are ready, if anything."""
_WORDS_BYTES = 64 << 10


def supervise(
    config: Config,
    reload: Callable[[], Config],
    environ: Mapping[str, str],
    *,
    given: Sequence[socket.socket] = (),
    notifier: Notifier | None = None,
    on_ready: OnReady | None = None,
) -> int:
    """Run the workers until SIGTERM or SIGINT. Returns the exit status: 1 when the first start failed or a worker had to be killed.

    `reload` reads the configuration again and raises ConfigError. `given` are systemd's sockets. Raises OSError, and ValueError, when the
    sockets cannot be had.
    """
    sockets = open_sockets(config, given)
    sink = LogSink(limit=config.log.buffer_bytes, whole_lines=True)
    words = LogSink(fd=2, limit=_WORDS_BYTES, whole_lines=True)
    try:
        log = make_logger(sink, build=version("toolgraft"))
        lead_libraries(log)
        return asyncio.run(_Supervisor(config, reload, environ, sockets, notifier or Notifier(), log, words).run(on_ready))
    finally:
        sink.close()
        words.close()


class _Supervisor:
    """One run."""

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config],
        environ: Mapping[str, str],
        sockets: Sequence[WorkerSockets],
        notifier: Notifier,
        log: FilteringBoundLogger,
        words: LogSink,
    ) -> None:
        self._config = config
        self._next = config
        """What a process that is started now gets; another one than `_config` in the middle of a reload."""
        self._reload = reload
        self._environ = environ
        self._notifier = notifier
        self._log = log
        self._words = words
        self._salt = os.urandom(16).hex()
        self._children: dict[int, WorkerProcess] = {}
        self._slots = [Slot(at, one, self._spawn, log) for at, one in enumerate(sockets)]
        self._ending = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._reloading = asyncio.Event()

    def _spawn(self, worker: int, sockets: WorkerSockets, *, reloaded: bool) -> WorkerProcess:
        order = Order(worker, to_toml(self._next), sockets.public_fds, sockets.admin_fds, self._salt, reloaded)
        drain = self._next.drain
        process = WorkerProcess(order, self._environ, drain.lame_duck_s + drain.timeout_s)
        self._children[process.pid] = process
        return process

    # --- the run ----------------------------------------------------------------------------------------------------------------

    async def run(self, on_ready: OnReady | None) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._on_child)
        self._on_child()  # whoever ended before there was a handler: orphans of process 1
        loop.add_signal_handler(signal.SIGHUP, self._reloading.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_end)
        watching = [loop.create_task(self._look()), loop.create_task(self._beat())]
        rolling: asyncio.Task[None] | None = None
        try:
            started = await self._until_ending(asyncio.gather(*(slot.start() for slot in self._slots)))
            failed = started is not None and None in started
            if started is not None and not failed:
                said = [one for one in started if one is not None]
                self._log.info("supervising", workers=len(said), addresses=sorted({one.public for one in said}), pid=os.getpid())
                self._notifier.ready(f"{len(said)} workers")
                if on_ready is not None and (words := on_ready(said)):
                    self._words.msg(words.encode())
                rolling = loop.create_task(self._roll())
                await self._ending.wait()
            return await self._end(rolling, status=int(failed))
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _until_ending(self, work: asyncio.Future[list[Said | None]]) -> list[Said | None] | None:
        """The result of this work, or None when the end was asked for first."""
        ending: asyncio.Future[Any] = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return None

    def _on_child(self) -> None:
        for pid, code in reap().items():
            process = self._children.pop(pid, None)
            if process is not None and not process.ended.done():
                process.ended.set_result(code)

    def _on_end(self) -> None:
        (self._hurrying if self._ending.is_set() else self._ending).set()

    async def _look(self) -> None:
        """Kill workers whose event loop is stuck."""
        after_s = self._notifier.watchdog_s or STUCK_S
        looked = monotonic()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            late = monotonic() - looked - _LOOK_EVERY_S
            looked = monotonic()
            for slot in self._slots:
                if late > _LOOK_EVERY_S:
                    slot.forgive_silence()
                else:
                    slot.end_stuck(after_s)

    async def _beat(self) -> None:
        """Tell systemd that this loop runs. Workers are this program's own business."""
        while self._notifier.period_s is not None:
            self._notifier.alive()
            await asyncio.sleep(self._notifier.period_s)

    # --- replacing --------------------------------------------------------------------------------------------------------------

    async def _roll(self) -> None:
        """Replace all workers whenever asked; what is asked for meanwhile is done afterwards, once."""
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            self._notifier.reloading()
            try:
                await self._replace_all()
            except Exception as exc:  # noqa: BLE001 - the next reload must find somebody here
                self._next = self._config
                self._log.error("unexpected", place="reload", **describe(exc))
                self._reload_failed("unexpected")
            self._notifier.ready(f"{len(self._slots)} workers")

    async def _replace_all(self) -> None:
        try:
            wanted = self._reload()
        except ConfigError as exc:
            for problem in exc.problems:
                self._words.msg(problem.encode("utf-8", "backslashreplace"))
            self._reload_failed("configuration")
            return
        config, kept = _same_sockets(wanted, self._config)
        if kept:
            self._log.warning("restart_needed", keys=kept)
        self._next = config
        self._log.info("reloading", changed=config != self._config)
        for slot in self._slots:
            if not await self._replaced(slot):
                self._next = self._config  # a crashed worker comes back with what is known to work
                self._reload_failed("worker")
                return
        self._config = config
        self._log.info("reloaded")

    async def _replaced(self, slot: Slot) -> bool:
        try:
            return await slot.replace()
        except OSError:
            return False

    def _reload_failed(self, why: str) -> None:
        self._log.error("reload_failed", why=why)
        for slot in self._slots:
            slot.tell(Said("reload_failed"))

    # --- ending -----------------------------------------------------------------------------------------------------------------

    async def _end(self, rolling: asyncio.Task[None] | None, status: int) -> int:
        """Drain everything; whoever is not gone when a drain should be over is killed."""
        self._notifier.stopping()
        self._log.info("stopping")
        if rolling is not None:
            rolling.cancel()
            await asyncio.gather(rolling, return_exceptions=True)
        for slot in self._slots:
            await slot.close()
            slot.terminate()
        gone = asyncio.gather(*(slot.gone() for slot in self._slots))
        drain = self._config.drain
        if not await self._wait(gone, drain.lame_duck_s + drain.timeout_s + FAREWELL_S, self._hurrying.wait()):
            for slot in self._slots:
                slot.terminate(again=True)
            if not await self._wait(gone, FAREWELL_S):
                status = 1
                self._log.error("workers_killed")
                for slot in self._slots:
                    slot.kill()
                await self._wait(gone, FAREWELL_S)  # one that hangs in the kernel ends when the kernel lets it
        self._log.info("supervisor_stopped")
        return status

    async def _wait(self, gone: asyncio.Future[Any], within_s: float, hurry: Awaitable[Any] | None = None) -> bool:
        others = [] if hurry is None else [asyncio.ensure_future(hurry)]
        await asyncio.wait((gone, *others), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for one in others:
            one.cancel()
        return gone.done()


def _same_sockets(wanted: Config, current: Config) -> tuple[Config, list[str]]:
    """The wanted configuration on the sockets that are open, and the keys whose change only a restart brings."""
    listen, admin = current.listen, current.admin
    kept = {
        "listen": {name: getattr(listen, name) for name in ("host", "port", "per_worker_ports", "backlog")},
        "admin": {name: getattr(admin, name) for name in ("enabled", "host", "port")},
    }
    differing = [
        f"{table}.{name}"
        for table, values in kept.items()
        for name, value in values.items()
        if getattr(getattr(wanted, table), name) != value
    ]
    if wanted.workers != current.workers:
        differing.append("workers")
    replaced = {table: msgspec.structs.replace(getattr(wanted, table), **values) for table, values in kept.items()}
    return msgspec.structs.replace(wanted, workers=current.workers, **replaced), differing


def announce(said: Sequence[Said]) -> str | None:
    """What a person at a terminal is told: where the workers listen."""
    if not os.isatty(2):
        return None
    return "\n".join(
        f"Toolgraft listens on http://{address}/v1 with {len(said)} workers" for address in sorted({one.public for one in said})
    )

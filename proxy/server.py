"""One serving process, from its listeners to its drain. Reusable for each worker of a supervisor.

    start    routes and transport, the public listener, the admin listener (its port plus the worker's number)
    drain    not ready, every response says `Connection: close`, still accepting (lame duck); then no new connections, running turns may
             finish; what is left gets the protocol's error; then everything closes

The lame duck is what makes restarts lossless behind a proxy: a listener that closes at once resets what was on its way to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Protocol

import msgspec
from aiohttp import web

from proxy.admin import AdminApp
from proxy.admission import Admission
from proxy.app import App
from proxy.auth import Gate
from proxy.config.secrets import client_keys, upstream_config
from proxy.config.tree import Config
from proxy.http_server import Handle, HttpServer, require_c_parser
from proxy.intake import Intake
from proxy.reaping import reap_orphans
from proxy.routing import Routes, label_of
from proxy.telemetry.capture import CaptureFolder
from proxy.telemetry.catalogue import Names
from proxy.telemetry.logs import lead_libraries, make_logger
from proxy.telemetry.loop_lag import watch_loop
from proxy.telemetry.sink import LogSink
from proxy.telemetry.telemetry import Telemetry
from proxy.transport import Transport
from proxy.turn_endpoint import Shared

_FAREWELL_S = 5.0
"""How long turns that were told to end may take to say so."""
_CONNECTIONS_S = 1.0
_CAPTURE_S = 2.0
"""How long captured turns that wait for their disk may take."""
_QUIET_S = 1.0
"""How long nothing may have come before the last connections are closed: a proxy in front may just be using again the one that fell idle last."""
_GC_THRESHOLDS = (50_000, 20, 50)


class Binding(msgspec.Struct, frozen=True):
    """Who one process is among its like. `worker` counts from 0.

    Listening sockets that are given are taken as they are; without them it opens its own. `salt` makes the fingerprints of client keys the same
    in all workers.
    """

    worker: int = 0
    socks: tuple[socket.socket, ...] = ()
    admin_socks: tuple[socket.socket, ...] = ()
    salt: bytes | None = None


class Addresses(msgspec.Struct, frozen=True):
    """Where it listens in fact. `admin` is None where there is no admin listener."""

    public: tuple[str, int]
    admin: tuple[str, int] | None


class Server:
    """One process's service. `start` once, then `drain` once."""

    def __init__(self, config: Config, environ: Mapping[str, str], sink: LogSink, binding: Binding | None = None) -> None:
        """Build everything that needs no socket. Raises ChainError, SecretError."""
        self._config = config
        self._binding = binding = binding or Binding()
        self._draining = False
        self._started = False
        release = version("toolgraft")
        log = make_logger(sink, worker=binding.worker, build=release)
        self.telemetry = Telemetry(
            names_of(config), log, stages=config.log.stages, sample=config.log.sample, version=release, salt=binding.salt
        )
        sink.on_drop = self.telemetry.metrics["log_lines_dropped"].inc
        upstreams = {name: upstream_config(name, one, environ) for name, one in config.upstreams.items()}
        routes = Routes(config, upstreams, self.telemetry)
        limits = config.limits
        metrics = self.telemetry.metrics
        metrics["admission_limit"].set(limits.max_concurrency)
        self._transport = Transport(upstreams.values())
        self._admission = Admission(limits, metrics["admission_rejects"].inc)
        self._capture = capture = CaptureFolder(config.capture, log) if config.capture.dir else None
        intake = Intake(limits, Gate(client_keys(config.auth, environ)), routes)
        shared = Shared(limits, intake, routes, self._transport, self.telemetry, self._admission, lambda: self._draining, capture)
        self._app = App(shared, config.listen.base_path)
        self._admin = AdminApp(metrics, self._not_ready)
        self._public_runner: web.ServerRunner | None = None
        self._admin_runner: web.ServerRunner | None = None
        self._lag: asyncio.Task[None] | None = None

    def _not_ready(self) -> str | None:
        if self._draining:
            return "draining"
        if not self._started:
            return "starting"
        return "saturated" if self._admission.saturated else None

    async def start(self) -> Addresses:
        """Listen. Raises OSError where an address cannot be had."""
        listen, admin, own = self._config.listen, self._config.admin, self._binding
        self._public_runner = await self._runner(self._app.handle, listen.keepalive_s)
        await _open(
            self._public_runner, own.socks, listen.host, listen.port + (own.worker if listen.per_worker_ports else 0), listen.backlog
        )
        if admin.enabled:
            self._admin_runner = await self._runner(self._admin.handle, 75.0)
            await _open(self._admin_runner, own.admin_socks, admin.host, admin.port and admin.port + own.worker)
        self._lag = asyncio.get_running_loop().create_task(watch_loop(self.telemetry.metrics))
        self._started = True
        addresses = Addresses(_address(self._public_runner), _address(self._admin_runner) if self._admin_runner is not None else None)
        self.telemetry.log.info(
            "listening", address=_text(addresses.public), admin=_text(addresses.admin), stages=list(self._config.stages)
        )
        return addresses

    async def _runner(self, handle: Handle, keepalive_s: float) -> web.ServerRunner:
        server = HttpServer(
            handle, self.telemetry.unexpected, keepalive_s=keepalive_s, header_s=self._config.limits.header_s, not_http=self._not_http
        )
        runner = web.ServerRunner(server, shutdown_timeout=_CONNECTIONS_S)
        await runner.setup()
        return runner

    def _not_http(self, api: str, rid: str) -> None:
        """Bytes that were no request: counted, and on a line with the id that their sender was told."""
        self.telemetry.answered(api, 400)
        self.telemetry.log.warning("bad_request", rid=rid, api=api, status=400)

    async def hand_over(self) -> None:
        """Leave the operator's side to the process that takes this one's place."""
        if self._admin_runner is not None:
            runner, self._admin_runner = self._admin_runner, None
            await runner.cleanup()

    async def drain(self, *, at_once: bool = False) -> None:
        """End in order; `at_once` leaves the lame duck and the wait for running turns out."""
        self._draining = True
        self.telemetry.metrics["draining"].set(1)
        drain = self._config.drain
        self.telemetry.log.info("draining", running=self._admission.running)
        if not at_once:
            await asyncio.sleep(drain.lame_duck_s)
        if self._public_runner is not None:
            for site in list(self._public_runner.sites):
                await site.stop()
        quiet_s = min(_QUIET_S, drain.lame_duck_s)
        if not await self._app.turns.settle(*((0, 0) if at_once else (drain.timeout_s, quiet_s))):
            self.telemetry.log.warning("dismissing", running=self._admission.running)
            self._admission.close()
            await self._app.turns.dismiss()
            await self._app.turns.settle(_FAREWELL_S)
        await self.close()
        self.telemetry.log.info("stopped")

    async def close(self) -> None:
        """Close listeners, connections and the transport."""
        if self._lag is not None:
            self._lag.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._lag
        for runner in (self._public_runner, self._admin_runner):
            if runner is not None:
                await runner.cleanup()
        if self._capture is not None:
            await self._capture.settle(_CAPTURE_S)
        await self._transport.close()


async def _open(runner: web.ServerRunner, socks: tuple[socket.socket, ...], host: str, port: int, backlog: int = 128) -> None:
    sites: list[web.BaseSite] = [web.SockSite(runner, sock, backlog=backlog) for sock in socks]
    for site in sites or [web.TCPSite(runner, host, port, backlog=backlog)]:
        await site.start()


class Overseer(Protocol):
    """Who started this process and wants to know how it fares: systemd, or a supervisor."""

    def ready(self, addresses: Addresses) -> None:
        """The service answers."""

    def stopping(self) -> None:
        """It drains from now on."""

    async def watch(self, server: Server, end: Callable[[], None]) -> None:
        """Run from then on until cancelled: signs of life out, wishes in. `end` asks for the drain."""


def names_of(config: Config) -> Names:
    """The names of this configuration that may be label values."""
    settings = [config.settings, *(route.settings for route in config.routes)]
    dialects = [name for one in settings for name in (one.contract, *one.dialects)]
    return Names(
        models=tuple(label_of(route) for route in config.routes),
        upstreams=tuple(config.upstreams),
        dialects=tuple(dict.fromkeys(dialects)),
        stages=config.stages,
    )


def serve(
    config: Config,
    environ: Mapping[str, str],
    binding: Binding | None = None,
    on_ready: Callable[[Addresses], None] | None = None,
    overseer: Overseer | None = None,
    *,
    shared_output: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends at once. Raises OSError, ChainError, NoCParserError.

    `shared_output`: other processes write lines to the same standard output.
    """
    require_c_parser()
    sink = LogSink(limit=config.log.buffer_bytes, whole_lines=shared_output)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            server = Server(config, environ, sink, binding)
            lead_libraries(server.telemetry.log)
            runner.run(_serve(server, on_ready, overseer))
    finally:
        sink.close()


async def _serve(server: Server, on_ready: Callable[[Addresses], None] | None, overseer: Overseer | None) -> None:
    loop = asyncio.get_running_loop()
    asked, again = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (again if asked.is_set() else asked).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, lambda: server.telemetry.log.warning("hangup_ignored"))
    reaping = loop.create_task(reap_orphans()) if os.getpid() == 1 else None
    try:
        addresses = await server.start()
    except BaseException:
        await server.close()
        raise
    gc.collect()
    gc.freeze()  # what is there now stays; a full collection need not look at it
    gc.set_threshold(*_GC_THRESHOLDS)
    if on_ready is not None:
        on_ready(addresses)
    watching = None
    if overseer is not None:
        overseer.ready(addresses)
        watching = loop.create_task(overseer.watch(server, asked.set))
    await asked.wait()
    if overseer is not None:
        overseer.stopping()
    await _end(server, again)
    for task in (watching, reaping):
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _end(server: Server, again: asyncio.Event) -> None:
    """Drain, at once when asked again."""
    loop = asyncio.get_running_loop()
    draining = loop.create_task(server.drain())
    hurrying = loop.create_task(again.wait())
    await asyncio.wait({draining, hurrying}, return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()
    if not draining.done():
        draining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await draining
        await server.drain(at_once=True)
    else:
        draining.result()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop where it exists: 13 to 26 % less CPU a streamed chunk."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _address(runner: web.ServerRunner) -> tuple[str, int]:
    host, port = runner.addresses[0][:2]
    return host, port


def _text(address: tuple[str, int] | None) -> str | None:
    return None if address is None else f"{address[0]}:{address[1]}"

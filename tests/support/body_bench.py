"""The product's body around fake stages: a real HTTP port, the real driver, an upstream that the test plays by hand.

In: fake stages (`engine_fakes`), limits. Out: a port to talk to, every request that went upstream, the log's lines, the metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from pipeline.chain import Chain
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stage import UpstreamRequest
from pipeline.verdicts import UpstreamOutcome
from proxy.admission import Admission
from proxy.app import App
from proxy.auth import Gate
from proxy.config.tree import Limits, Route
from proxy.http_server import HttpServer
from proxy.intake import Intake
from proxy.routing import Plan, timed
from proxy.telemetry.catalogue import Names
from proxy.telemetry.logs import make_logger
from proxy.telemetry.telemetry import Telemetry
from proxy.transport import TransportError
from proxy.turn_endpoint import Shared
from tests.support.engine_fakes import FakeEncoding, FakeJudge, FakeNormalize, FakeUpstream


class Lines:
    """A sink that keeps lines as values."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def msg(self, line: bytes) -> None:
        self.all.append(orjson.loads(line))

    debug = info = warning = error = msg

    def turns(self) -> list[dict[str, Any]]:
        return [line for line in self.all if line["event"] == "turn"]


class HandAnswer:
    """An upstream's answer that comes piece by piece, as the test says."""

    def __init__(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers = dict(headers or {"content-type": "text/event-stream"})
        self.aborted = asyncio.Event()
        self.aborts = 0
        self._pieces: asyncio.Queue[bytes | UpstreamOutcome | Exception | None] = asyncio.Queue()

    def give(self, *pieces: bytes | UpstreamOutcome | Exception | None) -> None:
        """Bytes; None for an end in order, an outcome for a failure on the wire."""
        for piece in pieces:
            self._pieces.put_nowait(piece)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, UpstreamOutcome):
                raise TransportError(piece)
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def abort(self) -> None:
        self.aborts += 1
        self.aborted.set()


class HandTransport:
    """Answers are taken in order; a request for which none is left waits until its attempt is cancelled."""

    def __init__(self, answers: Sequence[HandAnswer | UpstreamOutcome]) -> None:
        self._answers = list(answers)
        self.sent: list[tuple[str, UpstreamRequest, str | None, dict[str, str]]] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.listed: dict[str, list[str]] = {}

    async def send(
        self, target: str, request: UpstreamRequest, *, client_key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> HandAnswer:
        self.sent.append((target, request, client_key, dict(headers or {})))
        if not self._answers:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        answer = self._answers.pop(0)
        if isinstance(answer, UpstreamOutcome):
            raise TransportError(answer)
        return answer

    async def models(self, target: str, *, client_key: str | None = None) -> list[str]:
        return self.listed.get(target, [])

    async def close(self) -> None:
        pass


class HandRoutes:
    """What `Routes` is to the service, around a chain that the test built."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = tuple(plans)
        self.refused: dict[str, frozenset[str]] = {}

    def find(self, model: str) -> Plan | None:
        return next((plan for plan in self.plans if plan.takes(model)), None)

    def learn(self, upstream: str, parameter: str) -> None:
        self.refused[upstream] = self.refused.get(upstream, frozenset()) | {parameter}


class Service:
    """The running body."""

    def __init__(self, app: App, telemetry: Telemetry, lines: Lines, routes: HandRoutes, shared: Shared) -> None:
        self.app = app
        self.telemetry = telemetry
        self.lines = lines
        self.routes = routes
        self.shared = shared
        self.closing = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def value(self, sample: str, **labels: str) -> float | None:
        return self.telemetry.metrics.registry.get_sample_value(f"toolgraft_{sample}", labels)

    async def turn(self, within_s: float = 5.0) -> dict[str, Any]:
        """The canonical line, once it is there; it must be the only one."""
        await self.settled(within_s)
        turns = self.lines.turns()
        assert len(turns) == 1, turns
        return turns[0]

    async def settled(self, within_s: float = 5.0) -> None:
        """Wait until no turn runs."""
        assert await self.app.turns.settle(within_s), "a turn did not end"


@asynccontextmanager
async def service(
    transport: HandTransport,
    *,
    stream: bool = True,
    targets: Sequence[str] = ("one",),
    extra: Sequence[Any] = (),
    keys: Sequence[str] = (),
    models: Sequence[str | tuple[str, str]] = ("*",),
    base_path: str = "",
    limits: Limits | None = None,
    stages: Sequence[Any] | None = None,
    log_stages: Any = "all",
    **settings: Any,
) -> AsyncIterator[Service]:
    """Serve on a free port of 127.0.0.1."""
    lines = Lines()
    log = make_logger(lines)
    made_routes = [Route(model=one) if isinstance(one, str) else Route(model=one[0], rewrite=one[1]) for one in models]
    telemetry = Telemetry(
        Names(models=tuple(route.model for route in made_routes), upstreams=tuple(targets), stages=("normalize", "upstream")),
        log,
        stages=log_stages,
    )
    made = stages if stages is not None else [FakeNormalize(stream=stream), FakeUpstream(), *extra, FakeJudge(), FakeEncoding()]
    chain = timed(Chain(made, Settings(**settings)), telemetry)
    routes = HandRoutes([Plan(route, chain, tuple(UpstreamTraits(name=name) for name in targets)) for route in made_routes])
    limits = limits or Limits()
    closing: list[Service] = []
    shared = Shared(
        limits,
        Intake(limits, Gate(keys), routes),  # type: ignore[arg-type]
        routes,  # type: ignore[arg-type]
        transport,  # type: ignore[arg-type]
        telemetry,
        Admission(limits, telemetry.metrics["admission_rejects"].inc),
        lambda: closing[0].closing,
    )
    app = App(shared, base_path)
    made_service = Service(app, telemetry, lines, routes, shared)
    closing.append(made_service)
    runner = web.ServerRunner(HttpServer(app.handle, telemetry.unexpected, keepalive_s=5.0), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made_service.port = runner.addresses[0][1]
    try:
        yield made_service
    finally:
        await runner.cleanup()

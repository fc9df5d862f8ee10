"""Which model name goes where: the configuration's routes with their chains built, and what upstreams were found to refuse.

In: a configuration. Out: for a model name, the first route that fits: its chain, its targets in failover order, the name sent upstream.
Promise: everything is built once, when the process starts; a client's model name is compared, never kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from time import perf_counter

from pipeline.chain import Chain, ChainError, build
from pipeline.settings import UpstreamTraits
from pipeline.stage import Note, Receiver, Stage
from pipeline.turn import Turn
from proxy.config.tree import Config, Route
from proxy.telemetry.catalogue import OTHER
from proxy.telemetry.telemetry import Telemetry
from proxy.transport import UpstreamConfig

MAX_MODEL_CHARS = 256
_WILD = re.compile(r"[*?]")


class Plan:
    """A route, ready to run. `label` is its name in metrics and logs."""

    __slots__ = ("_glob", "_pattern", "_rewrite", "chain", "label", "literal", "targets")

    def __init__(self, route: Route, chain: Chain, targets: tuple[UpstreamTraits, ...]) -> None:
        """Compile the glob."""
        self.label = label_of(route)
        self.literal = None if _WILD.search(route.model) else route.model
        self.chain = chain
        self.targets = targets
        self._rewrite = route.rewrite
        self._glob = route.model
        self._pattern = _compiled(route.model)

    def takes(self, model: str) -> bool:
        """Whether this route is for this model."""
        return self._pattern.fullmatch(model) is not None

    def upstream_model(self, model: str) -> str:
        """The name to send upstream."""
        if self._rewrite is None:
            return model
        found = self._pattern.fullmatch(model)
        matched = found[1] if found is not None and self._pattern.groups else model
        return self._rewrite.replace("*", matched)

    def client_model(self, upstream_model: str) -> str | None:
        """The name to ask for to get this model of an upstream's; None where this route leads no name to it, or nobody can tell which."""
        if self._rewrite is None:
            return upstream_model if self.takes(upstream_model) else None
        if self._rewrite.count("*") != 1 or self._glob.count("*") != 1 or "?" in self._glob:
            return None
        before, after = self._rewrite.split("*")
        long_enough = len(upstream_model) >= len(before) + len(after)
        if not (long_enough and upstream_model.startswith(before) and upstream_model.endswith(after)):
            return None
        return self._glob.replace("*", upstream_model[len(before) : len(upstream_model) - len(after)])


class Routes:
    """All plans in order, and the request fields that upstreams refused so far (U06)."""

    def __init__(self, config: Config, upstreams: Mapping[str, UpstreamConfig], telemetry: Telemetry) -> None:
        """Build a chain for each route. Raises ChainError."""
        self.plans = tuple(
            Plan(
                route,
                timed(build_chain(config, route), telemetry),
                tuple(upstreams[name].traits for name in route.upstreams or upstreams),
            )
            for route in config.routes
        )
        self.refused: dict[str, frozenset[str]] = {}

    def find(self, model: str) -> Plan | None:
        """The first route that takes this model."""
        if len(model) > MAX_MODEL_CHARS:
            return None
        return next((plan for plan in self.plans if plan.takes(model)), None)

    def learn(self, upstream: str, parameter: str) -> None:
        """Remember that an upstream refuses a request field."""
        self.refused[upstream] = self.refused.get(upstream, frozenset()) | {parameter}


def _compiled(glob: str) -> re.Pattern[str]:
    """A glob of `*` and `?` that never backtracks over a star: linear for every name a client may send."""
    first, *rest = ("".join("." if mark == "?" else re.escape(mark) for mark in part) for part in glob.split("*"))
    if not rest:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>(.*?){part})" for part in rest[:-1])
    return re.compile(f"{first}{middle}(.*){rest[-1]}", re.DOTALL)


def build_chain(config: Config, route: Route) -> Chain:
    """A route's stages, loaded and constructed. Raises ChainError, also for what a stage of a deployment's own raises."""
    try:
        return build(config.stages, route.settings)
    except ChainError:
        raise
    except Exception as exc:
        raise ChainError(f"routes: the stages of {route.model!r} cannot be built: {type(exc).__name__}: {exc}") from exc


def label_of(route: Route) -> str:
    """A route's name in metrics: its glob; the one that takes everything tells nothing about the model."""
    return OTHER if route.model == "*" else route.model


class _Timed:
    """A stage whose request side is timed: the engine has no clock. Its faults are noted there."""

    __slots__ = ("_seconds", "_stage", "name", "per_attempt")

    def __init__(self, stage: Stage, telemetry: Telemetry) -> None:
        self._stage = stage
        self._seconds = telemetry.metrics["stage_seconds"]
        self.name = stage.name
        self.per_attempt = stage.per_attempt

    def prepare(self, turn: Turn, note: Note) -> Turn:
        begun = perf_counter()
        try:
            return self._stage.prepare(turn, note)
        finally:
            self._seconds.observe(perf_counter() - begun, self.name)

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return self._stage.open(turn, note)


def timed(chain: Chain, telemetry: Telemetry) -> Chain:
    """The same chain with the request side of its stages timed, but for the requester, which the engine must recognise."""
    chain.once = tuple(stage if stage is chain.requester else _Timed(stage, telemetry) for stage in chain.once)
    chain.each = tuple(stage if stage is chain.requester else _Timed(stage, telemetry) for stage in chain.each)
    return chain

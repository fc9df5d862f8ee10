"""The metrics of one process, with every child bound when it starts.

In: the names of the configuration. Out: children to count with, and the exposition text. Promise: no series is ever added later; a value
outside its domain counts as `other`, or, where the domain is an enum, as a telemetry error.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from itertools import product

import aiohttp
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from proxy.telemetry.catalogue import CATALOGUE, OTHER, PREFIX, Metric, Names, domains

_CLASSES: dict[str, type[Counter | Gauge | Histogram]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class Family:
    """One metric's children by their label values."""

    __slots__ = ("_children", "_domains", "_on_unknown", "metric")

    def __init__(
        self, metric: Metric, values: dict[str, tuple[str, ...]], registry: CollectorRegistry, on_unknown: Callable[[], None]
    ) -> None:
        """Make the metric and bind a child for every combination of label values."""
        self.metric = metric
        self._on_unknown = on_unknown
        self._domains = tuple(values[metric.domain(label)] for label in metric.labels)
        options = {"buckets": metric.buckets} if metric.kind == "histogram" else {}
        parent = _CLASSES[metric.kind](metric.name, metric.help, metric.labels, registry=registry, **options)  # type: ignore[arg-type]
        self._children: dict[tuple[str, ...], Counter | Gauge | Histogram] = {
            combination: parent.labels(*combination) if metric.labels else parent for combination in product(*self._domains)
        }

    def _child(self, values: tuple[str, ...]) -> Counter | Gauge | Histogram | None:
        child = self._children.get(values)
        if child is None:
            known = tuple(value if value in domain else OTHER for value, domain in zip(values, self._domains, strict=True))
            child = self._children.get(known)
            if child is None:
                self._on_unknown()
        return child

    def inc(self, *values: str, by: float = 1) -> None:
        """Count, or move a gauge. Label values in the order of the catalogue."""
        child = self._child(values)
        if child is not None:
            child.inc(by)  # type: ignore[union-attr]

    def set(self, value: float, *values: str) -> None:
        """Set a gauge."""
        child = self._child(values)
        if child is not None:
            child.set(value)  # type: ignore[union-attr]

    def observe(self, value: float, *values: str, trace_id: str | None = None) -> None:
        """Put a value into a histogram, with the trace as its exemplar where there is one."""
        child = self._child(values)
        if child is not None:
            child.observe(value, {"trace_id": trace_id} if trace_id else None)  # type: ignore[union-attr]


class Metrics:
    """All families of the catalogue, by short name (`metrics["turns"]`; full names for those that are not ours)."""

    def __init__(self, names: Names, version: str = "0") -> None:
        """Build a registry of its own: one per process, and one per test."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._families: dict[str, Family] = {}
        values = domains(names)
        for metric in CATALOGUE:
            self._families[metric.name.removeprefix(PREFIX)] = Family(metric, values, self.registry, self._unknown)
        build = Gauge(f"{PREFIX}build_info", "What is running.", ("version", "python", "aiohttp"), registry=self.registry)
        build.labels(version, platform.python_version(), aiohttp.__version__).set(1)
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def __getitem__(self, name: str) -> Family:
        """A family. Raises KeyError for a name that the catalogue lacks: a fault of the program."""
        return self._families[name]

    def _unknown(self) -> None:
        self._families["telemetry_errors"].inc()

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition text and its content type, as the scraper's Accept header asks. Takes milliseconds."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    async def render_off_loop(self, accept: str) -> tuple[bytes, str]:
        """`render` in a thread: on the loop it would stall every stream."""
        return await asyncio.to_thread(self.render, accept)

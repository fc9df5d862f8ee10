"""The metrics of one process: every child there from the start, counted in plain numbers, written out by prometheus-client.

In: the names of the configuration. Out: families to count with, and the exposition text. Promise: no series is ever added later; a value
outside its domain counts as `other`, or, where the domain is an enum, as a telemetry error.

Counting is plain: one dictionary entry a child, no lock, as everything counts on the event loop; prometheus-client's own children cost four
times as much, and a turn moves some thirty of them. A scrape reads them from a thread.
"""

from __future__ import annotations

import asyncio
import platform
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate, product

import aiohttp
import prometheus_client
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Exposed
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from proxy.telemetry.catalogue import CATALOGUE, OTHER, PREFIX, Metric, Names, domains

Labels = tuple[str, ...]


class _Histogram:
    """One child: counts by bucket, not yet added up, the sum, and the last exemplar of each bucket."""

    __slots__ = ("counts", "exemplars", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}


class Family:
    """One metric's children by their label values."""

    __slots__ = ("_buckets", "_domains", "_histograms", "_on_unknown", "_values", "metric")

    def __init__(self, metric: Metric, values: dict[str, tuple[str, ...]], on_unknown: Callable[[], None]) -> None:
        """Make a child for every combination of label values."""
        self.metric = metric
        self._on_unknown = on_unknown
        self._domains = tuple(values[metric.domain(label)] for label in metric.labels)
        self._buckets = metric.buckets
        combinations = [tuple(str(value) for value in combination) for combination in product(*self._domains)]
        histogram = metric.kind == "histogram"
        self._values: dict[Labels, float] = {} if histogram else dict.fromkeys(combinations, 0.0)
        self._histograms = {combination: _Histogram(len(self._buckets)) for combination in combinations} if histogram else {}

    def inc(self, *values: str, by: float = 1) -> None:
        """Count, or move a gauge. Label values in the order of the catalogue."""
        try:
            self._values[values] += by
        except KeyError:
            known = self._known(values)
            if known in self._values:
                self._values[known] += by
            else:
                self._on_unknown()

    def set(self, value: float, *values: str) -> None:
        """Set a gauge."""
        self._values[self._known(values)] = value

    def observe(self, value: float, *values: str, trace_id: str | None = None) -> None:
        """Put a value into a histogram, with the trace as its exemplar where there is one."""
        child = self._histograms.get(values) or self._histograms.get(self._known(values))
        if child is None:
            self._on_unknown()
            return
        at = bisect_left(self._buckets, value)
        child.counts[at] += 1
        child.sum += value
        if trace_id is not None:
            child.exemplars[at] = Exemplar({"trace_id": trace_id}, value)

    def _known(self, values: Labels) -> Labels:
        return tuple(value if value in domain else OTHER for value, domain in zip(values, self._domains, strict=True))

    def exposed(self) -> Exposed:
        """The family as prometheus-client writes it."""
        name, text, labels = self.metric.name, self.metric.help, self.metric.labels
        if self.metric.kind == "histogram":
            histogram = HistogramMetricFamily(name, text, labels=labels)
            for combination, child in self._histograms.items():
                histogram.add_metric(combination, list(self._cumulative(child)), child.sum)
            return histogram
        family = (CounterMetricFamily if self.metric.kind == "counter" else GaugeMetricFamily)(name, text, labels=labels)
        for combination, value in self._values.items():
            family.add_metric(combination, value)
        return family

    def _cumulative(self, child: _Histogram) -> Iterator[tuple[str, float] | tuple[str, float, Exemplar]]:
        bounds = [*map(floatToGoString, self._buckets), "+Inf"]
        for at, (bound, count) in enumerate(zip(bounds, accumulate(child.counts), strict=True)):
            exemplar = child.exemplars.get(at)
            yield (bound, count) if exemplar is None else (bound, count, exemplar)


class _Families(Collector):
    def __init__(self, families: dict[str, Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Exposed]:
        return (family.exposed() for family in self._families.values())


class Metrics:
    """All families of the catalogue, by short name (`metrics["turns"]`; full names for those that are not ours)."""

    def __init__(self, names: Names, version: str = "0") -> None:
        """Build a registry of its own: one per process, and one per test."""
        self.registry = CollectorRegistry()
        values = domains(names)
        self._families = {metric.name.removeprefix(PREFIX): Family(metric, values, self._unknown) for metric in CATALOGUE}
        self.registry.register(_Families(self._families))
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

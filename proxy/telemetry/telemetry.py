"""A process's telemetry: metrics, the log, and the table compiled for speed. Makes a Ledger for each turn.

In: the configured names, a log sink and the log's settings. Promise: everything that can be decided beforehand is decided here, once.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal

from structlog.typing import FilteringBoundLogger

from pipeline.verdicts import Api, Noted
from proxy.telemetry.catalogue import Names, code_label
from proxy.telemetry.ledger import Ledger, report
from proxy.telemetry.metrics import Family, Metrics
from proxy.telemetry.table import MODEL, TABLE, Count, Row

StageEvents = Literal["all", "changes", "none"]
_LEVELS: dict[StageEvents, frozenset[str]] = {
    "all": frozenset({"debug", "info", "warning", "error"}),
    "changes": frozenset({"info", "warning", "error"}),
    "none": frozenset(),
}


class CompiledCount:
    """One counter of a row, bound to its family."""

    __slots__ = ("_by", "_each", "_family", "_histogram", "_labels")

    def __init__(self, count: Count, family: Family) -> None:
        """Bind."""
        self._family = family
        self._labels = count.labels
        self._by = count.by
        self._each = count.each
        self._histogram = family.metric.kind == "histogram"

    def __call__(self, model: str, fields: Mapping[str, Any]) -> None:
        """Count one note."""
        if self._each is not None:
            for one in fields.get(self._each) or ():
                self._count(model, {**fields, self._each: one})
        else:
            self._count(model, fields)

    def _count(self, model: str, fields: Mapping[str, Any]) -> None:
        values = tuple([model if label == MODEL else fields.get(label) or "" for label in self._labels])
        amount = 1 if self._by is None else fields.get(self._by, 1)
        if self._histogram:
            self._family.observe(amount, *values)
        else:
            self._family.inc(*values, by=amount)


class CompiledRow:
    """One row of the table, bound."""

    __slots__ = ("_counts", "_events", "_level", "_level_field", "_levels", "event", "logged")

    def __init__(self, noted: Noted, row: Row, metrics: Metrics) -> None:
        """Bind."""
        self.event = noted.value
        self.logged = tuple(name for name in row.fields if name not in row.unlogged)
        self._level = row.level
        self._level_field = row.level_of
        self._levels = row.levels
        self._events = metrics["events"]
        self._counts = [CompiledCount(count, metrics[count.metric]) for count in row.counts]

    def count(self, model: str, fields: Mapping[str, Any]) -> None:
        """Move this row's counters."""
        self._events.inc(self.event)
        for count in self._counts:
            count(model, fields)

    def level_of(self, fields: Mapping[str, Any]) -> str:
        """The level of this note."""
        if self._level_field is None:
            return self._level
        return self._levels.get(fields.get(self._level_field) or "", self._level)


class Telemetry:
    """What a process says about itself."""

    def __init__(
        self,
        names: Names,
        log: FilteringBoundLogger,
        *,
        stages: StageEvents = "changes",
        sample: float = 1.0,
        version: str = "0",
        salt: bytes | None = None,
    ) -> None:
        """`salt` makes key fingerprints comparable between processes; a random one is taken when it is not given."""
        self.metrics = Metrics(names, version)
        self.log = log
        self.sample = sample
        self.rows = {noted: CompiledRow(noted, row, self.metrics) for noted, row in TABLE.items()}
        self._stage_levels = _LEVELS[stages]
        self._salt = salt or os.urandom(16)

    def logs_stage(self, level: str) -> bool:
        """Whether stage events of this level are written."""
        return level in self._stage_levels

    def turn(self, api: Api, request_id: str, trace_id: str) -> Ledger:
        """Begin a turn's books. All its lines live or die together: sampling looks at the request id alone."""
        sampled = self.sample >= 1 or zlib.crc32(request_id.encode()) < self.sample * 2**32
        return Ledger(self, api, self.log.bind(rid=request_id, trace_id=trace_id), trace_id, sampled=sampled)

    def answered(self, api: str, status: int) -> None:
        """Count a request that is no turn: model lists, token counts, unknown paths."""
        self.metrics["requests"].inc(api, code_label(status))

    def fingerprint(self, key: str) -> str:
        """A key as the log may show it: eight hex digits, salted."""
        return blake2b(key.encode("utf-8", "surrogateescape"), digest_size=4, key=self._salt).hexdigest()

    def unexpected(self, place: str, exc: BaseException, **fields: object) -> None:
        """Log a fault of this program outside of any turn: kind and place, no words. `fields` are the ids it is known by."""
        report(self, self.log, place, exc, **fields)

"""The table compiled for speed: what a Ledger books with, made once a process.

In: metrics, and what the configuration says of the log. Out: for each note its row, bound to its counters. Promise: everything that can be decided
beforehand is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pipeline.verdicts import Noted
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


class Books:
    """Metrics, compiled rows, and how much is logged: `sample` of the turns, stage events of these levels."""

    def __init__(self, metrics: Metrics, *, stages: StageEvents, sample: float) -> None:
        """Compile."""
        self.metrics = metrics
        self.sample = sample
        self.rows = {noted: CompiledRow(noted, row, metrics) for noted, row in TABLE.items()}
        self._stage_levels = _LEVELS[stages]

    def logs_stage(self, level: str) -> bool:
        """Whether stage events of this level are written."""
        return level in self._stage_levels

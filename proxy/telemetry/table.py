"""THE table: what each note of a stage becomes, as a log event, a level and counters.

In: `Noted` with small fields. Out: rows. Promise: every `Noted` has exactly one row; only the fields named here are ever logged, which is
what keeps content out by construction; every note counts in `events`, so that for each log line there is a counter.
Levels: debug changed nothing, info changed something, warning fell back or found something malformed, error a fault of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from pipeline.verdicts import BlockOutcome, Noted, SkipReason

Level = Literal["debug", "info", "warning", "error"]

MODEL = "model"
"""The label that comes from the turn, not from the note: the matched route's."""


class Count(msgspec.Struct, frozen=True):
    """One counter a note moves. `labels` are note fields in the metric's label order; `by` a field with the amount; `each` a label that is a list."""

    metric: str
    labels: tuple[str, ...] = ()
    by: str | None = None
    each: str | None = None


class Row(msgspec.Struct, frozen=True):
    """One note. `fields` are all it may carry; `unlogged` are those of them that only count. `levels` by the value of field `level_of`."""

    level: Level
    fields: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    unlogged: frozenset[str] = frozenset()
    level_of: str | None = None
    levels: Mapping[str, Level] = {}


_BLOCK_LEVELS: dict[str, Level] = {
    BlockOutcome.PARSED: "debug",
    BlockOutcome.FENCED_EXAMPLE: "debug",
    BlockOutcome.QUOTED: "debug",
    BlockOutcome.IN_REASONING: "debug",
    BlockOutcome.REPAIRED: "info",
    BlockOutcome.UNKNOWN_TOOL: "info",
}

TABLE: dict[Noted, Row] = {
    Noted.NORMALIZED: Row("debug", ("tools", "messages", "state", "choice")),
    Noted.TOOLS_REBUILT: Row("info", ("count",)),
    Noted.PARAMETER_DROPPED: Row("info", ("parameter", "upstream")),
    Noted.CONTENT_REPLACED: Row("info", ("kind", "count")),
    Noted.TOOL_SCHEMA_ODD: Row("warning", ("count",)),
    Noted.HISTORY_CLEAN: Row("debug", ("calls",)),
    Noted.HISTORY_REPAIRED: Row("info", ("kind", "count"), (Count("history_repairs", ("kind",), by="count"),)),
    Noted.CONTRACT_INJECTED: Row("debug", ("dialect", "tier", "bytes", "tools"), (Count("contract_bytes", (MODEL,), by="bytes"),)),
    Noted.CONTRACT_SKIPPED: Row("debug", ("reason",)),
    Noted.UPSTREAM_SENT: Row("debug", ("upstream", "cause", "bytes"), (Count("attempts", (MODEL, "cause")),)),
    Noted.UPSTREAM_ANSWERED: Row("debug", ("upstream", "status", "shape")),
    Noted.UPSTREAM_FAILED: Row("warning", ("kind", "outcome", "status")),
    Noted.FRAME_SKIPPED: Row("warning", ("bytes", "recovered")),
    Noted.BLOCK: Row(
        "warning",
        ("dialect", "outcome", "repairs", "calls", "fault"),
        (Count("blocks", ("dialect", "outcome")), Count("repairs", ("dialect", "repairs"), each="repairs")),
        unlogged=frozenset({"fault"}),
        level_of="outcome",
        levels=_BLOCK_LEVELS,
    ),
    Noted.RESULT_CUT: Row("warning", ("chars", "dialect")),
    Noted.REFUSAL_HIT: Row("info", ("kind", "lang", "phrase")),
    Noted.RETRY: Row("info", ("cause", "number", "neutral", "dialect")),
    Noted.RETRY_SKIPPED: Row(
        "warning", ("cause", "why"), (Count("retry_skips", ("why",)),), level_of="why", levels={SkipReason.NOT_REQUIRED: "debug"}
    ),
    Noted.RETRY_ENDED: Row(
        "info",
        ("result", "cause"),
        level_of="result",
        levels={"refused_again": "warning", "exhausted": "warning", "upstream_failed": "warning"},
    ),
    Noted.CALLS_DROPPED: Row("info", ("count", "reason")),
    Noted.STRICT_VIOLATION: Row("warning", ("count",)),
    Noted.GRAMMAR_VIOLATION: Row("warning", ("count",)),
    Noted.FORMAT_VIOLATION: Row("warning"),
    Noted.STOP_SEQUENCE_HIT: Row("debug", ("index",)),
    Noted.MARKER_TEXT: Row("warning", ("dialect",), (Count("marker_text", ("dialect",)),)),
    Noted.ATTEMPT_ENDED: Row("debug", ("verdict", "cause", "upstream", "status"), (Count("attempt_verdicts", (MODEL, "verdict")),)),
    Noted.STAGE_FAILED: Row(
        "error",
        ("stage", "mode", "error", "where"),
        (Count("stage_errors", ("stage", "mode")),),
        level_of="mode",
        levels={"open": "warning"},
    ),
    Noted.INVARIANT_BROKEN: Row("error", ("invariant",), (Count("invariant_violations", ("invariant",)),)),
}

DERIVED: dict[str, str] = {
    "refusals": "a refusal_hit, once it is known whether a retry followed",
    "retries": "a retry_ended, with the cause of the retry before it",
    "upstream_requests": "an attempt_ended, with the outcome or status that went before",
    "first_attempt_verdicts": "the attempt_ended of attempt 1 of an emulated turn",
}
"""Counters that need two notes; `proxy/telemetry/ledger.py` books them."""

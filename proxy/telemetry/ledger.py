"""One turn's telemetry: what its stages note becomes events and counters at once, and its end becomes the canonical line.

In: notes through `bind`, the record through `conclude`. Promise: nothing raises into a turn; only fields that the table names are looked at, and
only short words and numbers of them are logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.commands import TurnRecord
from pipeline.stage import Note
from pipeline.verdicts import Api, Cause, Invariant, Noted, RefusalKind, UpstreamOutcome, Verdict
from proxy.telemetry.books import Books, CompiledRow
from proxy.telemetry.catalogue import GEN_AI_OPERATION, GEN_AI_PROVIDER, OTHER, Phase, TokenType, code_label
from proxy.telemetry.logs import describe
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.turn_line import QUIET, Measured, turn_fields, turn_level

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_WORD = re.compile(r"[A-Za-z0-9_.:/+-]{1,64}\Z")
CLIENT_CLOSED = 499
"""nginx's word for a client that left before there was a status."""
_KEPT = frozenset({"warning", "error"})
"""Levels that sampling never leaves out."""
_GEN_AI = (GEN_AI_OPERATION, GEN_AI_PROVIDER)
_WIRE_CAUSES = frozenset({Cause.FIRST, Cause.FAILOVER, Cause.TRANSPORT, Cause.DROPPED_PARAMETER})


class Ledger:
    """Books one turn."""

    __slots__ = (
        "_books",
        "_causes",
        "_concluded",
        "_first_verdict",
        "_hits",
        "_log",
        "_outcomes",
        "_repairs",
        "_retried",
        "_sampled",
        "api",
        "measured",
        "trace_id",
    )

    def __init__(self, books: Books, api: Api, log: FilteringBoundLogger, trace_id: str, *, sampled: bool) -> None:
        """Begin a turn: it counts as started now and in flight until `conclude`."""
        self._books = books
        self._log = log
        self._sampled = sampled
        self.api = api
        self.trace_id = trace_id
        self.measured = Measured()
        self._outcomes: dict[int, str] = {}
        self._causes: dict[int, str] = {}
        self._hits: list[tuple[int, str, str]] = []
        self._retried: set[int] = set()
        self._first_verdict: str | None = None
        self._repairs = 0
        self._concluded = False
        books.metrics["turns_started"].inc(api)
        books.metrics["requests_in_flight"].inc(api)

    # --- notes ----------------------------------------------------------------------------------------------------------------

    def bind(self, stage: str, attempt: int) -> Note:
        """A stage's side channel."""
        return partial(self._note, stage, attempt)

    def _note(self, stage: str, attempt: int, noted: Noted, /, **fields: Any) -> None:
        try:
            row = self._books.rows[noted]
            row.count(self.measured.model, fields)
            derive = _DERIVE.get(noted)
            if derive is not None:
                derive(self, attempt, fields)
            level = row.level_of(fields)
            if not self._sampled and level in _KEPT:
                self._sampled = True  # its line stays too: an event whose turn has no line explains nothing
            if self._sampled and self._books.logs_stage(level):
                self._write(row, level, stage, attempt, fields)
        except Exception:  # noqa: BLE001 - telemetry is no reason to fail a turn
            self._books.metrics["telemetry_errors"].inc()

    def unexpected(self, place: str, exc: BaseException) -> None:
        """Log a fault of this program while the turn runs: kind and place, no words."""
        self._sampled = True
        report(self._books.metrics, self._log, place, exc)

    def beside(self, event: str, exc: BaseException) -> None:
        """Log what failed for this turn without touching it, with the turn's ids: kind and place, no words."""
        self._log.error(event, **describe(exc))

    def _write(self, row: CompiledRow, level: str, stage: str, attempt: int, fields: dict[str, Any]) -> None:
        shown = {name: plain(fields[name]) for name in row.logged if fields.get(name) is not None}
        getattr(self._log, level)(row.event, **({"stage": stage, "attempt": attempt} | shown))

    def _sent(self, attempt: int, fields: dict[str, Any]) -> None:
        cause = fields.get("cause")
        if cause is not None and cause not in _WIRE_CAUSES:
            self._causes[attempt] = cause
        self.measured.upstream = fields.get("upstream")

    def _upstream_failed(self, attempt: int, fields: dict[str, Any]) -> None:
        outcome = fields.get("outcome")
        if outcome is not None:
            self._outcomes[attempt] = outcome

    def _attempt_ended(self, attempt: int, fields: dict[str, Any]) -> None:
        verdict = fields["verdict"]
        outcome = self._outcomes.get(attempt) or outcome_of(fields.get("status") or 0, verdict)
        self._books.metrics["upstream_requests"].inc(fields.get("upstream") or OTHER, outcome)
        if attempt == 1:
            self._first_verdict = verdict

    def _refusal_hit(self, attempt: int, fields: dict[str, Any]) -> None:
        self._hits.append((attempt, fields.get("kind") or RefusalKind.SOFT, fields.get("lang") or OTHER))

    def _retry(self, attempt: int, _fields: dict[str, Any]) -> None:
        self._retried.add(attempt)

    def _retry_ended(self, attempt: int, fields: dict[str, Any]) -> None:
        cause = fields.get("cause") or self._causes.get(attempt) or next(reversed(self._causes.values()), Cause.REFUSAL)
        self._books.metrics["retries"].inc(cause, fields["result"])

    def _history_repaired(self, _attempt: int, fields: dict[str, Any]) -> None:
        self._repairs += fields.get("count") or 1

    # --- the end --------------------------------------------------------------------------------------------------------------

    def upstream_first_byte(self, upstream: str, seconds: float) -> None:
        """An upstream began to answer."""
        if self.measured.upstream_first_byte_s is None:
            self.measured.upstream_first_byte_s = seconds
        self._books.metrics["upstream_first_byte_seconds"].observe(seconds, upstream)

    def conclude(self, record: TurnRecord) -> None:
        """Count the turn and write its line. Only the first time."""
        if self._concluded:
            return
        self._concluded = True
        self._books.metrics["requests_in_flight"].inc(self.api, by=-1)
        try:
            record.history_repairs = record.history_repairs or self._repairs
            self._check(record)
            self._count(record)
            if self._sampled or record.verdict not in QUIET:
                fields = turn_fields(record, self.measured)
                if self._books.sample < 1:
                    fields["sample_rate"] = self._books.sample
                getattr(self._log, turn_level(record))("turn", **fields)
        except Exception:  # noqa: BLE001
            self._books.metrics["telemetry_errors"].inc()

    def _check(self, record: TurnRecord) -> None:
        """The conservation laws, turn by turn: one verdict, and one for each attempt."""
        if record.verdict is None or len(record.attempt_verdicts) != record.attempts:
            self._note("engine", 0, Noted.INVARIANT_BROKEN, invariant=Invariant.NO_VERDICT)

    def _count(self, record: TurnRecord) -> None:
        metrics, measured, api = self._books.metrics, self.measured, self.api
        model, trace = measured.model, self.trace_id
        stream = "true" if record.stream else "false"
        metrics["requests"].inc(api, code_label(record.status or (CLIENT_CLOSED if record.client_gone else 0)))
        metrics["turns"].inc(model, record.verdict or Verdict.REJECTED)
        if record.read:
            metrics["emulation"].inc(record.emulation_reason)
        total = measured.ended - record.started
        metrics["request_seconds"].observe(total, api, stream, trace_id=trace)
        if measured.overhead_s is not None and measured.excess_s is not None:  # turned away at the door: no work, and no measure of it
            metrics["overhead_seconds"].observe(measured.overhead_s, api, trace_id=trace)
            metrics["overhead_excess_seconds"].observe(measured.excess_s, trace_id=trace)
        metrics["gen_ai_server_request_duration_seconds"].observe(total, *_GEN_AI, model)
        if record.first_client_byte is not None:
            metrics["first_byte_seconds"].observe(record.first_client_byte - record.started, api, stream, trace_id=trace)
        if record.first_content is not None:
            metrics["gen_ai_server_time_to_first_token_seconds"].observe(record.first_content - record.started, *_GEN_AI, model)
        if record.emulated and self._first_verdict is not None:
            metrics["first_attempt_verdicts"].inc(model, self._first_verdict)
        if record.emulated and record.stream:  # an answer in one body waits for its end by nature
            metrics["held_seconds"].observe(record.held_s, record.dialect or OTHER, trace_id=trace)
        if record.calls:
            metrics["calls"].inc(model, "text", by=record.calls)
        if record.native_calls:
            metrics["calls"].inc(model, "native", by=record.native_calls)
        if record.client_gone:
            metrics["disconnects"].inc(_phase(record))
        for attempt, kind, lang in self._hits:
            metrics["refusals"].inc(kind, lang, "retried" if attempt in self._retried else "delivered")
        usage = record.usage
        if usage is not None:
            metrics["tokens"].inc(model, TokenType.INPUT, by=usage.input_tokens)
            metrics["tokens"].inc(model, TokenType.OUTPUT, by=usage.output_tokens)
            metrics["tokens"].inc(model, TokenType.REASONING, by=usage.reasoning_tokens)
            metrics["gen_ai_client_token_usage"].observe(usage.input_tokens, *_GEN_AI, model, "input")
            metrics["gen_ai_client_token_usage"].observe(usage.output_tokens, *_GEN_AI, model, "output")


_DERIVE: dict[Noted, Callable[[Ledger, int, dict[str, Any]], None]] = {
    Noted.UPSTREAM_SENT: Ledger._sent,  # noqa: SLF001 - a table of this class's own methods
    Noted.UPSTREAM_FAILED: Ledger._upstream_failed,  # noqa: SLF001
    Noted.ATTEMPT_ENDED: Ledger._attempt_ended,  # noqa: SLF001
    Noted.REFUSAL_HIT: Ledger._refusal_hit,  # noqa: SLF001
    Noted.RETRY: Ledger._retry,  # noqa: SLF001
    Noted.RETRY_ENDED: Ledger._retry_ended,  # noqa: SLF001
    Noted.HISTORY_REPAIRED: Ledger._history_repaired,  # noqa: SLF001
}


def report(metrics: Metrics, log: FilteringBoundLogger, place: str, exc: BaseException, **fields: object) -> None:
    """Count and log a fault of this program."""
    metrics["unexpected"].inc()
    log.error("unexpected", place=place, **describe(exc), **fields)


def outcome_of(status: int, verdict: str) -> UpstreamOutcome:
    """How an upstream request ended of which nothing worse was said."""
    if status == 0 or verdict == Verdict.CLIENT_GONE:
        return UpstreamOutcome.CANCELLED
    if status == 429:
        return UpstreamOutcome.HTTP_429
    if status >= 500:
        return UpstreamOutcome.HTTP_5XX
    return UpstreamOutcome.HTTP_4XX if status >= 300 else UpstreamOutcome.OK


def plain(value: Any) -> Any:
    """A note's value as a log line may carry it: numbers, booleans, enums and short words; anything else is only a kind."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value) if _WORD.match(value) else OTHER
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(one) for one in value]
    return type(value).__name__


def _phase(record: TurnRecord) -> Phase:
    if record.first_client_byte is not None:
        return Phase.MID_STREAM
    return Phase.BEFORE_FIRST_BYTE if record.attempts else Phase.BEFORE_UPSTREAM

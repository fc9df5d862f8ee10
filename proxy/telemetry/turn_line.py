"""The canonical line: one wide `turn` event for each turn, written when it is over, whatever happened.

In: the engine's record and what the driver measured. Out: the fields of the line. Promise: enums, counts, times and configured names only.
Fields that say nothing (None, empty) are left out; times are milliseconds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pipeline.commands import TurnRecord
from pipeline.verdicts import ErrorKind, Verdict

PIECE_S = 0.001
"""What a piece of an upstream's answer may cost: three times what one costs on a slow core."""
_PIECE_BYTES = 16 << 10


class Measured(msgspec.Struct):
    """What only the driver knows of a turn. Times in seconds on the same clock as the record's; none where it never came to that."""

    model: str = "other"
    upstream: str | None = None
    key: str | None = None
    ended: float = 0.0
    overhead_s: float | None = None
    pieces: int = 0
    upstream_first_byte_s: float | None = None
    in_bytes: int = 0
    out_bytes: int = 0

    def read(self, size: int) -> None:
        """Count a read of an upstream's answer: one piece, and one more for every full 16 KiB of it."""
        self.pieces += 1 + size // _PIECE_BYTES

    @property
    def excess_s(self) -> float | None:
        """The overhead that the length of the answer does not explain: what slowness is judged by, for a long healthy stream adds up to much."""
        return None if self.overhead_s is None else max(self.overhead_s - self.pieces * PIECE_S, 0.0)


QUIET = frozenset({Verdict.CALL, Verdict.NATIVE_CALL, Verdict.TEXT, Verdict.PASSED})
"""Verdicts of turns that need nobody's attention: only these may be left out by sampling."""
_WARNING = frozenset({Verdict.REFUSED, Verdict.MISSING_CALL, Verdict.MALFORMED, Verdict.UPSTREAM_FAILED, Verdict.TRUNCATED, Verdict.EMPTY})


def turn_fields(record: TurnRecord, measured: Measured) -> dict[str, Any]:
    """The line's fields, but for `rid`, `trace_id`, `worker` and `build`, which are bound to the logger."""
    usage = record.usage
    fields: dict[str, Any] = {
        "api": record.api,
        "model": measured.model,
        "upstream": measured.upstream,
        "key": measured.key,
        "verdict": record.verdict,
        "status": record.status,
        "error_kind": record.error,
        "finish": record.finish,
        "passed_through": record.passed_through or None,
        **(_request_fields(record) if record.read else {}),
        "attempts": record.attempts,
        "causes": record.causes or None,
        "attempt_verdicts": record.attempt_verdicts or None,
        "retry_skipped": record.retry_skipped,
        "refusal": record.refusal,
        "refusal_kind": record.refusal_kind,
        "blocks": record.blocks or None,
        "repairs": record.repairs or None,
        "calls": record.calls,
        "native_calls": record.native_calls or None,
        "calls_dropped": record.calls_dropped or None,
        "text_chars": record.text_chars,
        "warnings": record.warnings or None,
        "client_gone": record.client_gone or None,
        "ttfb_ms": _ms(record.first_client_byte, record.started),
        "first_content_ms": _ms(record.first_content, record.started),
        "upstream_ttfb_ms": _ms(measured.upstream_first_byte_s, 0.0),
        "total_ms": _ms(measured.ended, record.started),
        "overhead_ms": _ms(measured.overhead_s, 0.0),
        "excess_ms": _ms(measured.excess_s, 0.0),
        "pieces": measured.pieces or None,
        "held_ms": _ms(record.held_s, 0.0),
        "in_bytes": measured.in_bytes or None,
        "out_bytes": measured.out_bytes,
    }
    if usage is not None:
        fields |= {
            "tokens_in": usage.input_tokens,
            "tokens_out": usage.output_tokens,
            "tokens_cached": usage.cached_tokens or None,
            "tokens_reasoning": usage.reasoning_tokens or None,
            "usage_estimated": usage.estimated or None,
        }
    return {name: value for name, value in fields.items() if value is not None}


def _request_fields(record: TurnRecord) -> dict[str, Any]:
    """What the request was and what was made of it; where it was not read, nobody knows."""
    return {
        "stream": record.stream,
        "emulated": record.emulated,
        "emulation_reason": record.emulation_reason,
        "dialect": record.dialect,
        "tier": record.tier,
        "contract_bytes": record.contract_bytes or None,
        "tools_offered": record.tools_offered,
        "tools_rebuilt": record.tools_rebuilt or None,
        "tool_choice": record.tool_choice,
        "history": record.history,
        "state": record.state,
        "history_repairs": record.history_repairs or None,
    }


def turn_level(record: TurnRecord) -> str:
    """The level of the line: error for a fault of ours, warning for a turn that somebody may want to look at."""
    if record.verdict is None or record.error is ErrorKind.INTERNAL:
        return "error"
    return "warning" if record.verdict in _WARNING else "info"


def _ms(at: float | None, since: float) -> float | None:
    return None if at is None else round((at - since) * 1000, 3)

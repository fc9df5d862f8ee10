"""One turn as a list of moments. Pure.

In: a TurnLog. Out: moments in order of time, counted from the start of the request. What stages said is timed by the line's own stamp; the first
bytes and the end come from the canonical line, which measured them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline.verdicts import Noted
from proxy.explain.turn_log import Line, TurnLog

SENTENCES: Mapping[str, str] = {
    Noted.NORMALIZED: "request read",
    Noted.TOOLS_REBUILT: "tools rebuilt from the history",
    Noted.PARAMETER_DROPPED: "request field left out",
    Noted.CONTENT_REPLACED: "content replaced by a placeholder",
    Noted.TOOL_SCHEMA_ODD: "tools demand arguments that they do not describe",
    Noted.HISTORY_CLEAN: "history is clean",
    Noted.HISTORY_REPAIRED: "history mended",
    Noted.CONTRACT_INJECTED: "contract put into the prompt",
    Noted.CONTRACT_SKIPPED: "no contract",
    Noted.UPSTREAM_SENT: "request sent upstream",
    Noted.UPSTREAM_ANSWERED: "upstream answers",
    Noted.UPSTREAM_FAILED: "upstream fails",
    Noted.FRAME_SKIPPED: "unreadable piece of the upstream's stream skipped",
    Noted.BLOCK: "block",
    Noted.RESULT_CUT: "imitated tool result cut off",
    Noted.REFUSAL_HIT: "refusal recognised",
    Noted.RETRY: "asks again",
    Noted.RETRY_SKIPPED: "does not ask again",
    Noted.RETRY_ENDED: "retry is over",
    Noted.CALLS_DROPPED: "further calls dropped",
    Noted.STRICT_VIOLATION: "call breaks a strict schema",
    Noted.GRAMMAR_VIOLATION: "input of a custom tool breaks its grammar",
    Noted.FORMAT_VIOLATION: "answer breaks the demanded format",
    Noted.STOP_SEQUENCE_HIT: "stop sequence found",
    Noted.MARKER_TEXT: "delivered text holds a marker",
    Noted.ATTEMPT_ENDED: "attempt is over",
    Noted.STAGE_FAILED: "STAGE FAILED",
    Noted.INVARIANT_BROKEN: "PROMISE BROKEN",
}
"""What each event means, for people. Events that are not here are shown by their own name."""

_PASSED_OVER = frozenset({"ts", "level", "event", "rid", "trace_id", "worker", "build", "attempt"})
_START = ("api", "stream", "model", "tools_offered", "tool_choice", "state", "emulation_reason", "dialect", "tier", "contract_bytes")
_FIRSTS = {"ttfb_ms": "first byte to the client", "first_content_ms": "first content to the client"}
_END = ("verdict", "status", "error_kind", "finish", "attempts", "calls", "native_calls", "text_chars", "tokens_in", "tokens_out")


class Moment(msgspec.Struct, frozen=True):
    """Something that happened. `at_ms` since the start; `attempt` 0 is the turn itself."""

    at_ms: float
    what: str
    fields: dict[str, Any] = {}
    level: str = "info"
    attempt: int = 0


def timeline(log: TurnLog) -> list[Moment]:
    """The moments of a turn. Never raises."""
    turn = log.turn or {}
    total = _number(turn.get("total_ms"))
    stamps = [_number(line.get("ts")) for line in log.events]
    start = _number(turn.get("ts")) - total / 1000 if log.turn else min(stamps, default=0.0)
    moments = [Moment(0.0, "request arrives", _picked(turn, _START))]
    moments += [_event(line, round((_number(line.get("ts")) - start) * 1000, 3)) for line in log.events]
    moments.sort(key=lambda moment: moment.at_ms)
    firsts = [Moment(_number(turn[name]), what) for name, what in _FIRSTS.items() if name in turn]
    if turn.get("stream") is True:
        moments = sorted([*moments, *firsts], key=lambda moment: moment.at_ms)
    else:  # one body goes out when all is said; its stamp is that of the read that brought the end
        moments += firsts
    if log.turn:
        moments.append(Moment(max(total, moments[-1].at_ms), "end", _picked(turn, _END), str(turn.get("level", "info"))))
    return moments


def _event(line: Line, at_ms: float) -> Moment:
    name = str(line.get("event"))
    fields = {key: value for key, value in line.items() if key not in _PASSED_OVER}
    attempt = line.get("attempt")
    return Moment(
        max(at_ms, 0.0), SENTENCES.get(name, name), fields, str(line.get("level", "info")), attempt if isinstance(attempt, int) else 0
    )


def _picked(turn: Line, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: turn[name] for name in names if name in turn}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

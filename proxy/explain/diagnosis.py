"""THE decision: which fault a turn had, on what evidence, and what to try next. Pure.

In: a TurnLog. Out: a Diagnosis. Each rule looks for one fault on its own; the first that finds something, in the order of `RULES`, names the fault,
those behind it are `also`. The order is the argument: a broken state machine makes everything else it says doubtful; an upstream, a client or a
drain that ended the turn explains it whole; a block that was begun speaks about parsing, whatever happened to the retry; where none was begun,
a retry that was due and did not come is ours to mend before the prompt is. Lines are foreign input: a field may be missing or of any kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pipeline.verdicts import BlockOutcome, Cause, EmulationReason, ErrorKind, SkipReason, Tier, Verdict
from proxy.explain.faults import Fault
from proxy.explain.turn_log import Line, TurnLog

SLOW_MS = 50.0
"""Time in this process, beyond what the length of the answer explains, that is too long; the alert OverheadHigh has the same number."""
HELD_MS = 8000.0
"""The bound of an ordinary hold (`hold_s`); the alert HeldTooLong has the same number."""

RETRY_CAUSES = frozenset({Cause.REFUSAL, Cause.SOFT_REFUSAL, Cause.MISSING_CALL, Cause.WRONG_TOOL, Cause.MALFORMED, Cause.EMPTY})
BROKEN_BLOCKS = (BlockOutcome.MALFORMED, BlockOutcome.UNTERMINATED, BlockOutcome.OVERSIZE, BlockOutcome.BAD_ARGUMENTS)
WEAK = frozenset({Verdict.REFUSED, Verdict.MISSING_CALL, Verdict.EMPTY})
GOOD = frozenset({Verdict.CALL, Verdict.NATIVE_CALL, Verdict.TEXT, Verdict.PASSED})
_FULL_HOUSE = frozenset({ErrorKind.OVERLOADED, ErrorKind.RATE_LIMIT})


class Evidence(msgspec.Struct, frozen=True):
    """One line of the log, cut to the fields that matter, and what it says."""

    event: str
    fields: dict[str, Any]
    says: str


class Diagnosis(msgspec.Struct, frozen=True):
    """What was wrong with one turn. `recovered`: a later attempt made it good, so that the client saw nothing of it."""

    rid: str
    fault: Fault
    because: str
    recovered: bool = False
    also: tuple[Fault, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next_steps: tuple[str, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    because: str
    evidence: tuple[Evidence, ...] = ()
    next_steps: tuple[str, ...] = ()


class _Seen:
    """A turn's lines as the rules ask about them."""

    def __init__(self, log: TurnLog) -> None:
        self.log = log
        self.turn: Line = log.turn or {}
        self.verdict = _text(self.turn.get("verdict"))
        self.error = _text(self.turn.get("error_kind"))
        self.causes = _texts(self.turn.get("causes"))
        self.attempt_verdicts = _texts(self.turn.get("attempt_verdicts"))
        self.blocks = _counts(self.turn.get("blocks"))
        self.emulated = self.turn.get("emulated") is True
        self.retried = any(cause in RETRY_CAUSES for cause in self.causes)

    def number(self, name: str) -> float:
        value = self.turn.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

    def says(self, text: str, *names: str) -> Evidence:
        """Evidence from the canonical line."""
        return Evidence("turn", {name: self.turn[name] for name in names if name in self.turn}, text)

    def events(self, text: str, *names: str) -> tuple[Evidence, ...]:
        """Evidence from the events of these names."""
        return tuple(Evidence(str(line["event"]), _own_fields(line), text) for line in self.log.of(*names))


def diagnose(log: TurnLog) -> Diagnosis:
    """Decide about one turn. Never raises."""
    if log.turn is None:
        shown = tuple(Evidence(str(line.get("event")), _own_fields(line), "the last thing said") for line in log.events[-1:])
        return Diagnosis(
            log.rid, Fault.UNFINISHED, "there is no `turn` line", evidence=shown, next_steps=("Read on: look at a later part of the log.",)
        )
    seen = _Seen(log)
    hits = [(fault, found) for fault, rule in RULES if (found := rule(seen)) is not None]
    if not hits:
        return Diagnosis(
            log.rid,
            Fault.HEALTHY,
            f"the turn ended with {seen.verdict}",
            evidence=(seen.says("how it ended", "verdict", "attempts", "calls", "repairs"),),
        )
    fault, found = hits[0]
    recovered = seen.verdict in GOOD and seen.retried and fault in (Fault.PROMPT_TOO_WEAK, Fault.PARSER_FAILURE)
    return Diagnosis(
        log.rid,
        fault,
        found.because,
        recovered=recovered,
        also=tuple(other for other, _ in hits[1:]),
        evidence=found.evidence,
        next_steps=found.next_steps,
    )


# --- the rules ----------------------------------------------------------------------------------------------------------------


def _state_machine_broken(seen: _Seen) -> _Found | None:
    evidence = [
        *seen.events("a promise was found broken", "invariant_broken"),
        *seen.events("a stage raised; open: the turn went on without it, closed: the client got an error", "stage_failed"),
        *seen.events("an exception of this program", "unexpected"),
    ]
    if not seen.verdict:
        evidence.append(seen.says("the turn ended without a verdict", "status"))
    elif "attempts" in seen.turn and len(seen.attempt_verdicts) != seen.number("attempts"):
        evidence.append(seen.says("attempts and their verdicts do not add up", "attempts", "attempt_verdicts"))
    if seen.error == ErrorKind.INTERNAL:
        evidence.append(seen.says("the client got an internal error", "error_kind", "status"))
    if seen.turn.get("emulation_reason") == EmulationReason.STAGE_FAILED:
        evidence.append(seen.says("tools were offered and not emulated, since a stage failed", "emulation_reason"))
    if not evidence:
        return None
    stages = sorted({_text(one.fields.get("stage")) for one in evidence if one.event == "stage_failed"} - {""})
    invariants = sorted({_text(one.fields.get("invariant")) for one in evidence if one.event == "invariant_broken"} - {""})
    because = (
        "; ".join(
            [
                *([f"stage {' and '.join(stages)} failed"] if stages else []),
                *([f"broken: {', '.join(invariants)}"] if invariants else []),
            ]
        )
        or evidence[0].says
    )
    return _Found(
        because,
        tuple(evidence),
        (
            "Look at `error` and `where` of the `stage_failed` and `unexpected` lines: they name the exception and the place in the code.",
            "If the stage is one of your own, mend it or leave it out of `stages`.",
            "Else report it with these lines; `capture.dir` and `toolgraft replay` keep what is needed to reproduce it.",
        ),
    )


_UPSTREAM_STEPS: dict[str, str] = {
    ErrorKind.UPSTREAM_UNREACHABLE: "Check the upstream's `url`, and that it runs and can be reached from here.",
    ErrorKind.UPSTREAM_TIMEOUT: "The model is slow or stuck: look at its load; `first_byte_s` and `idle_s` say how long is waited.",
    ErrorKind.UPSTREAM_AUTHENTICATION: "The upstream refuses the key: check `key_env` or `key_file`.",
    ErrorKind.RATE_LIMIT: "The upstream limits the rate: slow the clients down, or give the route a second upstream.",
    ErrorKind.CONTEXT_OVERFLOW: "The request is too long for the model: lower `contract_max_bytes`, offer fewer tools, or let the client compact.",
    ErrorKind.UPSTREAM_CUT: "It broke off. If it always ends its streams without a finish reason, set `lenient_end = true` for it.",
    ErrorKind.UNSUPPORTED_PARAMETER: "It refuses a field of the request: see the traits of [upstreams.NAME] in docs/configuration.md.",
}


def _upstream_fault(seen: _Seen) -> _Found | None:
    if seen.verdict == Verdict.EMPTY and not seen.emulated:
        return _Found(
            "the upstream's answer was empty",
            (seen.says("nothing came", "upstream", "finish"),),
            ("Ask the upstream directly with the same request.",),
        )
    if seen.verdict != Verdict.UPSTREAM_FAILED or seen.error == ErrorKind.SHUTTING_DOWN:
        return None
    evidence = (
        seen.says("how it ended", "upstream", "error_kind", "status", "causes"),
        *seen.events("what the upstream did", "upstream_failed"),
    )
    step = _UPSTREAM_STEPS.get(seen.error, "Ask the upstream directly with the same request and read its own log.")
    return _Found(f"{_text(seen.turn.get('upstream')) or 'the upstream'}: {seen.error or 'failed'}", evidence, (step,))


def _shut_down(seen: _Seen) -> _Found | None:
    if seen.error != ErrorKind.SHUTTING_DOWN:
        return None
    return _Found(
        "the process ended while the turn ran",
        (seen.says("how it ended", "error_kind", "total_ms"),),
        ("Raise `drain.timeout_s` above the length of your turns, and the service manager's stop timeout above both.",),
    )


def _request_rejected(seen: _Seen) -> _Found | None:
    if seen.verdict != Verdict.REJECTED or seen.error == ErrorKind.INTERNAL:
        return None
    full = seen.error in _FULL_HOUSE
    return _Found(
        "no room: the queue was full, or waiting took too long"
        if full
        else f"the request was not accepted: {seen.error or seen.turn.get('status')}",
        (seen.says("what the client was told", "status", "error_kind", "api", "key"),),
        (
            ("Add workers or replicas, or raise `limits.max_concurrency` and `limits.max_queue`.",)
            if full
            else ("The error body that the client got names the field; mend the client.",)
        ),
    )


def _client_gone(seen: _Seen) -> _Found | None:
    if seen.verdict != Verdict.CLIENT_GONE and seen.turn.get("client_gone") is not True:
        return None
    waited = "ttfb_ms" not in seen.turn
    return _Found(
        "the client left before its first byte" if waited else "the client left in the middle of its answer",
        (seen.says("when it left", "total_ms", "ttfb_ms", "upstream_ttfb_ms", "attempts", "out_bytes"),),
        ("If many leave at the same `total_ms`, that is a timeout of theirs, or of a proxy before this one.",),
    )


def _output_limit(seen: _Seen) -> _Found | None:
    if seen.verdict != Verdict.TRUNCATED:
        return None
    return _Found(
        "the answer was cut by the output limit",
        (seen.says("how it ended", "finish", "tokens_out", "blocks"),),
        ("Raise the request's output limit (`max_tokens`): a block that is cut is never a call.",),
    )


def _parser_failure(seen: _Seen) -> _Found | None:
    broken = {name: seen.blocks[name] for name in BROKEN_BLOCKS if seen.blocks.get(name)}
    markers = seen.events("the text that the client got holds a marker of a dialect", "marker_text")
    bad = seen.verdict in (Verdict.MALFORMED, Verdict.BAD_ARGUMENTS) or Verdict.MALFORMED in seen.attempt_verdicts
    if seen.verdict in (Verdict.TRUNCATED, Verdict.CLIENT_GONE) or not (broken or markers or bad):
        return None
    evidence = [
        seen.says("what became of the blocks", "blocks", "repairs", "dialect", "attempt_verdicts"),
        *seen.events("a block", "block"),
        *markers,
    ]
    if markers and not broken and not bad:
        return _Found(
            "the sieve saw nothing wrong, yet the delivered text holds a marker: the two detectors disagree",
            tuple(evidence),
            ("Most likely a fault of the parser: capture such a turn (`capture.dir`) and report it with `toolgraft parse --pretty`.",),
        )
    steps = [
        "Give the model's text to `toolgraft parse --pretty`: it shows where the block stops being legal (`capture.dir` keeps the text)."
    ]
    if BlockOutcome.OVERSIZE in broken:
        steps.append("A block beyond `max_block_bytes` is text: raise it if your tools take that much.")
    if BlockOutcome.UNTERMINATED in broken:
        steps.append("A block that was cut is text: look at `finish`, and raise the output limit when it is `length`.")
    steps.append('If the model drifts in small things, set `tolerance = "wide"` on its route.')
    steps.append(f'Or teach it the other dialect: `contract = "{_other_dialect(seen)}"`.')
    shown = ", ".join(f"{count} {name}" for name, count in broken.items()) or seen.verdict
    return _Found(f"blocks were begun and did not become calls: {shown}", tuple(evidence), tuple(steps))


_SKIP_STEPS: dict[str, str] = {
    SkipReason.OFF: "Retries are off: set `max_retries` to 1 or 2.",
    SkipReason.DEADLINE: "The turn was too old for another attempt: raise `turn_deadline_s`, or look why the first one took so long.",
    SkipReason.ALREADY_STREAMED: "Text was already out: raise `hold_chars` or `hold_s`, and leave `stream_arguments` off.",
    SkipReason.BUDGET: "No attempt was left: raise `max_retries`.",
}


def _other_dialect(seen: _Seen) -> str:
    return "json_action" if seen.turn.get("dialect") == "dsml" else "dsml"


def _retry_not_triggered(seen: _Seen) -> _Found | None:
    skipped = _text(seen.turn.get("retry_skipped"))
    if seen.retried or skipped == SkipReason.NOT_REQUIRED:
        return None
    if not skipped and not (seen.emulated and (seen.verdict in WEAK or seen.verdict == Verdict.MALFORMED)):
        return None
    evidence = (
        seen.says("the answer that was delivered", "verdict", "attempts", "causes", "retry_skipped", "refusal", "refusal_kind"),
        *seen.events("why no retry followed", "retry_skipped"),
    )
    step = _SKIP_STEPS.get(skipped, "No reason was given, so nobody asked for a retry: is `retry_on_refusal` in `stages`? Else report it.")
    return _Found(f"{seen.verdict} was delivered without a retry: {skipped or 'no reason recorded'}", evidence, (step,))


def _prompt_too_weak(seen: _Seen) -> _Found | None:
    weak = [verdict for verdict in seen.attempt_verdicts or [seen.verdict] if verdict in WEAK or verdict == Verdict.UNKNOWN_TOOL]
    if not seen.emulated or not weak:
        return None
    evidence = (
        seen.says(
            "what the attempts came to, and what the model was shown",
            "attempt_verdicts",
            "blocks",
            "dialect",
            "tier",
            "contract_bytes",
            "state",
            "tool_choice",
        ),
        *seen.events("the words that were recognised", "refusal_hit"),
        *seen.events("what the retry brought", "retry_ended"),
    )
    steps = []
    if seen.turn.get("tier") in (Tier.COMPACT, Tier.NAMES):
        steps.append("The contract was shortened: offer fewer tools, or raise `contract_max_bytes`.")
    steps.append("Put worked examples before the conversation: `example_turns` 2 or 3. A weak model needs them to call at all.")
    steps.append(f'Try the other dialect, `contract = "{_other_dialect(seen)}"`, or `neutral_contract = true` for a strong model.')
    steps.append("`toolgraft probe --upstream URL --model M` measures which configuration works best for this model.")
    because = f"{', then '.join(weak)}: no block was begun"
    if Verdict.UNKNOWN_TOOL in weak:
        because = "the model called a tool that was not offered, or not the one asked for"
    return _Found(because, evidence, tuple(steps))


def _own_slowness(seen: _Seen) -> _Found | None:
    overhead, held = seen.number("overhead_ms"), seen.number("held_ms")
    excess = seen.number("excess_ms") if "excess_ms" in seen.turn else overhead
    withheld = held > HELD_MS and seen.turn.get("stream") is True
    if excess <= SLOW_MS and not withheld:
        return None
    evidence = (
        seen.says(
            "where the time went",
            "total_ms",
            "overhead_ms",
            "excess_ms",
            "pieces",
            "held_ms",
            "upstream_ttfb_ms",
            "ttfb_ms",
            "in_bytes",
            "contract_bytes",
        ),
    )
    if excess > SLOW_MS:
        return _Found(
            f"{overhead:.0f} ms were spent in this process, {excess:.0f} ms more than the length of the answer explains",
            evidence,
            (
                "Look at toolgraft_loop_lag_seconds and at the size of requests (`in_bytes`, `contract_bytes`): a busy core or very large tool lists.",
            ),
        )
    return _Found(
        f"text was withheld for {held / 1000:.1f} s",
        evidence,
        ("A mandatory call holds text until it comes. Else look at `hold_s` and `text_before_call`.",),
    )


RULES: tuple[tuple[Fault, Callable[[_Seen], _Found | None]], ...] = (
    (Fault.STATE_MACHINE_BROKEN, _state_machine_broken),
    (Fault.SHUT_DOWN, _shut_down),
    (Fault.UPSTREAM_FAULT, _upstream_fault),
    (Fault.REQUEST_REJECTED, _request_rejected),
    (Fault.CLIENT_GONE, _client_gone),
    (Fault.OUTPUT_LIMIT, _output_limit),
    (Fault.PARSER_FAILURE, _parser_failure),
    (Fault.RETRY_NOT_TRIGGERED, _retry_not_triggered),
    (Fault.PROMPT_TOO_WEAK, _prompt_too_weak),
    (Fault.OWN_SLOWNESS, _own_slowness),
)


# --- foreign values -----------------------------------------------------------------------------------------------------------

_COMMON = frozenset({"ts", "level", "event", "rid", "trace_id", "worker", "build"})


def _own_fields(line: Line) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _COMMON}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _counts(value: object) -> dict[str, int]:
    return {str(name): count for name, count in value.items() if isinstance(count, int)} if isinstance(value, dict) else {}

"""The decision, fault by fault, on lines that the product's own telemetry wrote; then on lines that nobody wrote."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.commands import TurnRecord
from pipeline.verdicts import (
    Api,
    BlockOutcome,
    Cause,
    EmulationReason,
    ErrorKind,
    FinishReason,
    Invariant,
    Noted,
    RefusalKind,
    RetryResult,
    SkipReason,
    Tier,
    UpstreamOutcome,
    Verdict,
)
from proxy.explain.diagnosis import RULES, diagnose
from proxy.explain.faults import ABOUT, Fault
from proxy.explain.turn_log import Gatherer, TurnLog
from proxy.telemetry.catalogue import Names
from proxy.telemetry.logs import make_logger
from proxy.telemetry.telemetry import Telemetry

NAMES = Names(models=("m*",), upstreams=("up",), stages=("sieve",))
EMULATED = {"emulated": True, "emulation_reason": EmulationReason.TOOLS_OFFERED, "dialect": "json_action", "tier": Tier.FULL}


class Sink(list):
    def __bool__(self):
        return True

    def msg(self, line):
        self.append(orjson.loads(line))

    debug = info = warning = error = msg


def turn(verdict, *notes, overhead_s=0.001, total_s=1.0, pieces=3, **record):
    """A turn as the service logs it: notes are (stage, attempt, noted, fields)."""
    sink = Sink()
    ledger = Telemetry(NAMES, make_logger(sink)).turn(Api.OPENAI_CHAT, "r1", "t1")
    for stage, attempt, noted, fields in notes:
        ledger.bind(stage, attempt)(noted, **fields)
    ledger.measured.overhead_s, ledger.measured.ended, ledger.measured.upstream = overhead_s, total_s, "up"
    ledger.measured.pieces = pieces
    attempts = record.pop("attempt_verdicts", [verdict])
    record = {
        "attempts": len(attempts),
        "status": 200,
        "causes": [Cause.FIRST, *([Cause.REFUSAL] * (len(attempts) - 1))],
        "read": True,
    } | record
    ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=verdict, attempt_verdicts=attempts, **record))
    gatherer = Gatherer()
    done = [log for line in sink if (log := gatherer.feed(line)) is not None]
    assert len(done) == 1
    return done[0]


HIT = ("retry_on_refusal", 1, Noted.REFUSAL_HIT, {"kind": RefusalKind.HARD, "lang": "en", "phrase": "en.no_tools"})
SKIP = ("retry_on_refusal", 1, Noted.RETRY_SKIPPED, {"cause": Cause.REFUSAL, "why": SkipReason.OFF})
ENDED = ("retry_on_refusal", 2, Noted.RETRY_ENDED, {"result": RetryResult.REFUSED_AGAIN})
BROKEN = ("sieve", 1, Noted.BLOCK, {"dialect": "json_action", "outcome": BlockOutcome.MALFORMED})
MARKER = ("re_encode", 0, Noted.MARKER_TEXT, {"dialect": "json_action"})
INVARIANT = ("engine", 0, Noted.INVARIANT_BROKEN, {"invariant": Invariant.DUPLICATE_ID})
STAGE = ("engine", 1, Noted.STAGE_FAILED, {"stage": "sieve", "mode": "open"})
DOWN = ("upstream", 1, Noted.UPSTREAM_FAILED, {"kind": ErrorKind.UPSTREAM_UNREACHABLE, "outcome": UpstreamOutcome.CONNECT})

REFUSED_TWICE = {**EMULATED, "attempt_verdicts": [Verdict.REFUSED, Verdict.REFUSED], "retry_skipped": SkipReason.BUDGET}
CASES = [
    ("a call", turn(Verdict.CALL, **EMULATED), Fault.HEALTHY),
    ("text", turn(Verdict.TEXT, **EMULATED), Fault.HEALTHY),
    ("a turn without tools", turn(Verdict.PASSED, passed_through=True), Fault.HEALTHY),
    ("a repaired block", turn(Verdict.CALL, blocks={"repaired": 1}, repairs={"trailing_comma": 1}, **EMULATED), Fault.HEALTHY),
    ("an example in a fence", turn(Verdict.TEXT, blocks={"fenced_example": 1, "quoted": 1}, **EMULATED), Fault.HEALTHY),
    ("a refusal, asked again in vain", turn(Verdict.REFUSED, HIT, ENDED, **REFUSED_TWICE), Fault.PROMPT_TOO_WEAK),
    (
        "no call though one was required",
        turn(Verdict.MISSING_CALL, **{**REFUSED_TWICE, "attempt_verdicts": [Verdict.MISSING_CALL] * 3}),
        Fault.PROMPT_TOO_WEAK,
    ),
    (
        "a tool that was not offered",
        turn(Verdict.UNKNOWN_TOOL, blocks={"unknown_tool": 1}, **{**REFUSED_TWICE, "attempt_verdicts": [Verdict.UNKNOWN_TOOL] * 2}),
        Fault.PROMPT_TOO_WEAK,
    ),
    (
        "a refusal after a result, where an answer is legal",
        turn(Verdict.REFUSED, HIT, retry_skipped=SkipReason.NOT_REQUIRED, **EMULATED),
        Fault.PROMPT_TOO_WEAK,
    ),
    ("a broken block", turn(Verdict.MALFORMED, BROKEN, blocks={"malformed": 1}, **EMULATED), Fault.PARSER_FAILURE),
    ("one bad block among good ones", turn(Verdict.CALL, BROKEN, blocks={"malformed": 1, "parsed": 1}, **EMULATED), Fault.PARSER_FAILURE),
    ("a marker in the text while blocks are well", turn(Verdict.TEXT, MARKER, **EMULATED), Fault.PARSER_FAILURE),
    (
        "a refusal while retries are off",
        turn(Verdict.REFUSED, HIT, SKIP, retry_skipped=SkipReason.OFF, **EMULATED),
        Fault.RETRY_NOT_TRIGGERED,
    ),
    (
        "a refusal after text was out",
        turn(Verdict.REFUSED, retry_skipped=SkipReason.ALREADY_STREAMED, **EMULATED),
        Fault.RETRY_NOT_TRIGGERED,
    ),
    ("a missing call that nobody asked about", turn(Verdict.MISSING_CALL, **EMULATED), Fault.RETRY_NOT_TRIGGERED),
    ("a broken promise", turn(Verdict.CALL, INVARIANT, **EMULATED), Fault.STATE_MACHINE_BROKEN),
    ("a stage that failed open", turn(Verdict.TEXT, STAGE, **EMULATED), Fault.STATE_MACHINE_BROKEN),
    ("no verdict", turn(None, attempt_verdicts=[], **EMULATED), Fault.STATE_MACHINE_BROKEN),
    (
        "an attempt without a verdict",
        turn(Verdict.CALL, attempt_verdicts=[Verdict.CALL], attempts=2, **EMULATED),
        Fault.STATE_MACHINE_BROKEN,
    ),
    ("an internal error", turn(Verdict.REJECTED, status=500, error=ErrorKind.INTERNAL), Fault.STATE_MACHINE_BROKEN),
    ("the contract failed", turn(Verdict.TEXT, emulation_reason=EmulationReason.STAGE_FAILED), Fault.STATE_MACHINE_BROKEN),
    (
        "an upstream that cannot be reached",
        turn(Verdict.UPSTREAM_FAILED, DOWN, status=502, error=ErrorKind.UPSTREAM_UNREACHABLE, **EMULATED),
        Fault.UPSTREAM_FAULT,
    ),
    ("an empty answer of a native route", turn(Verdict.EMPTY), Fault.UPSTREAM_FAULT),
    ("a drain", turn(Verdict.UPSTREAM_FAILED, status=503, error=ErrorKind.SHUTTING_DOWN, **EMULATED), Fault.SHUT_DOWN),
    ("a bad request", turn(Verdict.REJECTED, attempt_verdicts=[], status=400, error=ErrorKind.INVALID_REQUEST), Fault.REQUEST_REJECTED),
    ("a full house", turn(Verdict.REJECTED, attempt_verdicts=[], status=503, error=ErrorKind.OVERLOADED), Fault.REQUEST_REJECTED),
    ("a client that left", turn(Verdict.CLIENT_GONE, client_gone=True, blocks={"unterminated": 1}, **EMULATED), Fault.CLIENT_GONE),
    ("a cut block", turn(Verdict.TRUNCATED, finish=FinishReason.LENGTH, blocks={"unterminated": 1}, **EMULATED), Fault.OUTPUT_LIMIT),
    ("time in this process", turn(Verdict.CALL, overhead_s=0.2, **EMULATED), Fault.OWN_SLOWNESS),
    ("a long healthy stream", turn(Verdict.TEXT, overhead_s=0.37, pieces=1000, **EMULATED), Fault.HEALTHY),
    ("a long stream that is slow piece by piece", turn(Verdict.TEXT, overhead_s=5.0, pieces=1000, **EMULATED), Fault.OWN_SLOWNESS),
    ("text withheld on a stream", turn(Verdict.CALL, stream=True, held_s=9.0, **EMULATED), Fault.OWN_SLOWNESS),
    ("a whole answer, held because it is not streamed", turn(Verdict.CALL, stream=False, held_s=9.0, **EMULATED), Fault.HEALTHY),
    ("a slow upstream", turn(Verdict.CALL, total_s=90.0, **EMULATED), Fault.HEALTHY),
    ("a log that ends", TurnLog("r1", None, [{"event": "block", "ts": 1.0}]), Fault.UNFINISHED),
]


@pytest.mark.parametrize(("log", "fault"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_fault_is_named_with_evidence(log, fault):
    found = diagnose(log)
    assert found.fault is fault
    assert found.because
    assert found.evidence
    assert not found.recovered
    assert bool(found.next_steps) == (fault is not Fault.HEALTHY)


def test_every_fault_has_a_case_and_words():
    assert {case[2] for case in CASES} == set(Fault) == set(ABOUT)
    assert {fault for fault, _ in RULES} == set(Fault) - {Fault.HEALTHY, Fault.UNFINISHED}


@pytest.mark.parametrize(("first", "fault"), [(Verdict.REFUSED, Fault.PROMPT_TOO_WEAK), (Verdict.MALFORMED, Fault.PARSER_FAILURE)])
def test_a_fault_that_a_retry_made_good_is_named_and_said_to_be_recovered(first, fault):
    found = diagnose(turn(Verdict.CALL, attempt_verdicts=[first, Verdict.CALL], **EMULATED))
    assert (found.fault, found.recovered) == (fault, True)


def test_other_faults_of_the_turn_are_named_beside_it():
    unretried = diagnose(turn(Verdict.REFUSED, HIT, SKIP, retry_skipped=SkipReason.OFF, overhead_s=0.3, **EMULATED))
    assert unretried.also == (Fault.PROMPT_TOO_WEAK, Fault.OWN_SLOWNESS)
    assert diagnose(turn(Verdict.MALFORMED, BROKEN, retry_skipped=SkipReason.OFF, **EMULATED)).also == (Fault.RETRY_NOT_TRIGGERED,)


@pytest.mark.parametrize(("why", "word"), [("off", "max_retries"), ("deadline", "turn_deadline_s"), ("already_streamed", "hold_chars")])
def test_the_next_step_follows_the_reason(why, word):
    assert word in diagnose(turn(Verdict.REFUSED, retry_skipped=SkipReason(why), **EMULATED)).next_steps[0]


def test_evidence_are_lines_of_the_log():
    found = diagnose(turn(Verdict.REFUSED, HIT, SKIP, retry_skipped=SkipReason.OFF, refusal="en.no_tools", **EMULATED))
    assert [(one.event, one.fields) for one in found.evidence] == [
        ("turn", {"verdict": "refused", "attempts": 1, "causes": ["first"], "retry_skipped": "off", "refusal": "en.no_tools"}),
        ("retry_skipped", {"stage": "retry_on_refusal", "attempt": 1, "cause": "refusal", "why": "off"}),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
FIELDS = [
    "ts",
    "verdict",
    "error_kind",
    "causes",
    "attempt_verdicts",
    "attempts",
    "blocks",
    "emulated",
    "retry_skipped",
    "stream",
    "held_ms",
    "overhead_ms",
    "excess_ms",
    "tier",
    "stage",
    "attempt",
]
EVENTS = st.sampled_from([*Noted, "unexpected", "nonsense"])
VALUES = JSON | st.sampled_from([*Verdict, *SkipReason])


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES),
    st.lists(st.tuples(EVENTS, st.dictionaries(st.sampled_from(FIELDS), VALUES)), max_size=4),
)
def test_nothing_in_a_log_makes_it_fail(turn_fields, events):
    log = TurnLog("r", {"event": "turn", **turn_fields}, [{**fields, "event": event} for event, fields in events])
    assert diagnose(log).because

"""A turn's notes and its end, seen from outside: log lines and series."""

from __future__ import annotations

import orjson
import pytest

from pipeline.commands import TurnRecord
from pipeline.turn import Usage
from pipeline.verdicts import (
    Api,
    BlockOutcome,
    Cause,
    EmulationReason,
    ErrorKind,
    HistoryRepair,
    Noted,
    RefusalKind,
    Repair,
    RetryResult,
    SkipReason,
    UpstreamOutcome,
    Verdict,
)
from proxy.telemetry.catalogue import Names
from proxy.telemetry.logs import make_logger
from proxy.telemetry.telemetry import Telemetry

NAMES = Names(models=("m*",), upstreams=("up",), dialects=("json_action", "dsml"), stages=("sieve", "upstream"))


class Lines(list):
    """A sink that keeps lines as values."""

    def __bool__(self):
        return True

    def msg(self, line):
        self.append(orjson.loads(line))

    debug = info = warning = error = msg


@pytest.fixture
def lines():
    return Lines()


def make(lines, **options):
    return Telemetry(NAMES, make_logger(lines, worker=0), **options)


def value(telemetry, sample, **labels):
    return telemetry.metrics.registry.get_sample_value(f"toolgraft_{sample}", labels)


def turn_of(telemetry, api=Api.OPENAI_CHAT):
    ledger = telemetry.turn(api, "req_1", "t" * 32)
    ledger.measured.model = "m*"
    return ledger


def test_a_whole_turn_with_a_retry(lines):
    telemetry = make(lines)
    ledger = turn_of(telemetry)
    assert value(telemetry, "requests_in_flight", api="openai_chat") == 1
    ledger.bind("history_guard", 0)(Noted.HISTORY_REPAIRED, kind=HistoryRepair.POISONED_CALL, count=2)
    ledger.bind("prompt_contract", 1)(Noted.CONTRACT_INJECTED, dialect="json_action", tier="full", bytes=900, tools=2)
    ledger.bind("upstream", 1)(Noted.UPSTREAM_SENT, upstream="up", cause=Cause.FIRST, bytes=10)
    ledger.bind("retry_on_refusal", 1)(Noted.REFUSAL_HIT, kind=RefusalKind.HARD, lang="en", phrase="en.no_tools")
    ledger.bind("retry_on_refusal", 1)(Noted.RETRY, cause=Cause.REFUSAL, number=1)
    ledger.bind("engine", 1)(Noted.ATTEMPT_ENDED, verdict=Verdict.REFUSED, cause=Cause.FIRST, upstream="up", status=200)
    ledger.bind("upstream", 2)(Noted.UPSTREAM_SENT, upstream="up", cause=Cause.REFUSAL, bytes=10)
    ledger.bind("sieve", 2)(
        Noted.BLOCK, dialect="json_action", outcome=BlockOutcome.REPAIRED, repairs=(Repair.TRAILING_COMMA, Repair.SMART_QUOTES)
    )
    ledger.bind("retry_on_refusal", 2)(Noted.RETRY_ENDED, result=RetryResult.RECOVERED)
    ledger.bind("engine", 2)(Noted.ATTEMPT_ENDED, verdict=Verdict.CALL, cause=Cause.REFUSAL, upstream="up", status=200)
    record = TurnRecord(
        api=Api.OPENAI_CHAT,
        read=True,
        verdict=Verdict.CALL,
        status=200,
        emulated=True,
        emulation_reason=EmulationReason.TOOLS_OFFERED,
        dialect="json_action",
        attempts=2,
        causes=[Cause.FIRST, Cause.REFUSAL],
        attempt_verdicts=[Verdict.REFUSED, Verdict.CALL],
        calls=1,
        started=10.0,
        first_client_byte=10.5,
        first_content=10.5,
        held_s=0.25,
        usage=Usage(input_tokens=7, output_tokens=3),
    )
    ledger.measured.ended = 11.0
    ledger.conclude(record)
    ledger.conclude(record)

    counted = {
        ("turns_started_total", ("api", "openai_chat")): 1,
        ("turns_total", ("model", "m*"), ("verdict", "call")): 1,
        ("requests_in_flight", ("api", "openai_chat")): 0,
        ("requests_total", ("api", "openai_chat"), ("code", "200")): 1,
        ("attempts_total", ("model", "m*"), ("cause", "first")): 1,
        ("attempts_total", ("model", "m*"), ("cause", "refusal")): 1,
        ("attempt_verdicts_total", ("model", "m*"), ("verdict", "refused")): 1,
        ("attempt_verdicts_total", ("model", "m*"), ("verdict", "call")): 1,
        ("first_attempt_verdicts_total", ("model", "m*"), ("verdict", "refused")): 1,
        ("refusals_total", ("kind", "hard"), ("lang", "en"), ("action", "retried")): 1,
        ("retries_total", ("cause", "refusal"), ("result", "recovered")): 1,
        ("blocks_total", ("dialect", "json_action"), ("result", "repaired")): 1,
        ("repairs_total", ("dialect", "json_action"), ("kind", "trailing_comma")): 1,
        ("repairs_total", ("dialect", "json_action"), ("kind", "smart_quotes")): 1,
        ("history_repairs_total", ("kind", "poisoned_call")): 2,
        ("contract_bytes_sum", ("model", "m*")): 900,
        ("emulation_total", ("reason", "tools_offered")): 1,
        ("calls_total", ("model", "m*"), ("origin", "text")): 1,
        ("upstream_requests_total", ("upstream", "up"), ("outcome", "ok")): 2,
        ("tokens_total", ("model", "m*"), ("type", "input")): 7,
        ("tokens_total", ("model", "m*"), ("type", "output")): 3,
        ("request_seconds_sum", ("api", "openai_chat"), ("stream", "false")): 1.0,
        ("held_seconds_count", ("dialect", "json_action")): 0,
        ("events_total", ("event", "block")): 1,
        ("telemetry_errors_total",): 0,
        ("invariant_violations_total", ("invariant", "no_verdict")): 0,
    }
    assert {key: value(telemetry, key[0], **dict(key[1:])) for key in counted} == counted

    assert [line["event"] for line in lines] == ["history_repaired", "refusal_hit", "retry", "block", "retry_ended", "turn"]
    assert all(line["rid"] == "req_1" and line["trace_id"] == "t" * 32 and line["worker"] == 0 for line in lines)
    turn = lines[-1]
    assert (turn["verdict"], turn["causes"], turn["history_repairs"]) == ("call", ["first", "refusal"], 2)
    assert (turn["ttfb_ms"], turn["total_ms"], turn["held_ms"], turn["tokens_in"]) == (500.0, 1000.0, 250.0, 7)
    assert lines[3] | {"ts": 0} == {
        "ts": 0,
        "level": "info",
        "event": "block",
        "worker": 0,
        "rid": "req_1",
        "trace_id": "t" * 32,
        "stage": "sieve",
        "attempt": 2,
        "dialect": "json_action",
        "outcome": "repaired",
        "repairs": ["trailing_comma", "smart_quotes"],
    }


@pytest.mark.parametrize(("stream", "count"), [(True, 1), (False, 0)])
def test_held_time_is_that_of_streams(lines, stream, count):
    telemetry = make(lines)
    record = TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.CALL, status=200, emulated=True, dialect="dsml", stream=stream, held_s=0.25)
    turn_of(telemetry).conclude(record)
    assert value(telemetry, "held_seconds_count", dialect="dsml") == count
    assert value(telemetry, "held_seconds_sum", dialect="dsml") == 0.25 * count


def test_a_refusal_that_was_not_retried_counts_as_delivered(lines):
    telemetry = make(lines)
    ledger = turn_of(telemetry)
    ledger.bind("retry_on_refusal", 1)(Noted.REFUSAL_HIT, kind=RefusalKind.SOFT, lang="tlh")
    ledger.bind("retry_on_refusal", 1)(Noted.RETRY_SKIPPED, cause=Cause.REFUSAL, why=SkipReason.BUDGET)
    ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.REFUSED, status=200))
    assert value(telemetry, "refusals_total", kind="soft", lang="other", action="delivered") == 1
    assert value(telemetry, "retry_skips_total", why="budget") == 1


@pytest.mark.parametrize(
    ("failure", "status", "verdict", "outcome"),
    [
        ({}, 200, Verdict.TEXT, "ok"),
        ({}, 200, Verdict.CLIENT_GONE, "cancelled"),
        ({}, 0, Verdict.CLIENT_GONE, "cancelled"),
        ({"kind": ErrorKind.RATE_LIMIT, "status": 429}, 429, Verdict.UPSTREAM_FAILED, "http_429"),
        ({"kind": ErrorKind.INVALID_REQUEST, "status": 404}, 404, Verdict.UPSTREAM_FAILED, "http_4xx"),
        ({"kind": ErrorKind.UPSTREAM_ERROR, "status": 302}, 302, Verdict.UPSTREAM_FAILED, "http_4xx"),
        ({"kind": ErrorKind.OVERLOADED, "status": 503}, 503, Verdict.UPSTREAM_FAILED, "http_5xx"),
        ({"kind": ErrorKind.UPSTREAM_UNREACHABLE, "outcome": UpstreamOutcome.CONNECT}, 0, Verdict.UPSTREAM_FAILED, "connect"),
        ({"kind": ErrorKind.UPSTREAM_TIMEOUT, "outcome": UpstreamOutcome.IDLE_TIMEOUT}, 200, Verdict.UPSTREAM_FAILED, "idle_timeout"),
    ],
)
def test_every_upstream_request_ends_one_way(lines, failure, status, verdict, outcome):
    telemetry = make(lines)
    ledger = turn_of(telemetry)
    if failure:
        ledger.bind("upstream", 1)(Noted.UPSTREAM_FAILED, **failure)
    ledger.bind("engine", 1)(Noted.ATTEMPT_ENDED, verdict=verdict, cause=Cause.FIRST, upstream="up", status=status)
    assert value(telemetry, "upstream_requests_total", upstream="up", outcome=outcome) == 1


def test_a_turn_without_a_verdict_breaks_an_invariant(lines):
    telemetry = make(lines)
    turn_of(telemetry).conclude(TurnRecord(api=Api.OPENAI_CHAT))
    turn_of(telemetry).conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.TEXT, attempts=2, attempt_verdicts=[Verdict.TEXT]))
    assert value(telemetry, "invariant_violations_total", invariant="no_verdict") == 2
    assert [line["level"] for line in lines if line["event"] == "invariant_broken"] == ["error", "error"]


@pytest.mark.parametrize(
    ("stages", "events"), [("all", ["normalized", "retry_skipped", "turn"]), ("changes", ["retry_skipped", "turn"]), ("none", ["turn"])]
)
def test_stage_events_are_as_many_as_asked_for(lines, stages, events):
    ledger = turn_of(make(lines, stages=stages))
    ledger.bind("normalize", 0)(Noted.NORMALIZED, tools=1)
    ledger.bind("retry_on_refusal", 1)(Noted.RETRY_SKIPPED, cause=Cause.REFUSAL, why=SkipReason.OFF)
    ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.TEXT, status=200))
    assert [line["event"] for line in lines] == events


@pytest.mark.parametrize(
    ("verdict", "error", "level"),
    [
        (Verdict.CALL, None, "info"),
        (Verdict.REJECTED, ErrorKind.INVALID_REQUEST, "info"),
        (Verdict.CLIENT_GONE, None, "info"),
        (Verdict.REFUSED, None, "warning"),
        (Verdict.UPSTREAM_FAILED, ErrorKind.UPSTREAM_ERROR, "warning"),
        (Verdict.REJECTED, ErrorKind.INTERNAL, "error"),
        (None, None, "error"),
    ],
)
def test_the_level_of_a_turn_says_whose_business_it_is(lines, verdict, error, level):
    turn_of(make(lines)).conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=verdict, error=error, status=500))
    assert lines[-1]["level"] == level


def test_sampling_leaves_out_quiet_turns_only_and_says_so(lines):
    telemetry = make(lines, sample=0.0)
    for verdict in Verdict:
        turn_of(telemetry).conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=verdict))
    logged = {line["verdict"] for line in lines}
    assert logged == set(Verdict) - {Verdict.CALL, Verdict.NATIVE_CALL, Verdict.TEXT, Verdict.PASSED}
    assert {line["sample_rate"] for line in lines} == {0.0}
    assert sum(value(telemetry, "turns_total", model="m*", verdict=verdict) for verdict in Verdict) == len(Verdict)


def test_nothing_is_said_about_a_request_that_was_not_read(lines):
    telemetry = make(lines)
    turn_of(telemetry).conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.REJECTED, error=ErrorKind.AUTHENTICATION, status=401))
    unknown = {
        "in_bytes",
        "overhead_ms",
        "excess_ms",
        "stream",
        "emulated",
        "emulation_reason",
        "tools_offered",
        "tool_choice",
        "history",
        "state",
    }
    assert unknown & set(lines[0]) == set()
    assert sum(value(telemetry, "emulation_total", reason=reason) for reason in EmulationReason) == 0
    assert value(telemetry, "overhead_seconds_count", api="openai_chat") == value(telemetry, "overhead_excess_seconds_count") == 0
    turn_of(telemetry).conclude(TurnRecord(api=Api.OPENAI_CHAT, read=True, verdict=Verdict.TEXT, status=200))
    assert (lines[1]["emulation_reason"], lines[1]["tools_offered"]) == ("no_tools", 0)
    assert value(telemetry, "emulation_total", reason="no_tools") == 1


def test_overhead_counts_in_sum_and_beyond_what_the_length_explains(lines):
    telemetry = make(lines)
    ledger = turn_of(telemetry)
    ledger.measured.overhead_s = 0.5
    for size in (200, 100, 40 << 10):
        ledger.measured.read(size)
    ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.TEXT))
    assert (lines[0]["overhead_ms"], lines[0]["pieces"], lines[0]["excess_ms"]) == (500.0, 5, 495.0)
    assert value(telemetry, "overhead_seconds_sum", api="openai_chat") == 0.5
    assert value(telemetry, "overhead_excess_seconds_sum") == 0.495


def test_a_turn_with_a_warning_has_its_line_whatever_the_sample(lines):
    ledger = turn_of(make(lines, sample=0.0))
    ledger.bind("engine", 1)(Noted.STAGE_FAILED, stage="sieve", mode="open")
    ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.TEXT))
    assert [line["event"] for line in lines] == ["stage_failed", "turn"]


def test_all_lines_of_a_turn_are_sampled_alike(lines):
    telemetry = make(lines, sample=0.5)
    for at in range(200):
        ledger = telemetry.turn(Api.OPENAI_CHAT, f"req_{at}", "t")
        ledger.bind("sieve", 1)(Noted.BLOCK, dialect="dsml", outcome=BlockOutcome.REPAIRED)
        ledger.conclude(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.CALL))
    by_event = {event: {line["rid"] for line in lines if line["event"] == event} for event in ("block", "turn")}
    assert by_event["block"] == by_event["turn"]
    assert 50 < len(by_event["turn"]) < 150


def test_only_known_fields_and_short_words_are_logged(lines):
    ledger = turn_of(make(lines, stages="all"))
    note = ledger.bind("sieve", 1)
    note(Noted.BLOCK, dialect="dsml", outcome=BlockOutcome.MALFORMED, fault="canary in the fault", text="canary text")
    note(Noted.REFUSAL_HIT, kind=RefusalKind.SOFT, lang="en", phrase="canary said the model, at length")
    note(Noted.PARAMETER_DROPPED, parameter={"canary": 1})
    assert "canary" not in str(lines)
    assert lines[1]["phrase"] == "other"


@pytest.mark.parametrize(
    ("noted", "fields"), [("no such note", {}), (Noted.ATTEMPT_ENDED, {}), (Noted.HISTORY_REPAIRED, {"kind": "no such repair", "count": 1})]
)
def test_a_note_that_cannot_be_booked_is_counted_and_nothing_more(lines, noted, fields):
    telemetry = make(lines)
    turn_of(telemetry).bind("x", 1)(noted, **fields)
    assert value(telemetry, "telemetry_errors_total") >= 1


def test_a_key_is_a_salted_fingerprint(lines):
    one, two = make(lines, salt=b"a" * 16), make(lines, salt=b"b" * 16)
    assert one.fingerprint("sk-canary") == one.fingerprint("sk-canary")
    assert one.fingerprint("sk-canary") != two.fingerprint("sk-canary")
    assert len(one.fingerprint("sk-canary")) == 8


def test_a_fault_is_logged_by_kind_and_place(lines):
    telemetry = make(lines)
    try:
        raise ValueError("canary")
    except ValueError as exc:
        telemetry.unexpected("here", exc, rid="r")
    assert lines[0]["error"] == "ValueError"
    assert lines[0]["where"][-1].startswith("test_ledger.py:")
    assert "canary" not in str(lines)

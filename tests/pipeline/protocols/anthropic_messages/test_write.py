from __future__ import annotations

import json

import pytest

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.protocols.anthropic_messages.write import MessagesBody, MessagesStream
from pipeline.protocols.writing import WriterOptions
from pipeline.turn import Emulation, Message, Role, Text, Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, ErrorKind, FinishReason
from tests.conformance.answers import both, violations, write_body, write_stream
from tests.conformance.grammar import events as sse_events

TURN = Turn(api=Api.ANTHROPIC_MESSAGES, model="claude-x", messages=(Message(Role.USER, (Text("hello there"),)),))
THINKING = Turn(api=Api.ANTHROPIC_MESSAGES, model="claude-x", reasoning_wanted=True)


def told(raw: bytes) -> list[dict]:
    return [json.loads(data) for _, data in sse_events(raw)[0]]


def kinds(raw: bytes) -> list[str]:
    return [event["type"] for event in told(raw)]


def test_text_is_one_block():
    raw = write_stream(TURN, [[TextDelta("Hel")], [TextDelta("lo")]], Finish())
    assert kinds(raw) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    message = told(raw)[0]["message"]
    assert message["id"].startswith("msg_01") and message["model"] == "claude-x"
    assert message["usage"]["input_tokens"] >= 3 and message["usage"]["output_tokens"] == 0


def test_the_estimate_at_the_start_counts_tools_that_no_contract_shows():
    tool = Tool("t", "d" * 400, {"type": "object"})
    plain = Turn(api=Api.ANTHROPIC_MESSAGES, tools=(tool,))
    shown = Turn(api=Api.ANTHROPIC_MESSAGES, tools=(tool,), emulation=Emulation("json_action", (tool,)))
    count = [told(write_stream(turn, [], Finish()))[0]["message"]["usage"]["input_tokens"] for turn in (plain, shown)]
    assert count[0] >= 100 > count[1] >= 1


def test_blocks_stand_in_the_order_of_the_answer():
    events = [TextDelta("before"), CallDone(0, "a", '{"x":1}'), TextDelta("between"), CallDone(1, "b", "{}"), TextDelta("after")]
    answer = both(TURN, events)
    assert answer.parts == (
        ("text", "before"),
        ("function", "a", '{"x": 1}'),
        ("text", "between"),
        ("function", "b", "{}"),
        ("text", "after"),
    )
    assert answer.finish == ("tool_use", None)


def test_input_is_streamed_and_keeps_every_digit():
    arguments = '{"n":123456789012345678901234567890,"s":"<&>"}'
    raw = write_stream(TURN, [[CallDone(0, "a", arguments)]], Finish())
    start, delta = told(raw)[1:3]
    assert start["content_block"]["input"] == {} and start["content_block"]["id"].startswith("toolu_01")
    assert delta["delta"] == {"type": "input_json_delta", "partial_json": arguments}
    assert b'"input":' + arguments.encode() in write_body(TURN, [CallDone(0, "a", arguments)], Finish())


def test_a_custom_tool_is_a_tool_like_any_other_here():
    turn = Turn(api=Api.ANTHROPIC_MESSAGES, tools=(Tool("patch", kind=ToolKind.CUSTOM),))
    assert both(turn, [CallDone(0, "patch", '{"input":"x"}')]).calls == [("function", "patch", '{"input": "x"}')]


def test_begun_input_streams():
    events = [CallBegun(0, "a"), ArgumentsDelta(0, '{"k":'), TextDelta("late"), ArgumentsDelta(0, "1}"), CallDone(0, "a", '{"k":1}')]
    assert both(TURN, events).parts == (("function", "a", '{"k": 1}'), ("text", "late"))


def test_an_empty_answer_has_no_block():
    answer = both(TURN, [TextDelta("")])
    assert answer.parts == () and answer.finish == ("end_turn", None)
    assert json.loads(write_body(TURN, [], Finish()))["content"] == []


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (Finish(), ("end_turn", None)),
        (Finish(FinishReason.LENGTH), ("max_tokens", None)),
        (Finish(FinishReason.CONTEXT_WINDOW), ("model_context_window_exceeded", None)),
        (Finish(FinishReason.CONTENT_FILTER), ("refusal", None)),
        (Finish(FinishReason.STOP_SEQUENCE, stop_sequence="END"), ("stop_sequence", "END")),
        (Finish(FinishReason.STOP_SEQUENCE), ("stop_sequence", None)),
        (Finish(FinishReason.TOOL_CALLS), ("end_turn", None)),
    ],
)
def test_stop_reasons_without_calls(finish, expected):
    assert both(TURN, [TextDelta("x")], finish).finish == expected


@pytest.mark.parametrize(
    ("known", "told_of"),
    [
        (None, {"category": None, "explanation": None}),
        ({"type": "refusal", "category": "bio", "explanation": "no"}, {"category": "bio", "explanation": "no"}),
    ],
)
def test_a_refusal_says_what_is_known_of_it(known, told_of):
    finish = Finish(FinishReason.CONTENT_FILTER, stop_details=known)
    details = {"type": "refusal", **told_of}
    assert json.loads(write_body(TURN, [TextDelta("x")], finish))["stop_details"] == details
    assert told(write_stream(TURN, [[TextDelta("x")]], finish))[-2]["delta"]["stop_details"] == details
    assert "stop_details" not in told(write_stream(TURN, [[TextDelta("x")]], Finish()))[-2]["delta"]


def test_the_only_stop_sequence_is_the_one_that_fired():
    turn = Turn(api=Api.ANTHROPIC_MESSAGES, stop=("END",))
    assert both(turn, [TextDelta("x")], Finish(FinishReason.STOP_SEQUENCE)).finish == ("stop_sequence", "END")


@pytest.mark.parametrize("reason", list(FinishReason))
def test_calls_decide_the_stop_reason(reason):
    assert both(TURN, [CallDone(0, "a", "{}")], Finish(reason, stop_sequence="END")).finish == ("tool_use", None)


def test_usage_excludes_the_cache():
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cache_write_tokens=10)
    assert both(TURN, [TextDelta("x")], Finish(usage=usage)).usage == {
        "input_tokens": 30,
        "output_tokens": 7,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 60,
    }


def test_missing_usage_is_estimated():
    usage = both(TURN, [TextDelta("x" * 40)]).usage
    assert usage["output_tokens"] == 10 and usage["input_tokens"] >= 3


def test_thinking_is_shown_to_those_who_asked():
    events = [ReasoningDelta("so "), ReasoningDelta("then"), TextDelta("x")]
    assert both(THINKING, events).parts == (("reasoning", "so then"), ("text", "x"))
    assert both(TURN, events).parts == (("text", "x"),)
    raw = write_stream(THINKING, [events], Finish())
    assert told(raw)[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert told(raw)[4]["delta"] == {"type": "signature_delta", "signature": ""}
    assert json.loads(write_body(THINKING, events, Finish()))["content"][0]["signature"] == ""


def test_hidden_reasoning_does_not_cut_a_text_block():
    assert both(TURN, [TextDelta("a"), ReasoningDelta("hm"), TextDelta("b")]).parts == (("text", "ab"),)


def test_body_has_the_required_keys():
    body = json.loads(write_body(TURN, [TextDelta("x")], Finish()))
    assert set(body) == {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}


def test_short_silence_is_bridged_by_pings_even_before_the_start():
    writer = MessagesStream(TURN)
    raw = writer.keep_alive(10.0) + writer.feed([TextDelta("x")]) + writer.keep_alive(12.0) + writer.finish(Finish())
    assert violations(TURN, raw) == []
    assert kinds(raw)[0] == "ping" and kinds(raw).count("ping") == 2


def test_long_silence_opens_a_text_block_and_later_text_continues_in_it():
    writer = MessagesStream(TURN)
    raw = writer.keep_alive(60.0)
    assert kinds(raw) == ["message_start", "content_block_start", "content_block_delta"]
    raw += writer.keep_alive(72.0) + writer.feed([TextDelta("at last")]) + writer.finish(Finish())
    assert violations(TURN, raw) == []
    assert kinds(raw).count("content_block_start") == 1
    assert [event["delta"]["text"] for event in told(raw) if event["type"] == "content_block_delta"] == ["", "", "at last"]


def test_a_call_after_long_silence_closes_the_empty_block():
    writer = MessagesStream(TURN)
    raw = writer.keep_alive(61.0) + writer.feed([CallDone(0, "a", "{}")]) + writer.finish(Finish())
    assert violations(TURN, raw, silence=True) == []
    assert [event["index"] for event in told(raw) if event["type"] == "content_block_start"] == [0, 1]


def test_long_silence_in_an_open_block_stays_in_it():
    for event, kind in ((CallBegun(0, "a"), "input_json_delta"), (ReasoningDelta("hm"), "thinking_delta"), (TextDelta("x"), "text_delta")):
        writer = MessagesStream(THINKING)
        writer.feed([event])
        assert [one["delta"]["type"] for one in told(writer.keep_alive(60.0))] == [kind]


def test_the_length_of_silence_is_configurable():
    assert kinds(MessagesStream(TURN, WriterOptions(silence_block_s=5.0)).keep_alive(6.0)) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
    ]


def test_a_failure_is_one_error_event_and_nothing_after_it():
    for first in ([], [TextDelta("half")], [CallBegun(0, "a")]):
        raw = write_stream(TURN, [first], Failed(ErrorKind.OVERLOADED, "too many"))
        assert told(raw)[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "too many"}}


def test_nothing_comes_after_the_end():
    for writer in (MessagesStream(TURN), MessagesBody(TURN)):
        writer.fail(Failed(ErrorKind.INTERNAL, "x"))
        assert writer.feed([TextDelta("x")]) == b""
        assert writer.finish(Finish()) == b""
        assert writer.keep_alive(100.0) == b""


def test_a_failed_body_is_the_error_body():
    turn = Turn(api=Api.ANTHROPIC_MESSAGES, request_id="req_1")
    assert json.loads(MessagesBody(turn).fail(Failed(ErrorKind.INTERNAL, "x"))) == {
        "type": "error",
        "error": {"type": "api_error", "message": "x"},
        "request_id": "req_1",
    }

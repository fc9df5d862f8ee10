from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pipeline.events import (
    ArgumentsDelta,
    BlockSeen,
    CallBegun,
    CallDone,
    Dropped,
    Failed,
    Finish,
    ReasoningDelta,
    TextDelta,
)
from pipeline.protocols.openai_chat.write import ChatBody, ChatStream
from pipeline.protocols.writing import BrokenAnswerError
from pipeline.settings import Settings
from pipeline.turn import Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, BlockOutcome, ErrorKind, FinishReason, SpanKind
from tests.conformance.answers import both, violations, write_body, write_stream
from tests.conformance.grammar import events as sse_events

TURN = Turn(api=Api.OPENAI_CHAT, model="my/model", echo={"created": 1700000000})
WITH_USAGE = Turn(api=Api.OPENAI_CHAT, model="my/model", include_usage=True, echo={"created": 1700000000})
USAGE = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, reasoning_tokens=5)


def chunks(raw: bytes) -> list[dict]:
    return [json.loads(data) for _, data in sse_events(raw)[0] if data != "[DONE]"]


def deltas(raw: bytes) -> list[dict]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(raw) if chunk["choices"]]


def test_text_is_a_role_chunk_text_chunks_a_finish_chunk_and_done():
    raw = write_stream(TURN, [[TextDelta("Hel")], [TextDelta("lo")]], Finish())
    assert deltas(raw) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
    assert raw.endswith(b"data: [DONE]\n\n")
    first = chunks(raw)[0]
    assert first["id"].startswith("chatcmpl-") and len(first["id"]) >= len("chatcmpl-") + 24
    assert (first["created"], first["model"], first["choices"][0]["finish_reason"]) == (1700000000, "my/model", None)


def test_created_is_zero_where_nobody_said_when():
    raw = write_stream(Turn(api=Api.OPENAI_CHAT), [[TextDelta("x")]], Finish())
    assert chunks(raw)[0]["created"] == 0


def test_text_survives_every_character_that_json_or_sse_could_trip_over():
    text = 'quote " backslash \\ newline \n cr \r separator \u2028 nul \x00 emoji 😀 \ufeff'
    assert both(TURN, [TextDelta(text)]).text == text


def test_a_lone_surrogate_becomes_the_replacement_character():
    assert both(TURN, [TextDelta("a\ud83db")]).text == "a\ufffdb"


def test_a_whole_call_comes_as_a_begin_and_its_arguments():
    raw = write_stream(TURN, [[CallDone(0, "look", '{"a":1}')]], Finish())
    role, begin, arguments, end = deltas(raw)
    assert role["content"] is None
    call = begin["tool_calls"][0]
    assert (call["index"], call["type"], call["function"]) == (0, "function", {"name": "look", "arguments": ""})
    assert call["id"].startswith("call_") and len(call["id"]) == 29
    assert arguments == {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}
    assert end == {}
    assert chunks(raw)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_are_counted_from_zero_whatever_numbers_the_events_carry():
    answer = both(TURN, [CallDone(3, "a", "{}"), TextDelta("between"), CallDone(7, "b", '{"x":2}')])
    assert answer.calls == [("function", "a", "{}"), ("function", "b", '{"x":2}')]
    assert answer.text == "between"


def test_arguments_are_never_empty():
    assert both(TURN, [CallDone(0, "a", "")]).calls == [("function", "a", "{}")]
    assert both(TURN, [CallBegun(0, "a"), CallDone(0, "a", " ")]).calls == [("function", "a", "{}")]


def test_begun_arguments_stream_as_they_come_and_add_up():
    events = [CallBegun(0, "a"), ArgumentsDelta(0, '{"k":'), ArgumentsDelta(0, '"v"}'), CallDone(0, "a", '{"k":"v"}')]
    raw = write_stream(TURN, [events[:2], events[2:]], Finish())
    assert [d["tool_calls"][0]["function"]["arguments"] for d in deltas(raw) if "tool_calls" in d] == ["", '{"k":', '"v"}']
    assert both(TURN, events).calls == [("function", "a", '{"k":"v"}')]


def test_what_the_deltas_left_out_comes_with_the_done_event():
    events = [CallBegun(0, "a"), ArgumentsDelta(0, '{"k":'), CallDone(0, "a", '{"k":1}')]
    assert both(TURN, events).calls == [("function", "a", '{"k":1}')]


def test_interleaved_calls_are_put_one_after_the_other():
    events = [
        CallBegun(0, "a"),
        CallBegun(1, "b"),
        ArgumentsDelta(1, '{"b":'),
        ArgumentsDelta(0, '{"a":1}'),
        TextDelta("meanwhile"),
        ArgumentsDelta(1, "2}"),
        CallDone(0, "a", '{"a":1}'),
        CallDone(1, "b", '{"b":2}'),
    ]
    answer = both(TURN, events)
    assert answer.calls == [("function", "a", '{"a":1}'), ("function", "b", '{"b":2}')]
    assert answer.text == "meanwhile"


@pytest.mark.parametrize("sent", ["", '{"a":', "[1]", '"text"'])
def test_a_begun_call_that_never_became_an_object_is_no_answer(sent):
    for writer in (ChatStream(TURN), ChatBody(TURN)):
        writer.feed([CallBegun(0, "a"), ArgumentsDelta(0, sent)])
        with pytest.raises(BrokenAnswerError) as broken:
            writer.finish(Finish())
        assert b"tool call" in writer.fail(broken.value.failed)


def test_a_begun_call_that_is_whole_needs_no_done_event():
    assert both(TURN, [CallBegun(0, "a"), ArgumentsDelta(0, '{"a":1}'), TextDelta("after")]).calls == [("function", "a", '{"a":1}')]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (FinishReason.STOP, "stop"),
        (FinishReason.LENGTH, "length"),
        (FinishReason.STOP_SEQUENCE, "stop"),
        (FinishReason.CONTENT_FILTER, "content_filter"),
        (FinishReason.TOOL_CALLS, "stop"),
    ],
)
def test_finish_reasons_without_calls(reason, told):
    assert both(TURN, [TextDelta("x")], Finish(reason)).finish == told


@pytest.mark.parametrize("reason", list(FinishReason))
def test_complete_calls_decide_the_finish_reason(reason):
    assert both(TURN, [CallDone(0, "a", "{}")], Finish(reason)).finish == "tool_calls"


def test_an_empty_answer_has_empty_content():
    for events in ([], [TextDelta("")], [ReasoningDelta("hm")]):
        assert both(TURN, events).text == ""
    body = json.loads(write_body(TURN, [], Finish()))
    assert body["choices"][0]["message"]["content"] == ""


def test_content_is_null_when_there_are_only_calls():
    body = json.loads(write_body(TURN, [CallDone(0, "a", "{}")], Finish()))
    assert body["choices"][0]["message"]["content"] is None


def test_body_has_the_required_keys_and_no_null_where_the_schema_has_none():
    body = json.loads(write_body(TURN, [TextDelta("x")], Finish()))
    assert set(body) == {"id", "object", "created", "model", "choices", "usage"}
    assert set(body["choices"][0]) == {"index", "message", "finish_reason", "logprobs"}
    assert set(body["choices"][0]["message"]) == {"role", "content", "refusal"}
    assert body["object"] == "chat.completion"


def test_reasoning_stands_in_an_extra_key():
    events = [ReasoningDelta("so "), ReasoningDelta("then"), TextDelta("x")]
    assert both(TURN, events).parts == (("reasoning", "so then"), ("text", "x"))


def test_usage_is_told_only_when_asked_for():
    raw = write_stream(TURN, [[TextDelta("x")]], Finish(usage=USAGE))
    assert not any("usage" in chunk for chunk in chunks(raw))
    raw = write_stream(WITH_USAGE, [[TextDelta("x")]], Finish(usage=USAGE))
    assert [chunk["usage"] for chunk in chunks(raw)[:-1]] == [None] * (len(chunks(raw)) - 1)
    assert chunks(raw)[-1]["choices"] == []
    assert chunks(raw)[-1]["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }


def test_missing_usage_is_estimated():
    usage = both(WITH_USAGE, [TextDelta("x" * 40)]).usage
    assert usage["completion_tokens"] == 10
    assert usage["prompt_tokens"] >= 1


def test_custom_tools_give_back_their_raw_text():
    turn = Turn(api=Api.OPENAI_CHAT, tools=(Tool("patch", kind=ToolKind.CUSTOM),))
    events = [CallDone(0, "patch", json.dumps({"input": 'a "quoted"\nline'})), CallDone(1, "other", "{}")]
    assert both(turn, events).calls == [("custom", "patch", 'a "quoted"\nline'), ("function", "other", "{}")]


def test_a_begun_custom_call_is_told_once_its_text_is_known():
    turn = Turn(api=Api.OPENAI_CHAT, tools=(Tool("patch", kind=ToolKind.CUSTOM),))
    whole = json.dumps({"input": "text"})
    events = [CallBegun(0, "patch"), ArgumentsDelta(0, whole[:8]), ArgumentsDelta(0, whole[8:]), CallDone(0, "patch", whole)]
    assert both(turn, events).calls == [("custom", "patch", "text")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"x"}', "x"),
        ('{"input":"x","more":1}', "x"),
        ('{"patch":"x"}', "x"),
        ('{"input":{"a":1}}', '{"a":1}'),
        ('{"a":"x","b":"y"}', '{"a":"x","b":"y"}'),
        ("{}", ""),
        ('{"input":""}', ""),
    ],
)
def test_forms_in_which_models_write_the_text_of_a_custom_tool(arguments, text):
    turn = Turn(api=Api.OPENAI_CHAT, tools=(Tool("patch", kind=ToolKind.CUSTOM),))
    assert both(turn, [CallDone(0, "patch", arguments)]).calls == [("custom", "patch", text)]


def test_legacy_functions_get_one_function_call():
    turn = Turn(api=Api.OPENAI_CHAT, legacy_functions=True)
    answer = both(turn, [TextDelta("I look."), CallDone(0, "a", '{"x":1}'), CallDone(1, "b", "{}")])
    assert answer.calls == [("function_call", "a", '{"x":1}')]
    assert (answer.finish, answer.text) == ("function_call", "I look.")


def test_the_legacy_writer_alone_drops_further_calls_too():
    turn = Turn(api=Api.OPENAI_CHAT, legacy_functions=True, stream=True)
    writer = ChatStream(turn)
    raw = writer.feed([CallBegun(0, "a"), CallDone(0, "a", "{}"), CallBegun(1, "b"), ArgumentsDelta(1, "{}"), CallDone(1, "b", "{}")])
    assert violations(turn, raw + writer.finish(Finish())) == []


def test_a_failure_is_one_error_and_nothing_after_it():
    raw = write_stream(TURN, [[TextDelta("half")]], Failed(ErrorKind.UPSTREAM_CUT, "the upstream's answer was cut"))
    error = chunks(raw)[-1]["error"]
    assert error == {"message": "the upstream's answer was cut", "type": "server_error", "param": None, "code": "upstream_cut"}
    assert b"[DONE]" not in raw


def test_a_failure_may_be_the_first_thing():
    raw = write_stream(TURN, [], Failed(ErrorKind.RATE_LIMIT, "slow down"))
    assert [chunk["error"]["code"] for chunk in chunks(raw)] == ["rate_limit_exceeded"]


def test_nothing_comes_after_the_end():
    for writer in (ChatStream(TURN), ChatBody(TURN)):
        writer.finish(Finish())
        assert writer.feed([TextDelta("x")]) == b""
        assert writer.finish(Finish()) == b""
        assert writer.fail(Failed(ErrorKind.INTERNAL, "x")) == b""
        assert writer.keep_alive(12.0) == b""


def test_keep_alives_are_comments_and_leave_the_role_chunk_first():
    writer = ChatStream(TURN)
    raw = writer.keep_alive(10.0) + writer.feed([TextDelta("x")]) + writer.keep_alive(90.0) + writer.finish(Finish())
    assert violations(TURN, raw) == []
    assert raw.startswith(b": ")
    assert ChatBody(TURN).keep_alive(100.0) == b""


def test_events_that_are_no_content_leave_no_trace():
    writer = ChatStream(TURN)
    assert writer.feed([BlockSeen("dsml", BlockOutcome.PARSED, (0, 9)), Dropped(SpanKind.TRIMMED, (0, 1)), ArgumentsDelta(4, "x")]) == b""
    assert writer.feed([]) == b""


def test_content_types():
    assert ChatStream(TURN).content_type == "text/event-stream; charset=utf-8"
    assert ChatBody(TURN).content_type == "application/json"


# What a route chooses


@pytest.mark.parametrize(
    ("setting", "keys"),
    [("reasoning_content", {"reasoning_content"}), ("reasoning", {"reasoning"}), ("both", {"reasoning_content", "reasoning"})],
)
def test_reasoning_stands_under_the_names_that_the_route_says(setting: str, keys: set[str]):
    settings = Settings(reasoning_key=setting)
    events = [ReasoningDelta("so"), TextDelta("x")]
    raw = write_stream(TURN, [events], Finish(), settings)
    assert [delta for delta in deltas(raw) if "content" not in delta and delta] == [dict.fromkeys(keys, "so")]
    message = json.loads(write_body(TURN, events, Finish(), settings))["choices"][0]["message"]
    assert {key: message[key] for key in message if key.startswith("reasoning")} == dict.fromkeys(keys, "so")


def test_the_model_is_the_one_asked_for_unless_the_route_says_otherwise():
    routed = replace(TURN, upstream_model="vendor/model-7")
    for settings, name in ((None, "my/model"), (Settings(answer_model="upstream"), "vendor/model-7")):
        assert {chunk["model"] for chunk in chunks(write_stream(routed, [[TextDelta("x")]], Finish(), settings))} == {name}
        assert json.loads(write_body(routed, [TextDelta("x")], Finish(), settings))["model"] == name
    assert chunks(write_stream(TURN, [], Finish(), Settings(answer_model="upstream")))[0]["model"] == "my/model"


# What an upstream hung on its call (U09)

SIGNED = '{"google":{"thought_signature":"c2ln"}}'


@pytest.mark.parametrize(
    "events",
    [
        [CallDone(0, "a", "{}", extra=SIGNED)],
        [CallBegun(0, "a", extra=SIGNED), ArgumentsDelta(0, "{}"), CallDone(0, "a", "{}", extra=SIGNED)],
        [CallBegun(0, "a"), ArgumentsDelta(0, "{}"), CallDone(0, "a", "{}", extra=SIGNED)],
    ],
)
def test_what_comes_with_a_call_goes_on_with_it_once(events):
    raw = write_stream(TURN, [events], Finish())
    found = [call for delta in deltas(raw) for call in delta.get("tool_calls", []) if "extra_content" in call]
    assert [call["extra_content"] for call in found] == [json.loads(SIGNED)]
    assert all("function" in call for call in found)
    message = json.loads(write_body(TURN, events, Finish()))["choices"][0]["message"]
    assert message["tool_calls"][0]["extra_content"] == json.loads(SIGNED)
    legacy = replace(TURN, legacy_functions=True)
    assert b"extra_content" not in write_stream(legacy, [events], Finish()) + write_body(legacy, events, Finish())


def test_a_full_context_window_is_a_matter_of_length():
    assert (
        both(TURN, [TextDelta("x")], Finish(FinishReason.CONTEXT_WINDOW)).finish
        == both(TURN, [TextDelta("x")], Finish(FinishReason.LENGTH)).finish
    )

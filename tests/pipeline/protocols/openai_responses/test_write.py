from __future__ import annotations

import json

import pytest

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.protocols.openai_responses.write import ResponsesBody, ResponsesStream
from pipeline.turn import Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, ErrorKind, FinishReason
from tests.conformance.answers import both, violations, write_body, write_stream
from tests.conformance.grammar import RESPONSE_KEYS
from tests.conformance.grammar import events as sse_events

TURN = Turn(api=Api.OPENAI_RESPONSES, model="m", echo={"created": 1700000000})
REASONING = Turn(api=Api.OPENAI_RESPONSES, model="m", reasoning_wanted=True)
TOOLS = Turn(
    api=Api.OPENAI_RESPONSES,
    model="m",
    tools=(
        Tool("shell"),
        Tool("apply_patch", kind=ToolKind.CUSTOM),
        Tool("agents.v1.spawn", namespace="agents.v1"),
        Tool("agents.v1.note", namespace="agents.v1", kind=ToolKind.CUSTOM),
    ),
)


def told(raw: bytes) -> list[dict]:
    return [json.loads(data) for _, data in sse_events(raw)[0] if data != "[DONE]"]


def kinds(raw: bytes) -> list[str]:
    return [event["type"].removeprefix("response.") for event in told(raw)]


def test_text_is_one_message_item():
    raw = write_stream(TURN, [[TextDelta("Hel")], [TextDelta("lo")]], Finish())
    assert kinds(raw) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert raw.endswith(b"data: [DONE]\n\n")
    final = told(raw)[-1]["response"]
    assert final["id"].startswith("resp_") and final["created_at"] == 1700000000 and final["model"] == "m"
    item = final["output"][0]
    assert item.pop("id").startswith("msg_")
    assert item == {
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}],
    }


def test_a_function_call_is_one_item():
    raw = write_stream(TURN, [[CallDone(0, "look", '{"a":1}')]], Finish())
    assert kinds(raw)[2:-1] == ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    item = told(raw)[-1]["response"]["output"][0]
    assert item.pop("id").startswith("fc_") and item.pop("call_id").startswith("call_")
    assert item == {"type": "function_call", "status": "completed", "name": "look", "arguments": '{"a":1}'}


def test_items_stand_in_the_order_of_the_answer():
    events = [TextDelta("a"), CallDone(0, "x", "{}"), TextDelta("b"), CallDone(1, "y", '{"k":1}'), TextDelta("c")]
    answer = both(TURN, events)
    assert [part[0] for part in answer.parts] == ["text", "function_call", "text", "function_call", "text"]
    assert answer.finish == ("completed", None)


def test_custom_and_namespaced_tools_come_back_as_they_were_declared():
    events = [
        CallDone(0, "shell", '{"cmd":"ls"}'),
        CallDone(1, "apply_patch", json.dumps({"input": "*** Begin\n"})),
        CallDone(2, "agents.v1.spawn", '{"n":1}'),
        CallDone(3, "agents.v1.note", '{"input":"hi"}'),
        CallDone(4, "agents.v2.spawn", "{}"),
    ]
    assert both(TOOLS, events).calls == [
        ("function_call", "", "shell", '{"cmd":"ls"}', "completed"),
        ("custom_tool_call", "", "apply_patch", "*** Begin\n", "completed"),
        ("function_call", "agents.v1", "spawn", '{"n":1}', "completed"),
        ("custom_tool_call", "agents.v1", "note", "hi", "completed"),
        ("function_call", "", "agents.v2.spawn", "{}", "completed"),
    ]
    raw = write_stream(TOOLS, [events], Finish())
    items = told(raw)[-1]["response"]["output"]
    assert [item["id"].split("_")[0] for item in items] == ["fc", "ctc", "fc", "ctc", "fc"]


def test_begun_arguments_stream_and_text_waits_behind_them():
    events = [CallBegun(0, "a"), ArgumentsDelta(0, '{"k":'), TextDelta("late"), ArgumentsDelta(0, "1}"), CallDone(0, "a", '{"k":1}')]
    answer = both(TURN, events)
    assert [part[0] for part in answer.parts] == ["function_call", "text"]
    raw = write_stream(TURN, [events], Finish())
    assert [event["delta"] for event in told(raw) if event["type"].endswith("arguments.delta")] == ['{"k":', "1}"]


def test_an_empty_custom_text_has_no_delta():
    assert both(TOOLS, [CallDone(0, "apply_patch", "{}")]).calls == [("custom_tool_call", "", "apply_patch", "", "completed")]


def test_reasoning_is_an_item_for_those_who_asked():
    events = [ReasoningDelta("so "), ReasoningDelta("then"), TextDelta("x")]
    assert both(REASONING, events).parts == (("reasoning", "so then", "completed"), ("text", "x", "completed"))
    assert both(TURN, events).parts == (("text", "x", "completed"),)


def test_an_empty_answer_is_an_empty_message():
    assert both(TURN, []).parts == (("text", "", "completed"),)
    for reason, status in ((FinishReason.STOP, "completed"), (FinishReason.LENGTH, "incomplete")):
        answer = both(REASONING, [ReasoningDelta("hm")], Finish(reason))
        assert answer.parts == (("reasoning", "hm", "completed"), ("text", "", status))


@pytest.mark.parametrize(
    ("reason", "status", "details", "item"),
    [
        (FinishReason.STOP, "completed", None, "completed"),
        (FinishReason.STOP_SEQUENCE, "completed", None, "completed"),
        (FinishReason.TOOL_CALLS, "completed", None, "completed"),
        (FinishReason.LENGTH, "incomplete", {"reason": "max_output_tokens"}, "incomplete"),
        (FinishReason.CONTENT_FILTER, "incomplete", {"reason": "content_filter"}, "incomplete"),
    ],
)
def test_status_without_calls(reason, status, details, item):
    for events in ([TextDelta("x")], []):
        answer = both(TURN, events, Finish(reason))
        assert answer.finish == (status, details)
        assert answer.parts[-1][-1] == item


@pytest.mark.parametrize("reason", list(FinishReason))
def test_complete_calls_make_a_complete_response(reason):
    answer = both(TURN, [CallDone(0, "a", "{}"), TextDelta("x")], Finish(reason))
    assert answer.finish == ("completed", None)
    assert answer.parts[-1][-1] == "completed"


def test_usage_has_all_details():
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cache_write_tokens=10, reasoning_tokens=3)
    assert both(TURN, [TextDelta("x")], Finish(usage=usage)).usage == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 107,
    }
    assert both(TURN, [TextDelta("x" * 40)]).usage["output_tokens"] == 10


def test_the_response_repeats_what_the_request_said():
    echo = {
        "created": 5,
        "instructions": "be brief",
        "tools": [{"type": "function", "name": "f", "parameters": {"default": 12345678901234567890}, "strict": None}],
        "tool_choice": {"type": "function", "name": "f"},
        "temperature": 0,
        "user": "u",
        "something": "else",
    }
    for raw in (
        write_body(Turn(api=Api.OPENAI_RESPONSES, echo=echo), [TextDelta("x")], Finish()),
        json.dumps(told(write_stream(Turn(api=Api.OPENAI_RESPONSES, echo=echo), [], Finish()))[0]["response"]),
    ):
        body = json.loads(raw)
        repeated = {key: value for key, value in echo.items() if key not in ("created", "something")}
        assert {key: body[key] for key in repeated} == repeated
        assert set(body) == {*RESPONSE_KEYS, "user"}
        assert body["created_at"] == 5


def test_every_required_key_is_there_without_any_echo():
    body = json.loads(write_body(Turn(api=Api.OPENAI_RESPONSES), [], Finish()))
    assert set(RESPONSE_KEYS) == set(body)
    assert len(RESPONSE_KEYS) == 31


def test_keep_alives_open_the_response_and_then_repeat_that_it_is_in_progress():
    writer = ResponsesStream(TURN)
    raw = writer.keep_alive(10.0)
    assert kinds(raw) == ["created", "in_progress"]
    raw += writer.keep_alive(22.0) + writer.feed([TextDelta("x")]) + writer.keep_alive(12.0) + writer.feed([TextDelta("y")])
    raw += writer.finish(Finish())
    assert violations(TURN, raw) == []
    assert kinds(raw).count("in_progress") == 3
    assert ResponsesBody(TURN).keep_alive(100.0) == b""


@pytest.mark.parametrize(
    ("kind", "code", "told_code"),
    [
        (ErrorKind.UPSTREAM_CUT, "upstream_cut", "server_error"),
        (ErrorKind.RATE_LIMIT, "rate_limit_exceeded", "rate_limit_exceeded"),
        (ErrorKind.CONTEXT_OVERFLOW, "context_length_exceeded", "invalid_prompt"),
    ],
)
def test_a_failure_is_an_error_event_and_a_failed_response(kind, code, told_code):
    for first in ([], [TextDelta("whole"), CallDone(0, "a", "{}"), TextDelta("half")]):
        raw = write_stream(TURN, [first], Failed(kind, "it broke", parameter="input"))
        error, failed = told(raw)[-2:]
        assert error["message"] == error["error"]["message"] == "it broke"
        assert error["code"] == code and error["param"] == "input" and error["error"]["type"]
        assert failed["response"]["error"] == {"code": told_code, "message": "it broke"}
        assert len(failed["response"]["output"]) == (2 if first else 0)


def test_nothing_comes_after_the_end():
    for writer in (ResponsesStream(TURN), ResponsesBody(TURN)):
        writer.finish(Finish())
        assert writer.feed([TextDelta("x")]) == b""
        assert writer.fail(Failed(ErrorKind.INTERNAL, "x")) == b""
        assert writer.keep_alive(100.0) == b""

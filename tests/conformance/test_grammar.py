"""The checkers find what they are for: each mutation of a legal stream breaks the rule that it should."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pipeline.events import CallDone, Finish, ReasoningDelta, TextDelta
from pipeline.turn import Turn
from pipeline.verdicts import Api
from tests.conformance import grammar
from tests.conformance.answers import write_stream

EVENTS = [ReasoningDelta("hm"), TextDelta("I look."), CallDone(0, "look", '{"a":1}'), CallDone(1, "note", "{}")]
RAW = {
    api: write_stream(Turn(api=api, model="m", include_usage=True, reasoning_wanted=True), [[event] for event in EVENTS], Finish())
    for api in Api
}


def check(api: Api, raw: bytes) -> list[str]:
    if api is Api.OPENAI_CHAT:
        return grammar.check_chat(raw, include_usage=True)
    return grammar.check_messages(raw) if api is Api.ANTHROPIC_MESSAGES else grammar.check_responses(raw)


def edited(api: Api, edit: Callable[[list[tuple[str | None, str]]], list[tuple[str | None, str]]]) -> bytes:
    found = edit(list(grammar.events(RAW[api])[0]))
    return "".join((f"event: {name}\n" if name else "") + f"data: {data}\n\n" for name, data in found).encode()


def patched(api: Api, kind: str, change: Callable[[dict], object]) -> bytes:
    """The stream with the first event that holds `kind` changed."""

    def edit(found):
        at = next(at for at, (_, data) in enumerate(found) if kind in data)
        event = json.loads(found[at][1])
        change(event)
        found[at] = (found[at][0], json.dumps(event))
        return found

    return edited(api, edit)


def without(api: Api, kind: str) -> bytes:
    def edit(found):
        at = next(at for at, (_, data) in enumerate(found) if kind in data)
        return found[:at] + found[at + 1 :]

    return edited(api, edit)


def doubled(api: Api, kind: str) -> bytes:
    def edit(found):
        at = next(at for at, (_, data) in enumerate(found) if kind in data)
        return [*found[: at + 1], *found[at:]]

    return edited(api, edit)


def delta(event: dict) -> dict:
    return event["choices"][0]["delta"]


CHAT, MESSAGES, RESPONSES = Api.OPENAI_CHAT, Api.ANTHROPIC_MESSAGES, Api.OPENAI_RESPONSES


@pytest.mark.parametrize("api", list(Api))
def test_the_unchanged_stream_is_legal(api):
    assert check(api, RAW[api]) == []
    assert check(api, edited(api, lambda found: found)) == []


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"\xef\xbb\xbf" + RAW[CHAT], "S1"),
        (RAW[CHAT].replace(b"\n", b"\r\n"), "S2"),
        (RAW[CHAT][:-1], "S3"),
        (b"id: 1\n" + RAW[CHAT], "S4"),
        (b"what: 1\n" + RAW[CHAT], "S5"),
        (b"event: ping\n\n" + RAW[CHAT], "S6"),
        (b"data: \n\n" + RAW[CHAT], "S7"),
        (b"data: {\ndata: }\n\n" + RAW[CHAT], "S8"),
        (doubled(CHAT, "[DONE]"), "C1"),
        (b"event: message\n" + RAW[CHAT], "C2"),
        (b'data: {"error":{"message":"x"}}\n\n', "C3"),
        (patched(CHAT, "I look", lambda e: e.pop("model")), "C4"),
        (patched(CHAT, "I look", lambda e: e.pop("object")), "C5"),
        (doubled(CHAT, "prompt_tokens"), "C6"),
        (patched(CHAT, "prompt_tokens", lambda e: e.pop("usage")), "C7"),
        (patched(CHAT, "prompt_tokens", lambda e: e["usage"].pop("total_tokens")), "C10"),
        (patched(CHAT, "I look", lambda e: e.pop("usage")), "C11"),
        (patched(CHAT, "I look", lambda e: e.update(usage={})), "C12"),
        (patched(CHAT, "I look", lambda e: e["choices"][0].update(index=1)), "C13"),
        (patched(CHAT, "I look", lambda e: e["choices"][0].pop("finish_reason")), "C14"),
        (patched(CHAT, "I look", lambda e: e["choices"][0].pop("delta")), "C15"),
        (doubled(CHAT, '"finish_reason":"tool_calls"'), "C16"),
        (patched(CHAT, '"role"', lambda e: delta(e).update(role="user")), "C17"),
        (doubled(CHAT, '"role"'), "C18"),
        (patched(CHAT, "I look", lambda e: delta(e).update(content=["x"])), "C19"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].pop("index")), "C20"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].update(index=1)), "C21"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].pop("id")), "C22"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].pop("type")), "C23"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0]["function"].pop("name")), "C24"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0]["function"].pop("arguments")), "C25"),
        (doubled(CHAT, '"look"'), "C26"),
        (patched(CHAT, '\\"a\\":1', lambda e: delta(e)["tool_calls"][0].pop("function")), "C27"),
        (patched(CHAT, '"arguments":"{}"', lambda e: delta(e)["tool_calls"][0].update(index=0)), "C28"),
        (patched(CHAT, '"finish_reason":"tool_calls"', lambda e: e["choices"][0].update(finish_reason="end")), "C29"),
        (without(CHAT, "[DONE]"), "C30"),
        (without(CHAT, '"role"'), "C31"),
        (without(CHAT, '"finish_reason":"tool_calls"'), "C32"),
        (patched(CHAT, '"finish_reason":"tool_calls"', lambda e: e["choices"][0].update(finish_reason="stop")), "C33"),
        (without(CHAT, "prompt_tokens"), "C35"),
        (patched(CHAT, "I look", lambda e: e.update(id="other")), "C36"),
        (without(CHAT, '\\"a\\":1'), "C37"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].update(id="a b")), "C38"),
        (patched(CHAT, "I look", lambda e: e.update(created=1.5)), "C42"),
        (patched(CHAT, "prompt_tokens", lambda e: e["usage"].update(total_tokens=0)), "C44"),
        (patched(CHAT, '"finish_reason":"tool_calls"', lambda e: delta(e).update(content="x")), "C46"),
        (patched(CHAT, '"look"', lambda e: delta(e)["tool_calls"][0].update(type="custom", custom={"name": "look"})), "C47"),
        (patched(CHAT, '"finish_reason":"tool_calls"', lambda e: e["choices"][0].update(finish_reason="function_call")), "C51"),
        (without(MESSAGES, "message_start"), "A10"),
        (RAW[MESSAGES].replace(b"event: message_start\n", b""), "A1"),
        (doubled(MESSAGES, "message_stop"), "A2"),
        (doubled(MESSAGES, "message_start"), "A4"),
        (patched(MESSAGES, "message_start", lambda e: e["message"].pop("role")), "A5"),
        (patched(MESSAGES, "message_start", lambda e: e["message"].update(content=[1])), "A6"),
        (patched(MESSAGES, "message_start", lambda e: e["message"].update(stop_reason="end_turn")), "A7"),
        (patched(MESSAGES, "message_start", lambda e: e["message"]["usage"].pop("input_tokens")), "A8"),
        (patched(MESSAGES, "message_start", lambda e: e["message"].update(id="x")), "A9"),
        (without(MESSAGES, "content_block_stop"), "A11"),
        (patched(MESSAGES, "content_block_start", lambda e: e.update(index=1)), "A12"),
        (patched(MESSAGES, '"text":""', lambda e: e["content_block"].update(text="x")), "A14"),
        (patched(MESSAGES, '"look"', lambda e: e["content_block"].update(input={"a": 1})), "A15"),
        (patched(MESSAGES, '"look"', lambda e: e["content_block"].pop("id")), "A16"),
        (patched(MESSAGES, '"look"', lambda e: e["content_block"].pop("name")), "A17"),
        (patched(MESSAGES, '"thinking"', lambda e: e["content_block"].pop("signature")), "A19"),
        (patched(MESSAGES, "I look", lambda e: e.update(index=9)), "A20"),
        (patched(MESSAGES, "I look", lambda e: e["delta"].update(type="input_json_delta")), "A21"),
        (doubled(MESSAGES, "content_block_stop"), "A22"),
        (patched(MESSAGES, "message_delta", lambda e: e["delta"].pop("stop_sequence")), "A24"),
        (patched(MESSAGES, "message_delta", lambda e: e["delta"].update(stop_sequence="x")), "A38"),
        (patched(MESSAGES, "message_delta", lambda e: e["delta"].update(stop_reason="stop")), "A25"),
        (patched(MESSAGES, "message_delta", lambda e: e["usage"].pop("output_tokens")), "A26"),
        (patched(MESSAGES, "message_delta", lambda e: e["usage"].pop("input_tokens")), "A27"),
        (patched(MESSAGES, "message_stop", lambda e: e.update(type="other")), "A28"),
        (without(MESSAGES, "message_stop"), "A29"),
        (doubled(MESSAGES, "message_delta"), "A30"),
        (patched(MESSAGES, "message_delta", lambda e: e["delta"].update(stop_reason="end_turn")), "A31"),
        (without(MESSAGES, "partial_json"), "A33"),
        (without(MESSAGES, "I look"), "A34"),
        (doubled(RESPONSES, "[DONE]"), "R1"),
        (RAW[RESPONSES].replace(b"event: response.created\n", b""), "R2"),
        (without(RESPONSES, "I look"), "R5"),
        (doubled(RESPONSES, '"response.completed"'), "R6"),
        (doubled(RESPONSES, '"response.created"'), "R7"),
        (patched(RESPONSES, "response.in_progress", lambda e: e["response"].update(id="x")), "R9"),
        (patched(RESPONSES, '"response.completed"', lambda e: e["response"].update(status="in_progress")), "R10"),
        (patched(RESPONSES, '"response.completed"', lambda e: e["response"].update(usage=None)), "R11"),
        (patched(RESPONSES, '"response.completed"', lambda e: e["response"].update(output=[])), "R12"),
        (without(RESPONSES, "response.created"), "R15"),
        (patched(RESPONSES, "output_item.added", lambda e: e.update(output_index=4)), "R16"),
        (without(RESPONSES, "output_item.done"), "R17"),
        (patched(RESPONSES, "output_item.added", lambda e: e["item"].pop("id")), "R18"),
        (patched(RESPONSES, "output_item.added", lambda e: e["item"].update(status="completed")), "R19"),
        (patched(RESPONSES, '"name":"look"', lambda e: e["item"].pop("name")), "R20"),
        (patched(RESPONSES, '"name":"look"', lambda e: e["item"].update(arguments="{}")), "R21"),
        (patched(RESPONSES, '"name":"look"', lambda e: e["item"].pop("call_id")), "R22"),
        (patched(RESPONSES, "I look", lambda e: e.update(output_index=7)), "R24"),
        (patched(RESPONSES, "I look", lambda e: e.update(item_id="x")), "R25"),
        (without(RESPONSES, "content_part.added"), "R26"),
        (patched(RESPONSES, "I look", lambda e: e.pop("logprobs")), "R27"),
        (patched(RESPONSES, "I look", lambda e: e.update(delta="x")), "R28"),
        (patched(RESPONSES, "arguments.delta", lambda e: e.update(delta="{}")), "R29"),
        (patched(RESPONSES, "arguments.done", lambda e: e.pop("name")), "R30"),
        (patched(RESPONSES, "arguments.done", lambda e: e.update(arguments="x")), "R31"),
        (patched(RESPONSES, "output_item.done", lambda e: e["item"].update(id="x")), "R32"),
        (patched(RESPONSES, "output_item.done", lambda e: e["item"].update(status="in_progress")), "R33"),
        (patched(RESPONSES, "output_item.done", lambda e: e["item"].update(summary=[])), "R34"),
        (without(RESPONSES, '"response.completed"'), "R36"),
        (without(RESPONSES, "[DONE]"), "R37"),
        (patched(RESPONSES, "response.in_progress", lambda e: e.update(type="response.other")), "R39"),
        (patched(RESPONSES, "response.created", lambda e: e["response"].pop("metadata")), "R40"),
        (patched(RESPONSES, '"response.completed"', lambda e: e["response"].update(incomplete_details={})), "R41"),
        (patched(RESPONSES, '"type":"message"', lambda e: e["item"].update(content=[{}])), "R43"),
        (patched(RESPONSES, "I look", lambda e: e.pop("content_index")), "R44"),
    ],
)
def test_a_fault_is_found(raw, rule):
    api = CHAT if rule[0] in "SC" else MESSAGES if rule[0] == "A" else RESPONSES
    assert any(found.split()[0] == rule for found in check(api, raw)), check(api, raw)


def test_undeclared_tools_are_found_where_names_are_given():
    assert any(found.startswith("C39") for found in grammar.check_chat(RAW[CHAT], include_usage=True, tools=["look"]))
    assert any(found.startswith("A18") for found in grammar.check_messages(RAW[MESSAGES], tools=["look"]))
    assert any(found.startswith("R23") for found in grammar.check_responses(RAW[RESPONSES], tools=["look"]))


def test_usage_that_nobody_asked_for_is_found():
    rules = {found.split()[0] for found in grammar.check_chat(RAW[CHAT])}
    assert {"C8", "C43"} <= rules


def test_writes_that_cut_an_event_are_found():
    assert grammar.check_writes([b"data: {}\n\n", b"", b": x\n\n"]) == []
    assert grammar.check_writes([b"data: {}\n"]) == ["S9 write 0 ends inside an event"]

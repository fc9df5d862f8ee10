"""Turns that pass as they came: when, with which bytes, and what is read off the tail."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.commands import Send
from pipeline.exchange import Exchange
from pipeline.passthrough import UsageTail, can_pass, passed_body
from pipeline.settings import Settings, UpstreamTraits
from pipeline.turn import Arguments, Call, Emulation, Message, Role, Text, Tool, Turn, Usage
from pipeline.verdicts import Api, Mode

PLAIN = Turn(
    api=Api.OPENAI_CHAT,
    raw=b'{"model": "m",  "x": 1}',
    body={"model": "m", "x": 1},
    model="m",
    messages=(Message(Role.USER, (Text("hi"),)),),
)
CHAT = UpstreamTraits(protocol=Api.OPENAI_CHAT)


def test_a_plain_turn_passes_in_its_own_bytes():
    assert can_pass(PLAIN, CHAT)
    assert passed_body(PLAIN) is PLAIN.raw


@pytest.mark.parametrize(
    "changed",
    [
        {"tools": (Tool("t"),)},
        {"emulation": Emulation("json_action", ())},
        {"messages": (Message(Role.ASSISTANT, (Call("1", "t", Arguments("{}")),)),)},
        {"api": Api.ANTHROPIC_MESSAGES},
        {"raw": b""},
    ],
)
def test_anything_to_do_keeps_a_turn_from_passing(changed):
    assert not can_pass(msgspec.structs.replace(PLAIN, **changed), CHAT)


def test_a_rewritten_model_is_the_only_change():
    turn = msgspec.structs.replace(PLAIN, upstream_model="other")
    assert passed_body(turn) == b'{"model":"other","x":1}'


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_usage_is_found_at_the_end_whatever_the_cut(cut):
    body = (
        b'data: {"choices":[]}\n\n' * 2000
        + b'data: {"usage": {"prompt_tokens": 5, "completion_tokens": 3, "d": {"a": 1}}}\n\ndata: [DONE]\n\n'
    )
    tail = UsageTail()
    for at in range(0, len(body), cut):
        tail.feed(body[at : at + cut])
    assert tail.usage(Api.OPENAI_CHAT) == Usage(input_tokens=5, output_tokens=3)


def test_no_usage_is_none():
    tail = UsageTail()
    tail.feed(b'{"usage": null}')
    assert tail.usage(Api.OPENAI_CHAT) is None


@pytest.mark.parametrize(
    "field",
    [
        {"tools": []},
        {"tools": [{"type": "web_search"}]},
        {"tool_choice": "auto"},
        {"functions": []},
        {"function_call": "auto"},
        {"parallel_tool_calls": True},
        {"parallel_tool_calls": None},
    ],
)
def test_a_body_with_tool_fields_never_passes(field):
    assert not can_pass(msgspec.structs.replace(PLAIN, body={**PLAIN.body, **field}), CHAT)


NAMELESS = {"id": "a", "type": "function", "function": {"name": "", "arguments": '{"x":1}'}}
LEFTOVERS = {
    Api.OPENAI_CHAT: [
        {"role": "assistant", "content": None, "tool_calls": [NAMELESS]},
        {"role": "assistant", "content": "hm", "tool_calls": []},
        {"role": "assistant", "content": "hm", "tool_calls": None},
        {"role": "assistant", "content": "hm", "function_call": {"name": " ", "arguments": "{}"}},
        {"role": "user", "content": "hm", "tool_call_id": "a"},
        {"role": "tool", "content": "hm", "tool_call_id": "a"},
    ],
    Api.ANTHROPIC_MESSAGES: [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "", "input": {"x": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}]},
        {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "a", "content": []}]},
    ],
}
TOOL_WORDS = re.compile(
    rb'"(tools|functions|tool_choice|function_call|parallel_tool_calls|tool_calls|tool_call_id|\w*tool_use|\w*tool_result)"'
)


def played(api, fields, *messages, mode=Mode.EMULATE, **traits):
    """What the upstream gets: its body, and whether it is the client's bytes."""
    chain = build(DEFAULT_STAGES, Settings(tools=mode))
    asked = [{"role": "user", "content": "q"}, *messages, {"role": "user", "content": "y"}]
    body = {"model": "m", "max_tokens": 9, "messages": asked, **fields}
    raw = json.dumps(body, indent=1).encode()
    exchange = Exchange(
        chain, Turn(api, raw=raw, body=body), [UpstreamTraits(protocol=api, **traits)], lambda *_: lambda *_, **__: None, {}, 0.0
    )
    sent = next(one.request.body for one in exchange.start(0.0) if isinstance(one, Send))
    return sent, sent == raw


@pytest.mark.parametrize(("api", "message"), [(api, message) for api, messages in LEFTOVERS.items() for message in messages])
def test_no_field_of_a_call_in_the_history_reaches_a_plain_upstream(api, message):
    sent, same = played(api, {}, message)
    assert not same
    assert TOOL_WORDS.search(sent) is None, sent


@pytest.mark.parametrize("field", [{"parallel_tool_calls": True}, {"parallel_tool_calls": False}, {"tools": []}, {"functions": []}])
def test_no_tool_field_of_a_turn_without_tools_reaches_a_plain_upstream(field):
    sent, same = played(Api.OPENAI_CHAT, field)
    assert not same
    assert TOOL_WORDS.search(sent) is None, sent


@pytest.mark.parametrize("mode", [Mode.NATIVE, Mode.RESCUE])
def test_what_a_server_ran_passes_where_tools_are_native(mode):
    ran = {"role": "assistant", "content": [{"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}]}
    assert played(Api.ANTHROPIC_MESSAGES, {}, ran, mode=mode)[1]
    nameless = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "", "input": {}}]}
    assert not played(Api.ANTHROPIC_MESSAGES, {}, nameless, mode=mode)[1]


PICTURE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}


@pytest.mark.parametrize(
    ("traits", "fields", "message"),
    [
        ({"system_role": False}, {}, {"role": "system", "content": "s"}),
        ({"system_role": False}, {}, {"role": "developer", "content": "s"}),
        ({"developer_role": False}, {}, {"role": "developer", "content": "s"}),
        ({"system_once": True}, {}, {"role": "system", "content": "s"}),
        ({"alternate_roles": True}, {}, {"role": "user", "content": "s"}),
        ({"null_content": False}, {}, {"role": "assistant", "content": None}),
        ({"images": False}, {}, {"role": "user", "content": [PICTURE]}),
        ({"files": False}, {}, {"role": "user", "content": [FILE]}),
        ({"stream_options": False}, {"stream": True, "stream_options": {"include_usage": True}}, {"role": "assistant", "content": "a"}),
        ({"reasoning_effort": False}, {"reasoning_effort": "low"}, {"role": "assistant", "content": "a"}),
        ({"extra_fields": False}, {"min_p": 0.1}, {"role": "assistant", "content": "a"}),
    ],
)
def test_what_an_upstream_does_not_take_is_bent_and_else_passes(traits, fields, message):
    """U12: the flag alone makes the difference."""
    assert not played(Api.OPENAI_CHAT, fields, message, **traits)[1]
    open_hearted = {name: not value for name, value in traits.items()}
    if message["role"] == "developer":
        open_hearted["developer_role"] = True
    assert played(Api.OPENAI_CHAT, fields, message, **open_hearted)[1]
    assert played(Api.OPENAI_CHAT, {}, {"role": "assistant", "content": "a"}, **traits)[1]

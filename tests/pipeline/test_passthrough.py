"""Turns that pass as they came: when, with which bytes, and what is read off the tail."""

from __future__ import annotations

import msgspec
import pytest

from pipeline.passthrough import UsageTail, can_pass, passed_body
from pipeline.settings import UpstreamTraits
from pipeline.turn import Arguments, Call, Emulation, Message, Role, Text, Tool, Turn, Usage
from pipeline.verdicts import Api

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


@pytest.mark.parametrize("field", [{"tools": []}, {"tools": [{"type": "web_search"}]}, {"tool_choice": "auto"}, {"functions": []}])
def test_a_body_with_tool_fields_never_passes(field):
    assert not can_pass(msgspec.structs.replace(PLAIN, body={**PLAIN.body, **field}), CHAT)

"""The canonical line counts the calls that the client got, and those that were dropped beside them (R8, O1)."""

from __future__ import annotations

import json

import pytest

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.settings import Settings
from pipeline.verdicts import Api, Mode
from tests.support.one_turn import play

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
BLOCKS = "".join(f'```json action\n{{"tool": "look", "parameters": {{"at": "{at}"}}}}\n```\n' for at in "abc")
NATIVE = [{"index": at, "id": f"c{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for at in range(3)]
CHAINS = {mode: build(DEFAULT_STAGES, Settings(tools=mode, example_turns=0)) for mode in Mode}


def streamed(delta: dict, *, reason: str) -> list[bytes]:
    frames = [{"choices": [{"index": 0, "delta": delta}]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]
    return [*(f"data: {json.dumps(frame)}\n\n".encode() for frame in frames), b"data: [DONE]\n\n"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("mode", list(CHAINS))
@pytest.mark.parametrize(("fields", "delivered"), [({"parallel_tool_calls": False}, 1), ({"parallel_tool_calls": True}, 3), ({}, 3)])
def test_calls_are_those_that_the_client_got(stream, mode, fields, delivered):
    request = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "look"}], "tools": [TOOL], **fields}
    delta = {"content": BLOCKS} if mode is Mode.EMULATE else {"tool_calls": NATIVE}
    got = play(CHAINS[mode], Api.OPENAI_CHAT, request, streamed(delta, reason="stop"))
    record = got.record
    counted = (record.calls, record.native_calls) if mode is Mode.EMULATE else (record.native_calls, record.calls)
    assert (*counted, record.calls_dropped) == (delivered, 0, 3 - delivered)
    assert got.body.count(b'"name":"look"') == delivered


def test_a_failed_answer_delivered_none():
    request = {"model": "m", "messages": [{"role": "user", "content": "look"}], "tools": [TOOL]}
    got = play(CHAINS[Mode.EMULATE], Api.OPENAI_CHAT, request, streamed({"content": BLOCKS}, reason="stop")[:1])
    assert got.status == 502
    assert (got.record.calls, got.record.calls_dropped) == (0, 0)

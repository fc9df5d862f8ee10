"""Lone surrogates never leave, not even as escapes of a JSON text (N5): neither to an upstream nor to a client."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import json_values
from pipeline.chain import DEFAULT_STAGES, build
from pipeline.settings import Settings, UpstreamTraits
from pipeline.turn import Arguments
from pipeline.verdicts import Api, Mode
from tests.support.one_turn import play

PIECES = ["\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\\\", "\\n", "\\u00e9", "\\ud83d\\ude00", "ud800", "é", "a", "\\\\ud800"]
TOOL = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}}
ARGUMENTS = '{ "x": "a\\ud800b\\ud83d\\ude00", "n": 1.50}'
MENDED = '{ "x": "a\\ufffdb\\ud83d\\ude00", "n": 1.50}'


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_only_halves_are_changed(inside):
    text = f'{{"x": "{inside}"}}'
    mended = json_values.whole_pairs(text)
    meant = json_values.loads(text)
    assert json.loads(mended) == meant == json_values.loads(mended)
    if json.loads(text) == meant:
        assert mended is text
    assert Arguments(text).text() == mended


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("upstream", [Api.OPENAI_CHAT, Api.ANTHROPIC_MESSAGES])
def test_an_argument_of_the_history_goes_up_whole(mode, upstream):
    call = {"id": "a", "type": "function", "function": {"name": "note", "arguments": ARGUMENTS}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]
    request = {"model": "m", "messages": messages, "tools": [TOOL]}
    got = play(build(DEFAULT_STAGES, Settings(tools=mode)), Api.OPENAI_CHAT, request, [], traits=UpstreamTraits(protocol=upstream))
    sent = json.dumps(got.sent[0], ensure_ascii=False)
    assert "ud800" not in sent
    sent.encode()
    if mode is not Mode.EMULATE and upstream is Api.OPENAI_CHAT:
        assert got.sent[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == MENDED


@pytest.mark.parametrize("stream", [True, False])
def test_an_argument_that_an_upstream_wrote_comes_back_whole(stream):
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "note", "arguments": ARGUMENTS}}
    frame = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    request = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "q"}], "tools": [TOOL]}
    got = play(
        build(DEFAULT_STAGES, Settings(tools=Mode.RESCUE)),
        Api.OPENAI_CHAT,
        request,
        [f"data: {json.dumps(frame)}\n\ndata: [DONE]\n\n".encode()],
    )
    assert b"ud800" not in got.body
    assert b"ufffd" in got.body

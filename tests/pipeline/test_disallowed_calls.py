"""A choice is a hard filter (C3): what it rules out comes to the client as text, written natively or leaked, streamed or not (CR04, X33)."""

from __future__ import annotations

import json
from functools import cache

import pytest

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.settings import Settings, UpstreamTraits
from pipeline.verdicts import Api, BlockOutcome, Mode
from tests.support.one_turn import play

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"p": {}}}}}
    for name in ("look", "erase")
]
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]}}
NAMED = {"type": "function", "function": {"name": "look"}}
ARGUMENTS = {"p": '```\n<tool_calls><invoke name="look"></invoke></tool_calls>\n```json action\n{"tool": "look", "parameters": {}}\n```'}


@cache
def chain(mode, *, live):
    return build(DEFAULT_STAGES, Settings(tools=mode, max_retries=0, stream_arguments=live))


def chat(*names, before="") -> bytes:
    deltas = [{"content": before}] if before else []
    for index, name in enumerate(names):
        whole = json.dumps(ARGUMENTS)
        for at, piece in enumerate((whole[:7], whole[7:])):
            named = {"id": f"c{index}", "type": "function"} if not at else {}
            deltas.append(
                {"tool_calls": [{"index": index, **named, "function": {"arguments": piece, **({"name": name} if not at else {})}}]}
            )
    frames = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode() + b"data: [DONE]\n\n"


def messages(name, before="") -> bytes:
    content = [*([{"type": "text", "text": before}] if before else []), {"type": "tool_use", "id": "t", "name": name, "input": ARGUMENTS}]
    return json.dumps({"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {}}).encode()


def ask(mode, choice, data, *, stream, live=False, protocol=Api.OPENAI_CHAT):
    """The answer's text, the names of its calls, its finish reason, and the record."""
    request = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "q"}], "tools": TOOLS, "tool_choice": choice}
    kind = "application/json" if protocol is Api.ANTHROPIC_MESSAGES else "text/event-stream"
    got = play(chain(mode, live=live), Api.OPENAI_CHAT, request, [data], content_type=kind, traits=UpstreamTraits(protocol=protocol))
    if not stream:
        (choice_made,) = json.loads(got.body)["choices"]
        message = choice_made["message"]
        calls = message.get("tool_calls") or []
        return message["content"] or "", [call["function"]["name"] for call in calls], choice_made["finish_reason"], got.record
    frames = [json.loads(line[6:]) for line in got.body.decode().splitlines() if line.startswith("data: {")]
    choices = [choice for frame in frames for choice in frame["choices"]]
    deltas = [choice["delta"] for choice in choices]
    names = [call["function"]["name"] for delta in deltas for call in delta.get("tool_calls", ()) if call["function"].get("name")]
    return "".join(delta.get("content") or "" for delta in deltas), names, choices[-1]["finish_reason"], got.record


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("before", ["", "Let me see: `"])
@pytest.mark.parametrize(
    ("mode", "choice"),
    [
        (Mode.NATIVE, "none"),
        (Mode.RESCUE, "none"),
        (Mode.EMULATE, "none"),
        (Mode.NATIVE, ALLOWED),
        (Mode.RESCUE, ALLOWED),
        (Mode.RESCUE, NAMED),
        (Mode.EMULATE, ALLOWED),
        (Mode.EMULATE, NAMED),
    ],
)
def test_a_native_call_that_the_choice_rules_out_stays_text(mode, choice, before, live, stream):
    text, calls, reason, record = ask(mode, choice, chat("erase", before=before), stream=stream, live=live)
    assert (calls, reason, record.calls, record.native_calls) == ([], "stop", 0, 0)
    assert text.startswith(before)
    opening, _, written = text[len(before) :].strip().partition("\n")
    assert opening == "```json"
    assert json.loads(written.removesuffix("\n```")) == {"name": "erase", "arguments": ARGUMENTS}
    assert record.blocks[BlockOutcome.UNKNOWN_TOOL] == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("mode", list(Mode))
def test_calls_that_may_be_made_go_out_beside_it(mode, live, stream):
    text, calls, reason, _ = ask(mode, ALLOWED, chat("look", "erase", "look"), stream=stream, live=live)
    assert (calls, reason) == (["look", "look"], "tool_calls")
    assert '"name":"erase"' in text


@pytest.mark.parametrize("mode", [Mode.NATIVE, Mode.RESCUE])
def test_a_messages_upstream_is_held_to_the_choice_too(mode):
    text, calls, _, _ = ask(mode, ALLOWED, messages("erase", before="So: "), stream=False, protocol=Api.ANTHROPIC_MESSAGES)
    assert calls == []
    assert text.startswith("So: ") and '"name":"erase"' in text
    assert ask(mode, ALLOWED, messages("look"), stream=False, protocol=Api.ANTHROPIC_MESSAGES)[1] == ["look"]


@pytest.mark.parametrize("mode", list(Mode))
def test_without_a_filter_every_call_goes_out(mode):
    assert ask(mode, "auto", chat("look", "erase", "unheard_of"), stream=True)[1] == ["look", "erase", "unheard_of"]

"""A turn as a Messages request: what that API demands."""

from __future__ import annotations

import json

import pytest

from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Arguments, Call, ChoiceMode, Emulation, Image, Media, Result, Role, Text, Tool, ToolChoice, ToolKind, Turn
from pipeline.upstream.messages_request import DEFAULT_MAX_TOKENS
from pipeline.verdicts import Api, Mode
from tests.pipeline.upstream.test_chat_request import CALLS, DIALOGUE, RESULTS, TOOL, say, turn

TRAITS = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)


def build(one: Turn, without: frozenset[str] = frozenset(), mode: Mode = Mode.NATIVE) -> dict:
    request = Upstream(Settings(tools=mode)).build(one, TRAITS, without)
    assert request.path == "/messages" and request.headers == (("anthropic-version", "2023-06-01"),)
    return json.loads(request.body)


def test_the_plain_request():
    assert build(turn(say(Role.SYSTEM, "be kind"), say(Role.USER, "hi"))) == {
        "model": "m",
        "system": "be kind",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_tokens": DEFAULT_MAX_TOKENS,
        "stream": False,
    }


def test_system_stands_beside_and_roles_alternate():
    body = build(turn(*DIALOGUE))
    assert body["system"] == "s1\n\nd1"
    assert [(message["role"], [block["text"] for block in message["content"]]) for message in body["messages"]] == [
        ("user", ["u1", "u2"]),
        ("assistant", ["a1"]),
        ("user", ["System message: s2", "u3"]),
    ]


def test_calls_and_results_are_blocks_results_first():
    late = say(Role.USER, "wait", Result("c3", (Text("three"), Image("data:image/PNG;base64,AA==")), is_error=True))
    body = build(turn(say(Role.USER, "hi"), CALLS, RESULTS, late, tools=(TOOL,)))
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "x"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {"q": "y"}},
    ]
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
        {
            "type": "tool_result",
            "tool_use_id": "c3",
            "content": [
                {"type": "text", "text": "three"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            ],
            "is_error": True,
        },
        {"type": "text", "text": "and now?"},
        {"type": "text", "text": "wait"},
    ]
    assert body["tools"] == [{"name": "look", "description": "looks", "input_schema": TOOL.parameters}]


def test_images_and_documents():
    pdf = Media("file", {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}})
    traits = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES, files=True)
    request = Upstream(Settings()).build(turn(say(Role.USER, Image("https://x/y.png"), pdf, Media("input_audio", {}))), traits, frozenset())
    assert json.loads(request.body)["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}},
        {"type": "text", "text": "[input_audio omitted]"},
    ]


def test_no_empty_text_anywhere():
    body = build(turn(say(Role.SYSTEM, " "), say(Role.USER, "  ", "a", "\n"), say(Role.ASSISTANT, "b", Call("c", "t", Arguments("")))))
    assert "system" not in body
    assert [[block.get("text") for block in message["content"]] for message in body["messages"]] == [["a"], ["b", None]]
    assert build(turn(say(Role.USER, " ")))["messages"][0]["content"] == [{"type": "text", "text": "(continue)"}]
    assert build(turn(say(Role.SYSTEM, "only")))["messages"][0]["role"] == "user"


def test_a_reply_to_go_on_with_ends_in_no_white_space():
    assert build(turn(say(Role.USER, "a"), say(Role.ASSISTANT, "so: ")))["messages"][-1]["content"][0]["text"] == "so:"
    assert build(turn(say(Role.ASSISTANT, "first")))["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (ToolChoice(), True, None),
        (ToolChoice(), False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(ChoiceMode.NONE), False, {"type": "none"}),
        (ToolChoice(ChoiceMode.REQUIRED), True, {"type": "any"}),
        (ToolChoice(ChoiceMode.NAMED, "look"), False, {"type": "tool", "name": "look", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choices(choice: ToolChoice, parallel: bool, sent: object):
    assert build(turn(tools=(TOOL,), tool_choice=choice, parallel_calls=parallel)).get("tool_choice") == sent


def test_under_emulation_no_tool_field_and_no_stop_goes_upstream():
    body = build(turn(tools=(TOOL,), stop=("END",), emulation=Emulation("dsml", (TOOL,))), mode=Mode.EMULATE)
    assert set(body) == {"model", "messages", "max_tokens", "stream"}


def test_sampling_and_stops():
    one = turn(stop=("END", "\n\n"), max_tokens=5, sampling={"temperature": 1.5, "top_k": 3, "seed": 4, "reasoning_effort": "low"})
    body = build(one)
    assert (body["stop_sequences"], body["max_tokens"], body["temperature"], body["top_k"]) == (["END"], 5, 1, 3)
    assert not {"seed", "reasoning_effort"} & set(body)
    assert "top_k" not in build(one, frozenset({"top_k", "max_tokens"})) and build(one, frozenset({"max_tokens"}))["max_tokens"] == 5


def test_a_tool_without_description_or_parameters():
    assert build(turn(tools=(Tool("t"),)))["tools"] == [{"name": "t", "input_schema": {"type": "object", "properties": {}}}]


def test_betas_of_the_client_go_on_to_this_api_alone():
    one = turn(headers={"anthropic-beta": "context-1m", "anthropic-version": "2026-10-21"})
    stage = Upstream(Settings())
    sent = stage.build(one, TRAITS, frozenset()).headers
    assert sent == (("anthropic-version", "2023-06-01"), ("anthropic-beta", "context-1m"))
    assert stage.build(one, UpstreamTraits(), frozenset()).headers == ()


def test_a_custom_tool_keeps_its_grammar():
    form = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
    sent = build(turn(tools=(Tool("count", kind=ToolKind.CUSTOM, format=form),)))["tools"][0]
    assert sent["description"] == "The input must match this regex grammar:\n[0-9]+"

"""A turn as a Chat Completions request: modes, flags, shapes (SPEC section 1, U06, U12, E-image)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pipeline.protocols import tool_forms
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import (
    Arguments,
    Call,
    ChoiceMode,
    Emulation,
    Image,
    Media,
    Message,
    ResponseFormat,
    Result,
    Role,
    Text,
    Tool,
    ToolChoice,
    ToolKind,
    Turn,
)
from pipeline.verdicts import Api, Mode

TOOL = Tool("look", "looks", {"type": "object", "properties": {"q": {"type": "string"}}})
EMULATION = Emulation("json_action", (TOOL,))
NATIVE = Settings(tools=Mode.NATIVE)
TOOL_FIELDS = {"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"}


def say(role: Role, *parts: object) -> Message:
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def turn(*messages: Message, **fields: object) -> Turn:
    return replace(Turn(Api.OPENAI_CHAT, model="m", messages=messages or (say(Role.USER, "hi"),)), **fields)


def build(one: Turn, traits: UpstreamTraits | None = None, without: set[str] | None = None, settings: Settings | None = None) -> dict:
    request = Upstream(settings or Settings()).build(one, traits or UpstreamTraits(), frozenset(without or ()))
    assert request.path == "/chat/completions" and request.stream is one.stream and request.headers == ()
    return json.loads(request.body)


def messages(*given: Message, traits: UpstreamTraits | None = None, settings: Settings = NATIVE, **fields: object) -> list[dict]:
    return build(turn(*given, **fields), traits, settings=settings)["messages"]


CALLS = say(Role.ASSISTANT, "so", Call("c1", "look", Arguments('{"q": "x"}')), Call("c2", "look", Arguments({"q": "y"})))
RESULTS = say(Role.USER, Result("c1", (Text("one"),)), Result("c2", (Text("two"),)), "and now?")


def test_the_plain_request():
    assert build(turn()) == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
    assert build(turn(stream=True, upstream_model="u")) == {
        "model": "u",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_under_emulation_no_tool_field_goes_upstream():
    emulated = turn(tools=(TOOL,), tool_choice=ToolChoice(ChoiceMode.REQUIRED), parallel_calls=False, emulation=EMULATION)
    form = ResponseFormat(None, {"type": "json_object"})
    body = build(replace(emulated, stop=("END",), response_format=form, sampling={"n": 2, "logprobs": True, "seed": 1, "tools": [1]}))
    assert set(body) == {"model", "messages", "stream", "seed"}
    assert not TOOL_FIELDS & set(build(turn(tools=(TOOL,), tool_choice=ToolChoice(ChoiceMode.NONE))))


def test_without_emulation_stops_and_formats_go_on():
    form = ResponseFormat(None, {"type": "json_object"})
    body = build(turn(stop=("END", "}"), response_format=form, sampling={"seed": 2}))
    assert (body["stop"], body["response_format"], body["seed"]) == (["END", "}"], {"type": "json_object"}, 2)


@pytest.mark.parametrize("mode", [Mode.RESCUE, Mode.NATIVE])
def test_native_tools(mode: Mode):
    custom = Tool("patch", "edits", {"type": "object", "properties": {"input": {"type": "string"}}}, ToolKind.CUSTOM)
    body = build(turn(tools=(replace(TOOL, strict=True), custom), parallel_calls=False), settings=Settings(tools=mode))
    assert [(tool["type"], tool["function"]["name"]) for tool in body["tools"]] == [("function", "look"), ("function", "patch")]
    assert body["tools"][0]["function"] == {"name": "look", "description": "looks", "parameters": TOOL.parameters, "strict": True}
    assert list(body["tools"][1]["function"]["parameters"]["properties"]) == ["input"]
    assert "tool_choice" not in body and body["parallel_tool_calls"] is False
    sieved = turn(tools=(TOOL,), emulation=replace(EMULATION, injected=False))
    assert len(build(sieved, settings=Settings(tools=mode))["tools"]) == 1  # rescue: the sieve runs beside native tools


def test_a_tool_of_this_protocol_goes_on_as_the_caller_wrote_it():
    native = {"type": "function", "function": {"name": "look", "x-more": [1]}}
    assert build(turn(tools=(replace(TOOL, native=native),)), settings=NATIVE)["tools"] == [native]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), None),
        (ToolChoice(ChoiceMode.NONE), "none"),
        (ToolChoice(ChoiceMode.REQUIRED), "required"),
        (ToolChoice(ChoiceMode.NAMED, "look"), {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_tool_choices(choice: ToolChoice, sent: object):
    assert build(turn(tools=(TOOL,), tool_choice=choice), settings=NATIVE).get("tool_choice") == sent


def test_allowed_tools_are_a_hard_filter():
    body = build(turn(tools=(TOOL, Tool("other")), tool_choice=ToolChoice(allowed=frozenset({"other"}))), settings=NATIVE)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["other"]


@pytest.mark.parametrize("settings", [NATIVE, Settings()])
def test_structured_history(settings: Settings):
    assert messages(say(Role.USER, "hi"), CALLS, RESULTS, settings=settings, tools=(TOOL,)) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "so",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": "x"}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"q":"y"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": "and now?"},
    ]


def test_a_history_that_is_still_structured_brings_its_tools():
    assert [tool["function"]["name"] for tool in build(turn(say(Role.USER, "hi"), CALLS, RESULTS, tools=(TOOL,)))["tools"]] == ["look"]


def test_content_of_a_message_that_only_calls():
    only = say(Role.ASSISTANT, Call("c1", "look", Arguments("")))
    assert messages(only)[0]["content"] is None
    assert messages(only, traits=UpstreamTraits(null_content=False))[0]["content"] == ""
    assert build(turn(only), without={"null_content"}, settings=NATIVE)["messages"][0]["content"] == ""
    assert messages(only)[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_results_that_are_empty_failed_or_hold_images():
    image = Image("data:image/png;base64,AA==")
    given = say(Role.USER, Result("c1"), Result("c2", (Text("no such file"),), is_error=True), Result("c3", (image,)), "see?")
    assert messages(given) == [
        {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
        {"role": "tool", "tool_call_id": "c2", "content": "ERROR: no such file"},
        {"role": "tool", "tool_call_id": "c3", "content": "(the output is attached to the next message)"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image.url}}, {"type": "text", "text": "see?"}]},
    ]
    blind = messages(given, traits=UpstreamTraits(images=False))
    assert blind[2]["content"] == "[image omitted]" and blind[3] == {"role": "user", "content": "see?"}


def test_images_and_files():
    pdf = Media("file", {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}})
    given = say(Role.USER, "a", Image("http://x/y.png", "low"), pdf)
    shown = messages(given, traits=UpstreamTraits(files=True))[0]["content"]
    assert shown[1] == {"type": "image_url", "image_url": {"url": "http://x/y.png", "detail": "low"}} and shown[2] == pdf.part
    assert messages(given, traits=UpstreamTraits(images=False))[0]["content"] == "a\n[image omitted]\n[file omitted]"


def test_text_parts_are_joined_without_gluing_words():
    assert messages(say(Role.USER, "high ", "4.1 m", "and", "", "so\n", "on"))[0]["content"] == "high 4.1 m\nand\nso\non"


DIALOGUE = (
    say(Role.SYSTEM, "s1"),
    say(Role.DEVELOPER, "d1"),
    say(Role.USER, "u1"),
    say(Role.USER, "u2"),
    say(Role.ASSISTANT, "a1"),
    say(Role.SYSTEM, "s2"),
    say(Role.USER, "u3"),
)


@pytest.mark.parametrize(
    ("traits", "without", "expected"),
    [
        ({}, (), ["system s1", "system d1", "user u1", "user u2", "assistant a1", "system s2", "user u3"]),
        ({"developer_role": True}, (), ["system s1", "developer d1", "user u1", "user u2", "assistant a1", "system s2", "user u3"]),
        ({"developer_role": True}, ("developer_role",), ["system s1", "system d1", "user u1", "user u2", "assistant a1", "system s2", "user u3"]),
        ({"system_once": True}, (), ["system s1\n\nd1", "user u1", "user u2", "assistant a1", "user System message: s2", "user u3"]),
        ({}, ("system_once",), ["system s1\n\nd1", "user u1", "user u2", "assistant a1", "user System message: s2", "user u3"]),
        ({"system_role": False}, (), ["user s1\n\nd1\n\nu1", "user u2", "assistant a1", "user System message: s2", "user u3"]),
        ({}, ("system_role",), ["user s1\n\nd1\n\nu1", "user u2", "assistant a1", "user System message: s2", "user u3"]),
        ({"alternate_roles": True}, (), ["system s1\n\nd1", "user u1\n\nu2", "assistant a1", "user System message: s2\n\nu3"]),
        ({"alternate_roles": True, "system_role": False}, (), ["user s1\n\nd1\n\nu1\n\nu2", "assistant a1", "user System message: s2\n\nu3"]),
    ],
)  # fmt: skip
def test_roles_bend_to_the_flags(traits: dict, without: tuple, expected: list[str]):
    body = build(turn(*DIALOGUE), UpstreamTraits(**traits), set(without))
    assert [f"{message['role']} {message['content']}" for message in body["messages"]] == expected


def test_a_conversation_that_begins_with_the_assistant_gets_an_opening_where_roles_alternate():
    sent = messages(say(Role.ASSISTANT, "a"), say(Role.USER, "u"), traits=UpstreamTraits(alternate_roles=True))
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]


def test_system_without_a_user_message_behind_it():
    sent = messages(say(Role.SYSTEM, "s"), say(Role.ASSISTANT, "a"), RESULTS, traits=UpstreamTraits(system_role=False))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert messages(say(Role.SYSTEM, "s"), traits=UpstreamTraits(system_role=False)) == [{"role": "user", "content": "s"}]


def test_empty_messages_are_dropped_but_for_the_last_word():
    assert messages(say(Role.USER, "a"), say(Role.ASSISTANT, ""), say(Role.USER, "")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": ""},
    ]


def test_names_of_speakers():
    named = replace(say(Role.USER, "a"), name="ann")
    assert messages(named)[0]["name"] == "ann" and "name" not in messages(named, traits=UpstreamTraits(extra_fields=False))[0]
    assert "name" not in messages(replace(named, name="ann b"))[0]


@pytest.mark.parametrize(
    ("traits", "without", "field"),
    [
        ({}, set(), "max_tokens"),
        ({"max_tokens_field": "max_completion_tokens"}, set(), "max_completion_tokens"),
        ({}, {"max_tokens"}, "max_completion_tokens"),
        ({"max_tokens_field": "max_completion_tokens"}, {"max_completion_tokens"}, "max_tokens"),
        ({}, {"max_tokens", "max_completion_tokens"}, None),
    ],
)
def test_the_token_limit_goes_under_the_name_that_is_taken(traits: dict, without: set, field: str | None):
    body = build(turn(max_tokens=5), UpstreamTraits(**traits), without)
    assert {key for key in body if key.startswith("max_")} == ({field} if field else set())


def test_optional_fields_are_left_out_when_refused_or_flagged():
    full = turn(
        stream=True, tools=(TOOL,), parallel_calls=False, sampling={"temperature": 0, "reasoning_effort": "low", "top_k": 5, "seed": None}
    )
    assert {"temperature", "reasoning_effort", "top_k"} <= set(build(full)) and "seed" not in build(full)
    assert "stream_options" not in build(full, UpstreamTraits(stream_options=False))
    assert "stream_options" not in build(full, without={"stream_options"})
    assert "reasoning_effort" not in build(full, UpstreamTraits(reasoning_effort=False))
    assert "parallel_tool_calls" not in build(full, UpstreamTraits(parallel_tool_calls=False), settings=NATIVE)
    assert set(build(full, UpstreamTraits(extra_fields=False))) & {"top_k", "temperature"} == {"temperature"}
    assert {"model", "messages", "stream"} <= set(build(full, without={"model", "messages", "stream", "temperature"}))


def test_names_and_ids_fit_the_strictest_reader_and_stay_paired():
    tool = Tool("fs.read/all")
    long = "x" * 50
    history = (
        say(Role.ASSISTANT, Call("toolu:1", "fs.read/all", Arguments("{}")), Call(long, "gone!", Arguments("{}"))),
        say(Role.USER, Result("toolu:1", (Text("r"),)), Result(long, (Text("r"),))),
    )
    body = build(turn(*history, tools=(tool,), tool_choice=ToolChoice(ChoiceMode.NAMED, tool.name)), settings=NATIVE)
    sent = body["messages"]
    assert [call["function"]["name"] for call in sent[0]["tool_calls"]] == ["fs_read_all", "gone_"]
    assert [call["id"] for call in sent[0]["tool_calls"]] == ["call_1", "call_2"] == [message["tool_call_id"] for message in sent[1:]]
    assert body["tools"][0]["function"]["name"] == "fs_read_all" == body["tool_choice"]["function"]["name"]


def test_same_turn_same_bytes():
    one = turn(*DIALOGUE, tools=(TOOL,), sampling={"b": 1, "a": 2})
    stage = Upstream(NATIVE)
    assert stage.build(one, UpstreamTraits(), frozenset()).body == stage.build(one, UpstreamTraits(), frozenset()).body
    assert stage.prepare(one, lambda *_, **__: None) is one and stage.open(one, lambda *_, **__: None) is None
    assert stage.name == "upstream" and not stage.per_attempt


def test_big_integers_and_lone_surrogates_survive_the_way_out():
    call = Call("c", "look", Arguments({"n": 12345678901234567890123}))
    body = Upstream(NATIVE).build(turn(say(Role.ASSISTANT, "x\ud800", call)), UpstreamTraits(), frozenset()).body
    assert b"12345678901234567890123" in body and "x\ufffd".encode() in body


def test_a_custom_tool_in_a_namespace_keeps_its_grammar():
    """Its name must be bent for the wire, its description must not be lost on the way (CR03)."""
    form = {"type": "grammar", "syntax": "lark", "definition": "start: HUNK+"}
    tool = Tool("agents.edit", "Edits.", kind=ToolKind.CUSTOM, namespace="agents", format=form)
    for one in (tool, replace(tool, native=tool_forms.native_form(tool)), replace(tool, native={"type": "custom"})):
        function = build(turn(tools=(one,)), settings=NATIVE)["tools"][0]["function"]
        assert function["name"] == "agents_edit"
        assert function["description"] == "Edits.\n\nThe input must match this lark grammar:\nstart: HUNK+"


def test_a_format_goes_to_an_upstream_that_was_not_taught():
    """In rescue mode the sieve runs beside native tools, and nothing in the messages asks for JSON (CR10)."""
    form = ResponseFormat(None, {"type": "json_object"})
    beside = turn(tools=(TOOL,), response_format=form, emulation=replace(EMULATION, injected=False))
    assert build(beside, settings=Settings(tools=Mode.RESCUE))["response_format"] == form.native

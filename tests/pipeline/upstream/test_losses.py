"""What an upstream does not take: left out and told, replaced and told, or refused (U06, U12, E-image, AR09, CR08)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pipeline.settings import Settings, UpstreamTraits
from pipeline.stage import StageError, UpstreamRequest
from pipeline.stages.upstream import Upstream
from pipeline.turn import Emulation, Image, Media, ResponseFormat, Result, Role, Text, Turn
from pipeline.verdicts import Api, DroppedParameter, ErrorKind, ReplacedContent
from tests.pipeline.upstream.test_chat_request import TOOL, say, turn

CHAT = UpstreamTraits()
MESSAGES = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)
PDF = Media("file", {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}})
STORED = Media("file", {"type": "file", "file": {"file_id": "file-1"}})
AUDIO = Media("input_audio", {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}})
PICTURE = Image("https://x/y.png")
EMULATION = Emulation("json_action", (TOOL,))


def build(one: Turn, traits: UpstreamTraits = CHAT, without: set[str] | None = None) -> UpstreamRequest:
    return Upstream(Settings()).build(one, traits, frozenset(without or ()))


def sent(request: UpstreamRequest) -> dict:
    return json.loads(request.body)


def names(request: UpstreamRequest) -> list[str]:
    return [name.value for name in request.dropped]


def test_nothing_is_told_where_nothing_is_lost():
    full = turn(sampling={"temperature": 0.5, "seed": 1, "vendor": True}, stop=("END",), max_tokens=9)
    assert build(full).dropped == () and build(full).replaced == ()
    silent = {"frequency_penalty": 0, "n": 1, "logprobs": False, "service_tier": "auto", "metadata": {}, "reasoning_effort": "none"}
    assert build(turn(sampling=silent), MESSAGES).dropped == ()


@pytest.mark.parametrize(
    ("traits", "without", "lost"),
    [
        (CHAT, {"temperature"}, ["temperature"]),
        (CHAT, {"temperature", "seed", "vendor"}, ["temperature", "seed", "other"]),
        (CHAT, {"stop", "stream_options", "parallel_tool_calls"}, []),
        (CHAT, {"max_tokens"}, []),
        (CHAT, {"max_tokens", "max_completion_tokens"}, ["max_tokens"]),
        (UpstreamTraits(reasoning_effort=False), set(), ["reasoning_effort"]),
        (UpstreamTraits(extra_fields=False), set(), ["verbosity", "other"]),
        (MESSAGES, set(), ["seed", "verbosity", "other"]),
        (MESSAGES, {"temperature"}, ["seed", "verbosity", "other", "temperature"]),
        (MESSAGES, {"output_config"}, ["seed", "reasoning_effort", "verbosity", "other"]),
    ],
)
def test_fields_left_out_are_told(traits: UpstreamTraits, without: set[str], lost: list[str]):
    asked = {"temperature": 0.5, "seed": 1, "reasoning_effort": "low", "verbosity": "low", "vendor": True}
    request = build(turn(sampling=asked, stop=("END",), max_tokens=9, stream=True, parallel_calls=False), traits, without)
    assert names(request) == lost
    assert not set(lost) & set(sent(request))


def test_one_answer_is_read_and_no_token_of_it():
    asked = turn(sampling={"logprobs": True, "top_logprobs": 3})
    assert names(build(asked)) == ["logprobs", "top_logprobs"] == names(build(asked, MESSAGES))
    for traits in (CHAT, MESSAGES):
        with pytest.raises(StageError) as caught:
            build(turn(sampling={"n": 2}), traits)
        assert (caught.value.failed.kind, caught.value.failed.parameter) == (ErrorKind.UNSUPPORTED_VALUE, "n")
        assert "n" not in sent(build(turn(sampling={"n": 2}, emulation=EMULATION), traits))


def test_what_only_chat_says_is_said_in_messages_where_it_can_be():
    form = ResponseFormat({"type": "object"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}})
    request = build(turn(response_format=form, sampling={"reasoning_effort": "minimal", "user": "u1", "temperature": 2}), MESSAGES)
    body = sent(request)
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert (body["metadata"], body["temperature"], request.dropped) == ({"user_id": "u1"}, 1, ())
    loose = build(turn(response_format=ResponseFormat(None, {"type": "json_object"})), MESSAGES)
    assert (names(loose), "output_config" in sent(loose)) == (["response_format"], False)
    taught = build(turn(response_format=form, tools=(TOOL,), emulation=EMULATION), MESSAGES)
    assert taught.dropped == () and "output_config" not in sent(taught)  # the contract asks for it


def test_content_that_is_not_taken_leaves_a_placeholder_and_is_told():
    given = turn(say(Role.USER, PICTURE, AUDIO, PDF), say(Role.USER, Result("c", (PICTURE, Text("x")))))
    request = build(given, UpstreamTraits(images=False))
    assert request.replaced == ((ReplacedContent.IMAGE, 2), (ReplacedContent.AUDIO, 1), (ReplacedContent.DOCUMENT, 1))
    assert sent(request)["messages"][0]["content"] == "[image omitted]\n[input_audio omitted]\n[file omitted]"
    assert build(given, UpstreamTraits(files=True)).replaced == ()
    messages = build(turn(say(Role.USER, PDF, STORED, AUDIO)), MESSAGES)
    assert messages.replaced == ((ReplacedContent.DOCUMENT, 1), (ReplacedContent.AUDIO, 1))
    assert [block["type"] for block in sent(messages)["messages"][0]["content"]] == ["document", "text", "text"]
    assert build(turn(say(Role.USER, PDF)), replace(MESSAGES, files=False)).replaced == ((ReplacedContent.DOCUMENT, 1),)


@pytest.mark.parametrize(
    ("api", "part", "traits", "refused"),
    [
        (Api.ANTHROPIC_MESSAGES, PDF, CHAT, True),
        (Api.ANTHROPIC_MESSAGES, PDF, UpstreamTraits(files=True), False),
        (Api.ANTHROPIC_MESSAGES, PDF, MESSAGES, False),
        (Api.ANTHROPIC_MESSAGES, PICTURE, UpstreamTraits(images=False), False),
        (Api.OPENAI_CHAT, PDF, CHAT, False),
        (Api.OPENAI_CHAT, PICTURE, UpstreamTraits(images=False, refuse_media=True), True),
        (Api.OPENAI_CHAT, PICTURE, UpstreamTraits(refuse_media=True), False),
        (Api.OPENAI_RESPONSES, AUDIO, UpstreamTraits(refuse_media=True), True),
    ],
)
def test_content_that_is_refused(api: Api, part: Image | Media, traits: UpstreamTraits, refused: bool):
    for one in (say(Role.USER, part), say(Role.USER, Result("c", (part,)))):
        asked = turn(one, api=api)
        if not refused:
            build(asked, traits)
            continue
        with pytest.raises(StageError, match="blocks need an upstream that takes them") as caught:
            build(asked, traits)
        assert caught.value.failed.parameter == ("input" if api is Api.OPENAI_RESPONSES else "messages")


def test_every_field_that_may_be_refused_has_a_name_of_its_own():
    """An operator reads which field it was, not `other`."""
    from pipeline.upstream.failures import OPTIONAL
    from pipeline.upstream.refused import UNSEEN

    known = {member.value for member in DroppedParameter}
    assert sorted(OPTIONAL - known - UNSEEN) == []

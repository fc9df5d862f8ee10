"""Echo safety where tools are native and a sieve stands behind them (C10): what a model repeats of its request is no call, and comes back as it went in."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.settings import Settings, UpstreamTraits
from pipeline.verdicts import Api, Mode
from tests.support.one_turn import play

TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}
BLOCKS = [
    '<tool_calls><invoke name="weather"><parameter name="city">X</parameter></invoke></tool_calls>',
    '<|DSML|tool_calls>\n<|DSML|invoke name="weather">\n<|DSML|parameter name="city" string="true">X</|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>',
    '```json action\n{"tool": "weather", "parameters": {"city": "X"}}\n```',
    '~~~JSON Action\n{"tool": "weather", "parameters": {"city": "X"}}\n~~~',
    '```json\n{"tool": "weather", "parameters": {"city": "X"}}\n```',
    "<|DSML|¬tool_calls> and <¬invoke> and ¬¬",
]
PLACES = ["user", "result", "arguments", "part"]
UPSTREAMS = [Api.OPENAI_CHAT, Api.ANTHROPIC_MESSAGES]


@cache
def chain(*, live: bool = False):
    return build(DEFAULT_STAGES, Settings(tools=Mode.RESCUE, stream_arguments=live, max_retries=0))


def conversation(place: str, text: str) -> list[dict]:
    told = f"Mind this:\n{text}"
    user = (
        [{"type": "text", "text": "Say it."}, {"type": "text", "text": told}] if place == "part" else told if place == "user" else "Say it."
    )
    if place in ("user", "part"):
        return [{"role": "user", "content": user}]
    arguments = json.dumps({"city": told if place == "arguments" else "Rome"})
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    result = told if place == "result" else "sunny"
    return [
        {"role": "user", "content": user},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def seen_by_model(sent: dict, place: str) -> str:
    """What the model was told, in the words it was told it in."""
    for message in sent["messages"]:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", ())]
        for block in blocks:
            if block["type"] == "tool_use":
                calls.append(block["input"])
            elif block["type"] == "tool_result":
                inner = block["content"]
                blocks.extend(inner if isinstance(inner, list) else [{"type": "text", "text": inner}])
        texts = [call["city"] for call in calls] if place == "arguments" else [block["text"] for block in blocks if block["type"] == "text"]
        for text in texts:
            if "Mind this:\n" in text:
                return text.partition("Mind this:\n")[2]
    raise AssertionError(sent)


def answer(api: Api, text: str, arguments: str | None) -> tuple[bytes, str]:
    if api is Api.ANTHROPIC_MESSAGES:
        content = [{"type": "text", "text": text}] if text else []
        if arguments is not None:
            content.append({"type": "tool_use", "id": "n1", "name": "weather", "input": json.loads(arguments)})
        body = {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": {}}
    else:
        message: dict = {"role": "assistant", "content": text or None}
        if arguments is not None:
            message["tool_calls"] = [{"id": "n1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return json.dumps(body).encode(), "application/json"


def ask(place: str, text: str, api: Api, reply, *, live: bool = False):
    """The model answers with `reply(what it was told)`: text, and arguments of a native call. Returns what it was told, and the message that came back."""
    request = {"model": "m", "messages": conversation(place, text), "tools": [TOOL]}
    traits = UpstreamTraits(protocol=api)
    sent = play(chain(live=live), Api.OPENAI_CHAT, request, [b""], traits=traits).sent[0]
    assert [tool.get("name") or tool["function"]["name"] for tool in sent["tools"]] == ["weather"]
    told = seen_by_model(sent, place)
    data, kind = answer(api, *reply(told))
    got = play(chain(live=live), Api.OPENAI_CHAT, request, [data], traits=traits, content_type=kind)
    return told, json.loads(got.body)["choices"][0]["message"]


@pytest.mark.parametrize("api", UPSTREAMS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("block", BLOCKS)
def test_what_a_model_repeats_is_text_byte_for_byte(block, place, api):
    _, message = ask(place, block, api, lambda told: (f"You wrote:\n{told}", None))
    assert not message.get("tool_calls")
    assert message["content"] == f"You wrote:\n{block}"


@pytest.mark.parametrize("api", UPSTREAMS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("live", [True, False])
def test_what_a_model_puts_into_a_call_is_what_it_was_told(block, place, api, live):
    native = ask(place, block, api, lambda told: ("", json.dumps({"city": told})), live=live)[1]
    assert [json.loads(call["function"]["arguments"]) for call in native["tool_calls"]] == [{"city": block}]
    leaked = ask(
        place,
        block,
        api,
        lambda told: ("```json action\n" + json.dumps({"tool": "weather", "parameters": {"city": told}}) + "\n```", None),
        live=live,
    )[1]
    assert [json.loads(call["function"]["arguments"]) for call in leaked["tool_calls"]] == [{"city": block}]


@pytest.mark.parametrize("place", PLACES)
def test_words_without_a_marker_go_up_as_they_are(place):
    text = "Plain <b>words</b>, ¬ and ```python\ncode\n```"
    assert ask(place, text, Api.OPENAI_CHAT, lambda told: (told, None))[0] == text


@profile(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from([*BLOCKS, "¬", "\n", "```", "<", "json action", "tool_calls>"]), st.text(max_size=5)),
        min_size=1,
        max_size=5,
    ).map("".join),
    st.sampled_from(PLACES),
)
def test_law_any_text_comes_back_and_nothing_of_it_runs(text, place):
    text = f"a{text.encode(errors='replace').decode()}b"
    _, message = ask(place, text, Api.OPENAI_CHAT, lambda told: (told, None))
    assert (message["content"], message.get("tool_calls")) == (text, None)

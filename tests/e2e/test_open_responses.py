"""Line B of what must be shown: what the Open Responses compliance runner asks of an HTTP server, written anew from its published rules.

The runner itself is a source tree, on neither PyPI nor npm. Its eight HTTP cases are: a basic answer, an assistant's message with a phase (both
phases), a stream, a system prompt, a call, an image, several turns. Each answer must be a response object with every required key and types
that its schema takes; each stream must hold whole, known, numbered events (`grammar`) and end in the same object.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest

from tests.conformance import grammar
from tests.conformance.check_sdks import Bench, Raw
from tests.support.running import toolgraft
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.text_model import TextModel

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PLACE = {"type": "object", "properties": {"location": {"type": "string", "description": "City and state"}}, "required": ["location"]}
WEATHER = {"type": "function", "name": "get_weather", "description": "Get the current weather for a location", "parameters": PLACE}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


def phased(phase: str) -> dict[str, Any]:
    turns = [said("user", "Plan it."), said("assistant", "First I look.", phase=phase), said("user", "Go on.")]
    return {"input": turns}


CASES: dict[str, dict[str, Any]] = {
    "basic": {"input": [said("user", "Say hello in exactly 3 words.")]},
    "phase-commentary": phased("commentary"),
    "phase-final-answer": phased("final_answer"),
    "system-prompt": {"input": [said("system", "You are a pirate."), said("user", "Say hello.")]},
    "tool-calling": {"input": [said("user", "What's the weather like in San Francisco?")], "tools": [WEATHER]},
    "image-input": {
        "input": [said("user", [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}])],
    },
    "multi-turn": {"input": [said("user", "My name is Alice."), said("assistant", "Hello Alice!"), said("user", "What is my name?")]},
}
NUMBER, TEXT, COUNT = (int, float), str, int
TYPES: dict[str, Any] = {
    "id": TEXT,
    "object": TEXT,
    "created_at": COUNT,
    "status": TEXT,
    "model": TEXT,
    "output": list,
    "tools": list,
    "tool_choice": (str, dict),
    "truncation": TEXT,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": COUNT,
    "temperature": NUMBER,
    "store": bool,
    "background": bool,
    "service_tier": TEXT,
    "metadata": dict,
    "usage": dict,
}
MAY_BE_NULL = {
    "completed_at",
    "incomplete_details",
    "previous_response_id",
    "instructions",
    "error",
    "reasoning",
    "max_output_tokens",
    "max_tool_calls",
}
MAY_BE_NULL |= {"safety_identifier", "prompt_cache_key"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with ExitStack() as stack:
        upstream = stack.enter_context(ScriptedUpstream(TextModel()).in_thread())
        running = stack.enter_context(toolgraft(tmp_path_factory.mktemp("open"), upstream.url))
        made = Bench(running.url)
        stack.callback(made.close)
        yield made


def check_resource(response: dict[str, Any]) -> None:
    """The response object by the published schema: every key is there, and what may not be null has its type."""
    assert set(grammar.RESPONSE_KEYS) <= set(response), set(grammar.RESPONSE_KEYS) - set(response)
    assert set(TYPES) | MAY_BE_NULL == set(grammar.RESPONSE_KEYS)
    for key, kind in TYPES.items():
        assert isinstance(response[key], kind), (key, response[key])
        assert kind is bool or not isinstance(response[key], bool), key
    assert response["object"] == "response"
    assert response["text"]["format"]["type"]
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] >= 0
    assert usage["output_tokens_details"]["reasoning_tokens"] >= 0
    for item in response["output"]:
        check_item(item)
    for tool in response["tools"]:
        assert {"type", "name", "description", "parameters", "strict"} <= set(tool)


def check_item(item: dict[str, Any]) -> None:
    assert item["id"]
    assert item["status"] in ("completed", "incomplete", "in_progress")
    if item["type"] == "message":
        assert item["role"] == "assistant"
        for part in item["content"]:
            assert part["type"] == "output_text"
            assert isinstance(part["text"], str)
            assert (part["annotations"], part["logprobs"]) == ([], [])
    else:
        assert item["type"] == "function_call"
        assert item["call_id"]
        assert isinstance(json.loads(item["arguments"]), dict)


def ask(bench: Bench, name: str, *, stream: bool) -> Raw:
    got = bench.post("/v1/responses", {"model": "m", **CASES[name], "stream": stream})
    assert got.status == 200, got.body
    return got


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_a_whole_resource(bench, name):
    response = ask(bench, name, stream=False).json
    check_resource(response)
    assert response["status"] == "completed"
    assert response["output"]
    assert ("function_call" in [item["type"] for item in response["output"]]) == (name == "tool-calling")


@pytest.mark.parametrize("name", CASES)
def test_a_stream_ends_in_the_same_resource(bench, name):
    raw = ask(bench, name, stream=True).body
    assert grammar.check_responses(raw) == []
    found, _ = grammar.events(raw)
    events = [json.loads(data) for _, data in found if data != "[DONE]"]
    assert found[-1][1] == "[DONE]"
    assert events[-1]["type"] == "response.completed"
    check_resource(events[-1]["response"])
    plain = ask(bench, name, stream=False).json
    assert [item["type"] for item in events[-1]["response"]["output"]] == [item["type"] for item in plain["output"]]
    assert set(events[-1]["response"]) == set(plain)

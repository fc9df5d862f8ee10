"""Whole requests: those of the case files, and tool lists of the size that agents send."""

import pytest

from pipeline import json_values
from pipeline.protocols.json_body import parse_body
from pipeline.turn import Call, Result, Text
from pipeline.verdicts import Api
from tests.support.requests_read import CASES, case_lines, failure, read

APIS = {"openai": Api.OPENAI_CHAT, "anthropic": Api.ANTHROPIC_MESSAGES}
EXCHANGES = [case for case in case_lines("exchanges.jsonl") if isinstance(case.get("request"), dict)]
AGENTS = sorted((CASES / "agent_requests").glob("*.json"))


def _words(value):
    """Every text of content, call names and results in a request's messages, thoughts left out."""
    if isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, dict) and value.get("type") not in ("thinking", "redacted_thinking"):
        for key in ("content", "text", "name"):
            if isinstance(value.get(key), str):
                yield value[key]
            else:
                yield from _words(value.get(key))
        yield from _words(value.get("tool_calls"))
        yield from _words(value.get("function"))


def _read_words(turn):
    for message in turn.messages:
        for part in message.parts:
            match part:
                case Text():
                    yield part.text
                case Call():
                    yield part.name
                case Result():
                    yield from (inner.text for inner in part.content if isinstance(inner, Text))


@pytest.mark.parametrize("case", EXCHANGES, ids=lambda case: case["id"])
def test_no_text_of_a_request_gets_lost(case):
    api = APIS[case["api"]]
    request = parse_body(json_values.dumps_bytes(case["request"]))
    if case["id"] == "pr-r025":
        assert failure(api, request).parameter == "messages[1].tool_calls[0].id"
        return
    turn = read(api, request, count_only=case["stage"] == "endpoint")
    said = "\n".join(_read_words(turn))
    assert all(word in said for word in _words(request["messages"]) if word.strip())
    assert [tool.name for tool in turn.tools] == [
        (tool.get("function") or tool)["name"]
        for tool in (request.get("tools") or request.get("functions") or [])
        if "web_search" not in str(tool.get("type"))
    ]


BEHAVIOURS = [case for case in case_lines("proxy_behaviours.jsonl") if {"messages", "tools"} & case["given"].keys()]


@pytest.mark.parametrize("case", BEHAVIOURS, ids=lambda case: case["id"])
def test_the_behaviour_cases_are_taken(case):
    hello = [{"role": "user", "content": "hello"}]
    turn = read(Api.OPENAI_CHAT, {"model": "m", "messages": hello, **case["given"]})
    assert len(turn.messages) == len(case["given"].get("messages", hello))
    assert len(turn.tools) == len(case["given"].get("tools", []))


def _request(data):
    """The body that an agent with this system prompt and these tools sends first."""
    first = data["tools"][0]
    if "input_schema" in first:
        return Api.ANTHROPIC_MESSAGES, {"max_tokens": 32000, "system": data["system"], "messages": [{"role": "user", "content": "go"}]}
    if "function" in first:
        messages = [{"role": "system", "content": data["system"]}, {"role": "user", "content": "go"}]
        return Api.OPENAI_CHAT, {"messages": messages}
    return Api.OPENAI_RESPONSES, {"instructions": data["system"], "input": "go"}


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_the_tools_of_real_agents_are_read_whole(path):
    data = json_values.loads(path.read_bytes())
    api, body = _request(data)
    turn = read(api, {"model": "m", "tools": data["tools"], **body})
    expected = []
    for tool in data["tools"]:
        inner = tool.get("function", tool)
        if tool.get("type") == "namespace":
            expected += [(f"{tool['name']}.{part['name']}", part["parameters"]) for part in tool["tools"]]
        elif tool.get("type") in (None, "custom", "function"):
            expected.append((inner["name"], inner.get("parameters", inner.get("input_schema"))))
    assert [(tool.name, tool.parameters) for tool in turn.tools] == expected
    assert turn.messages[0].parts == (Text(data["system"]),)

"""`toolgraft contract`: what a model would be shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.__main__ import main

AGENTS = sorted((Path(__file__).parents[2] / "cases" / "agent_requests").glob("*.json"))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = {"type": "function", "function": {"name": "get_weather", "description": "Get the weather.", "parameters": SCHEMA}}
MESSAGES = {"name": "get_weather", "description": "Get the weather.", "input_schema": SCHEMA}
RESPONSES = {"type": "function", "name": "get_weather", "description": "Get the weather.", "parameters": SCHEMA}


def run(given: object, *options: str) -> str:
    result = CliRunner().invoke(main, ["contract", "--tools", "-", *options], input=given if isinstance(given, str) else json.dumps(given))
    assert result.exit_code == 0, result.output
    return result.output


def fails(given: object, *options: str) -> str:
    result = CliRunner().invoke(main, ["contract", "--tools", "-", *options], input=given if isinstance(given, str) else json.dumps(given))
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.output


def test_every_protocols_tools_make_the_same_contract() -> None:
    shown = {run([tool]) for tool in (CHAT, MESSAGES, RESPONSES)}
    assert len(shown) == 1
    (text,) = shown
    assert "get_weather" in text
    assert "```json action" in text
    assert "--- system ---" in text
    assert "(the user's request)" in text


def test_sizes_of_all_tiers_stand_at_the_top() -> None:
    lines = run([CHAT]).splitlines()
    assert lines[0] == "1 tool(s), dialect json_action"
    assert [line.split()[0] for line in lines[1:4]] == ["full", "compact", "names"]
    assert lines[1].endswith("<- shown below")


def test_a_tier_and_a_dialect_can_be_asked_for() -> None:
    text = run([CHAT], "--tier", "names", "--dialect", "dsml", "--example-turns", "0")
    assert "- get_weather(city): Get the weather." in text
    assert "<|DSML|tool_calls>" in text
    assert "JSON Schema" not in text


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("auto", "otherwise answer in plain text"),
        ("required", "This reply must call one of the tools"),
        ("get_weather", "This reply must call the tool get_weather"),
        ("none", "no contract in this turn: choice_none"),
    ],
)
def test_choices(choice: str, said: str) -> None:
    assert said in run([CHAT], "--choice", choice)


def test_json_for_pipes() -> None:
    report = json.loads(run([CHAT], "--json", "--neutral"))
    assert report["dialect"] == "json_action"
    assert report["tier"] == "full"
    assert set(report["sizes"]) == {"full", "compact", "names"}
    assert report["sizes"]["full"]["bytes"] == len(report["messages"][0]["content"].encode())
    assert "Functions:" in report["messages"][0]["content"]


def test_a_whole_request_is_shown_with_its_history() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Gent"}'}}
    messages = [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "7 C"},
    ]
    text = run({"model": "m", "messages": messages, "tools": [CHAT]}, "--example-turns", "0")
    assert "Be terse." in text
    assert '{"tool": "get_weather", "parameters": {"city":"Gent"}}' in text
    assert "get_weather (c1) returned:\n7 C" in text


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_requests_of_real_agents(path: Path) -> None:
    assert json.loads(run(path.read_text(), "--json"))["tier"] == "full"


def test_what_is_wrong_is_said() -> None:
    assert "neither a tools array nor a request body" in fails({"messages": []})
    assert "known: " in fails([CHAT], "--dialect", "nope")
    assert "not among the tools" in fails([CHAT], "--choice", "nope")
    assert "contract_max_bytes" in fails([CHAT], "--max-bytes", "50")
    assert "Error" in fails("{")

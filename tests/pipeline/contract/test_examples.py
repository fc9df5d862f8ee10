"""Example calls and worked exchanges (C1, C6, C7)."""

from __future__ import annotations

import json

import pytest

from pipeline.contract.examples import best_to_show, example_call, example_turns
from pipeline.turn import Call, Result, Role, Text, Tool
from tests.pipeline.contract.tools import AGENTS, NOTE, PING, RAW, WEATHER, agent_tools, schema

LINE = "(reminder)"


def steps(messages) -> list[str]:
    """The exchange in short: u request, c call, r result, a answer."""
    short = []
    for message in messages:
        part = message.parts[0]
        short.append("c" if isinstance(part, Call) else "r" if isinstance(part, Result) else "u" if message.role is Role.USER else "a")
    return short


@pytest.mark.parametrize(("count", "order"), [(0, ""), (1, "ucra"), (2, "ucrcraucra"), (3, "ucrcraucraucra"), (9, "ucrcraucraucra")])
def test_so_many_exchanges_the_first_of_several_goes_on_to_a_second_call(count: int, order: str) -> None:
    assert "".join(steps(example_turns([WEATHER, NOTE], count, LINE))) == order


def test_one_tool_alone_is_not_called_twice_in_an_exchange() -> None:
    assert "".join(steps(example_turns([WEATHER], 3, LINE))) == "ucraucraucra"


def test_no_tools_no_examples() -> None:
    assert example_turns([], 3, LINE) == []


def test_an_exchange_is_made_of_the_callers_tool() -> None:
    request, call, result, answer = example_turns([WEATHER], 1, LINE)
    assert request.parts == (Text("Get the weather of a city: Lisbon\n\n(reminder)"),)
    assert call.parts[0].name == "get_weather"
    assert call.parts[0].arguments.value() == {"city": "Lisbon"}
    assert result.parts[0].call_id == call.parts[0].id
    assert answer.parts == (Text("Done: get_weather returned ok, sample result."),)


def test_examples_hold_values_unlike_those_of_the_contract() -> None:
    values = [part.arguments.text() for message in example_turns([WEATHER], 3, LINE) for part in message.parts if isinstance(part, Call)]
    assert len({*values, example_call(WEATHER).arguments.text()}) >= 3


def test_several_arguments_are_named_in_the_request() -> None:
    tool = Tool("t", "Do it.", schema(path={"type": "string"}, count={"type": "integer"}))
    assert example_turns([tool], 1, LINE)[0].parts[0].text.startswith("Do it: path src/app.py, count 1\n")


def test_a_tool_without_words_is_named() -> None:
    assert example_turns([PING], 1, LINE)[0].parts[0].text.startswith("Use ping\n")


def test_the_best_to_show_come_first() -> None:
    long = Tool("long", parameters=schema(**{f"a_rather_long_name_{at}": {"type": "string"} for at in range(9)}))
    assert best_to_show([RAW, PING, long, NOTE, WEATHER]) == [NOTE, WEATHER, long, PING, RAW]
    assert best_to_show([NOTE, PING], "ping") == [PING, NOTE]


def test_the_wanted_one_is_found_among_many() -> None:
    many = [Tool(f"t{at}") for at in range(40)]
    assert best_to_show(many, "t39")[0].name == "t39"


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_only_declared_names_and_not_too_long(path) -> None:
    tools = agent_tools(path)
    turns = example_turns(best_to_show(tools)[:3], 3, LINE)
    names = {part.name for message in turns for part in message.parts if isinstance(part, Call)}
    assert names <= {tool.name for tool in tools}
    assert all(len(json.dumps(part.arguments.value())) < 400 for message in turns for part in message.parts if isinstance(part, Call))

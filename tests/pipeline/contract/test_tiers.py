"""What each tier shows of a tool (C9)."""

from __future__ import annotations

import json

import pytest

from pipeline.contract.tiers import list_tools, shorten
from pipeline.turn import Tool
from pipeline.verdicts import Tier
from tests.pipeline.contract.tools import AGENTS, NOTE, PING, RAW, WEATHER, agent_tools, schema


def test_full_shows_the_whole_schema() -> None:
    tool = Tool(
        "t", "Does it.\n\nAt length.", {"$schema": "http://json-schema.org/draft-07/schema#", **schema(a={"type": "integer", "minimum": 3})}
    )
    listed = list_tools([tool], Tier.FULL)
    assert listed.startswith("Tool: t\nDoes it.\n\nAt length.\nArguments (JSON Schema): {")
    assert json.loads(listed.split("(JSON Schema): ")[1]) == schema(a={"type": "integer", "minimum": 3})


def test_full_keeps_references() -> None:
    tool = Tool("plan_walk", parameters={**schema(step={"$ref": "#/$defs/step"}), "$defs": {"step": schema(km={"type": "number"})}})
    assert '"km"' in list_tools([tool], Tier.FULL)


def test_compact_shows_a_signature_and_short_descriptions() -> None:
    assert list_tools([WEATHER, PING], Tier.COMPACT) == (
        "- get_weather(city: string): Get the weather of a city.\n  city: name of the city\n- ping()"
    )


def test_names_shows_one_line() -> None:
    assert list_tools([WEATHER, PING], Tier.NAMES) == "- get_weather(city): Get the weather of a city.\n- ping()"


@pytest.mark.parametrize("tier", [Tier.FULL, Tier.COMPACT])
def test_a_grammar_is_shown(tier: Tier) -> None:
    assert 'start: "a"' in list_tools([RAW], tier)


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_no_tool_is_left_out(path, tier: Tier) -> None:
    tools = agent_tools(path)
    listed = list_tools(tools, tier)
    assert all(tool.name in listed for tool in tools)


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_each_tier_is_smaller_than_the_one_before(path) -> None:
    tools = agent_tools(path)
    full, compact, names = (len(list_tools(tools, tier)) for tier in (Tier.FULL, Tier.COMPACT, Tier.NAMES))
    assert full > compact > names


def test_one_tool_whole_and_the_others_by_name() -> None:
    assert list_tools([WEATHER, NOTE], Tier.COMPACT, whole="save_note") == (
        "- get_weather(city): Get the weather of a city.\n- save_note(text: string): Save a note."
    )


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("as  it\nis", 20, "as it is"),
        ("One sentence. And another one.", 20, "One sentence."),
        ("A. then a very long tail without an end", 20, "A. then a very..."),
        ("x" * 30, 10, "xxxxxxx..."),
        ("", 10, ""),
    ],
)
def test_shortening(text: str, limit: int, short: str) -> None:
    assert shorten(text, limit) == short

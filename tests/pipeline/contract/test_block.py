"""The stable block and its cache (C1, C2, C3, C7, C8, C9)."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from pipeline.contract import block as block_module
from pipeline.contract.block import TIERS, Brief, ContractTooLargeError, write, write_tier
from pipeline.contract.cache import MAX_CONTRACTS, ContractCache
from pipeline.dialects import registry
from pipeline.dialects.dsml import prompt as dsml_prompt
from pipeline.dialects.json_action import prompt as json_action_prompt
from pipeline.dialects.options import ParserOptions
from pipeline.events import CallDone
from pipeline.sieve.sieve import Sieve
from pipeline.testing import laws
from pipeline.turn import Tool
from pipeline.verdicts import Tier
from tests.pipeline.contract.tools import AGENTS, NOTE, PING, RAW, WEATHER, agent_tools

JSON_ACTION, DSML = registry.load(("json_action", "dsml"))
DIALECTS = (JSON_ACTION, DSML)
BIG = 10**7


def brief(*tools: Tool, dialect=JSON_ACTION, **fields) -> Brief:
    return Brief(tools=tools, dialect=dialect, **fields)


def calls_in(text: str, tools=()) -> list[CallDone]:
    events = laws.run(Sieve(DIALECTS, ParserOptions(tools=tuple(tools))), [text])
    return [event for event in events if isinstance(event, CallDone)]


@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_block_says_what_it_must(dialect, neutral: bool) -> None:
    contract = write(brief(WEATHER, NOTE, dialect=dialect, neutral=neutral), BIG)
    assert contract.tier is Tier.FULL
    assert contract.size == len(contract.text.encode())
    assert "get_weather" in contract.text and "save_note" in contract.text
    assert dialect.form in contract.text
    assert contract.example in contract.text
    assert re.search("plain text|without a call", contract.text)
    assert "depend" in contract.text or "needs the result" in contract.text


@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("tier", TIERS)
def test_nothing_in_it_sounds_like_an_override(tier: Tier, neutral: bool) -> None:
    text = write_tier(brief(WEATHER, NOTE, neutral=neutral), tier).text.lower()
    for phrase in (
        "ignore",
        "disregard",
        "override",
        "instead of",
        "system prompt",
        "[system",
        "json only",
        "only json",
        "for this request only",
        "you must",
    ):
        assert phrase not in text


def test_the_neutral_variant_makes_no_claims_and_gives_no_orders() -> None:
    text = write(brief(WEATHER, neutral=True), BIG).text
    assert not re.search(r"\b(?:do not|never|must|stop)\b", text, re.IGNORECASE)
    assert text != write(brief(WEATHER), BIG).text


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_the_example_parses_back_to_a_call_of_a_declared_tool(path, dialect) -> None:
    tools = agent_tools(path)
    contract = write(brief(*tools, dialect=dialect), BIG)
    (call,) = calls_in(contract.example, tools)
    assert call.name in {tool.name for tool in tools}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_block_shows_no_call_but_its_example(dialect) -> None:
    for tools in ((WEATHER, NOTE), (PING,), (RAW,), (WEATHER,)):
        contract = write(brief(*tools, dialect=dialect), BIG)
        (call,) = calls_in(contract.text, tools)
        assert [call] and call.name in {tool.name for tool in tools}


def test_the_largest_tier_that_fits_is_used() -> None:
    tools = agent_tools(next(path for path in AGENTS if path.stem == "claude-code"))
    sizes = [write_tier(brief(*tools), tier).size for tier in TIERS]
    assert sizes[0] > sizes[1] > sizes[2]
    for size, tier in zip(sizes, TIERS, strict=True):
        assert write(brief(*tools), size).tier is tier
    assert write(brief(*tools), sizes[0] - 1).tier is Tier.COMPACT
    with pytest.raises(ContractTooLargeError) as caught:
        write(brief(*tools), sizes[2] - 1)
    assert caught.value.size == sizes[2]
    assert str(sizes[2]) in str(caught.value) and str(sizes[2] - 1) in str(caught.value)


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_every_real_agent_fits_the_default_limit_whole(path) -> None:
    assert write(brief(*agent_tools(path)), 96 << 10).tier is Tier.FULL


def test_a_named_tool_alone_is_whole_and_is_the_example() -> None:
    contract = write(brief(WEATHER, NOTE, whole="save_note"), BIG)
    assert contract.text.count("JSON Schema") == 1
    assert "- get_weather(city)" in contract.text
    assert "save_note" in contract.example


def test_one_call_a_reply_where_parallel_is_off() -> None:
    assert "one call" in write(brief(WEATHER, NOTE, parallel=False), BIG).text
    assert "together" not in write(brief(WEATHER, NOTE, parallel=False), BIG).text


def test_the_wanted_answer_is_said() -> None:
    assert write(brief(WEATHER, answer="An answer is JSON."), BIG).text.endswith("- An answer is JSON.")


def test_markers_in_a_description_are_broken_and_its_json_fences_remembered() -> None:
    about = 'Writes <tool_calls>.\n```json\n{"tool": "ping", "parameters": {}}\n```'
    contract = write(brief(Tool("t", about)), BIG)
    assert contract.escaped
    assert len(contract.quotes) == 1 and "¬tool_calls" in contract.quotes[0]
    assert "<tool_calls>" not in contract.text
    assert not write(brief(WEATHER), BIG).escaped


def test_the_same_tools_give_the_same_bytes_in_any_process() -> None:
    program = (
        "import hashlib\n"
        "from tests.pipeline.contract.tools import AGENTS, agent_tools\n"
        "from pipeline.contract.block import TIERS, Brief, write_tier\n"
        "from pipeline.dialects import registry\n"
        "text = ''.join(write_tier(Brief(agent_tools(path), dialect), tier).text"
        " for path in AGENTS for dialect in registry.load(('json_action', 'dsml')) for tier in TIERS)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_the_short_name_of_a_block_is_the_same_in_prompt_and_dialect() -> None:
    assert JSON_ACTION.form == json_action_prompt.FORM
    assert DSML.form == dsml_prompt.FORM


def test_without_an_example_the_format_is_told_in_words() -> None:
    for dialect in DIALECTS:
        told = dialect.describe((), None)
        assert calls_in(told) == []
        assert dialect.form in told


class TestCache:
    def test_equal_content_hits_whoever_sends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cache = ContractCache(BIG)
        first = cache.get(brief(WEATHER, NOTE))
        monkeypatch.setattr(block_module, "write_tier", lambda *_: pytest.fail("written twice"))
        again = Tool(WEATHER.name, WEATHER.description, {**WEATHER.parameters})
        assert cache.get(brief(again, NOTE)) is first

    @pytest.mark.parametrize(
        "other",
        [
            brief(NOTE, WEATHER),
            brief(WEATHER),
            brief(WEATHER, NOTE, dialect=DSML),
            brief(WEATHER, NOTE, neutral=True),
            brief(WEATHER, NOTE, parallel=False),
            brief(WEATHER, NOTE, whole="save_note"),
            brief(WEATHER, NOTE, answer="JSON."),
            brief(Tool("get_weather", "Other words.", WEATHER.parameters), NOTE),
            brief(Tool("get_weather", WEATHER.description, {"type": "object"}), NOTE),
        ],
    )
    def test_other_content_does_not(self, other: Brief) -> None:
        cache = ContractCache(BIG)
        assert cache.get(brief(WEATHER, NOTE)).text != cache.get(other).text

    def test_it_is_bounded_and_keeps_what_is_used(self) -> None:
        cache = ContractCache(BIG)
        kept = cache.get(brief(WEATHER))
        for at in range(MAX_CONTRACTS + 5):
            cache.get(brief(Tool(f"t{at}")))
            assert cache.get(brief(WEATHER)) is kept
        assert len(cache._contracts) == MAX_CONTRACTS

    def test_what_does_not_fit_is_not_kept(self) -> None:
        cache = ContractCache(10)
        for _ in range(2):
            with pytest.raises(ContractTooLargeError):
                cache.get(brief(WEATHER))

    def test_big_integers_in_a_schema_tell_tools_apart(self) -> None:
        cache = ContractCache(BIG)
        one, other = (brief(Tool("t", parameters={"type": "object", "properties": {"a": {"const": 2**70 + at}}})) for at in (0, 1))
        assert cache.get(one) is not cache.get(other)

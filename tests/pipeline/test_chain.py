"""The chain: order and membership from a list, anybody's stage through an entry point, errors that name what is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline import chain
from pipeline.chain import DEFAULT_STAGES, ChainError, build
from pipeline.events import Finish, ReasoningDelta, TextDelta
from pipeline.settings import Settings
from pipeline.turn import Message, Role, Text, Turn
from pipeline.verdicts import Api, Noted

EXAMPLE = Path(__file__).parent.parent / "examples" / "own_stage"


@pytest.fixture
def own_stage(monkeypatch):
    """The guide's stage, installed as a package would be."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    chain.stage_entry_points.cache_clear()
    yield
    chain.stage_entry_points.cache_clear()
    sys.modules.pop("house_rules", None)


def test_the_default_chain_holds_the_seven_stages_in_order():
    built = build(DEFAULT_STAGES, Settings())
    assert [stage.name for stage in built.stages] == list(DEFAULT_STAGES)
    assert [stage.name for stage in built.once] == ["normalize", "history_guard"]
    assert built.each[0].name == "prompt_contract"
    assert built.judge is not None
    assert built.judge.name == "retry_on_refusal"


def test_a_stage_may_be_left_out():
    built = build([name for name in DEFAULT_STAGES if name != "retry_on_refusal"], Settings())
    assert built.judge is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((*DEFAULT_STAGES, "nonsense"), "unknown stage 'nonsense'; known: "),
        ((*DEFAULT_STAGES, "sieve"), "'sieve' stands twice"),
        (tuple(name for name in DEFAULT_STAGES if name != "upstream"), "'upstream' cannot be left out"),
        (tuple(reversed(DEFAULT_STAGES)), "the built-in ones keep their order: normalize, history_guard, "),
    ],
)
def test_a_list_that_cannot_work_says_why(names, message):
    with pytest.raises(ChainError, match=message):
        build(names, Settings())


def test_a_third_party_stage_loads_and_works(own_stage):
    names = [*DEFAULT_STAGES[:2], "house_rules", *DEFAULT_STAGES[2:]]
    built = build(names, Settings(stages={"house_rules": {"text": "Answer in British English."}}))
    stage = next(one for one in built.stages if one.name == "house_rules")
    notes = []
    turn = Turn(api=Api.OPENAI_CHAT, messages=(Message(Role.USER, (Text("hi"),)),))
    prepared = stage.prepare(turn, lambda outcome, /, **fields: notes.append((outcome, fields)))
    assert prepared.messages[0] == Message(Role.SYSTEM, (Text("Answer in British English."),))
    assert notes == [(Noted.CONTENT_REPLACED, {"kind": "house_rule", "count": 1})]
    receiver = stage.open(prepared, lambda *_, **__: None)
    assert receiver.feed(ReasoningDelta("hmm")) == []
    assert receiver.feed(TextDelta("hello")) == [TextDelta("hello")]
    assert receiver.close(Finish()) == [Finish()]


def test_a_stage_without_anything_to_do_returns_the_same_turn(own_stage):
    built = build([*DEFAULT_STAGES[:2], "house_rules", *DEFAULT_STAGES[2:]], Settings())
    stage = next(one for one in built.stages if one.name == "house_rules")
    turn = Turn(api=Api.OPENAI_CHAT)
    assert stage.prepare(turn, lambda *_, **__: None) is turn

"""What a tool choice leaves (C3)."""

from __future__ import annotations

import pytest

from pipeline.contract.offer import ChoiceError, offered
from pipeline.turn import ChoiceMode, ToolChoice
from tests.pipeline.contract.tools import NOTE, PING, WEATHER

TOOLS = (WEATHER, NOTE, PING)


@pytest.mark.parametrize("choice", [ToolChoice(), ToolChoice(ChoiceMode.REQUIRED), ToolChoice(ChoiceMode.NAMED, "ping")])
def test_all_stay(choice: ToolChoice) -> None:
    assert offered(TOOLS, choice) == TOOLS


def test_none_leaves_none() -> None:
    assert offered(TOOLS, ToolChoice(ChoiceMode.NONE)) == ()


def test_the_filter_is_hard_and_keeps_the_order() -> None:
    assert offered(TOOLS, ToolChoice(allowed=frozenset({"ping", "get_weather"}))) == (WEATHER, PING)


def test_an_empty_filter_leaves_none() -> None:
    assert offered(TOOLS, ToolChoice(allowed=frozenset())) == ()


@pytest.mark.parametrize(
    "choice",
    [
        ToolChoice(ChoiceMode.NAMED, "nope"),
        ToolChoice(allowed=frozenset({"ping", "nope"})),
        ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset()),
        ToolChoice(ChoiceMode.NAMED, "save_note", frozenset({"ping"})),
    ],
)
def test_what_cannot_be_met_is_refused(choice: ToolChoice) -> None:
    with pytest.raises(ChoiceError):
        offered(TOOLS, choice)


@pytest.mark.parametrize("choice", [ToolChoice(ChoiceMode.REQUIRED), ToolChoice(ChoiceMode.NAMED, "ping")])
def test_a_demand_without_tools_is_refused(choice: ToolChoice) -> None:
    with pytest.raises(ChoiceError):
        offered((), choice)

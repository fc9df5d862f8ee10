"""The sentences that depend on the turn (C3, C5, C8, CR10)."""

from __future__ import annotations

from types import SimpleNamespace

from pipeline.contract.wording import answer_format, form_of, next_step, reminder
from pipeline.turn import ChoiceMode, Tool, ToolChoice
from tests.pipeline.contract.tools import NOTE, WEATHER


def test_a_reminder_is_one_line_and_fits_the_choice() -> None:
    tools = (WEATHER, NOTE)
    auto = reminder(ToolChoice(), "a block", tools)
    required = reminder(ToolChoice(ChoiceMode.REQUIRED), "a block", tools)
    named = reminder(ToolChoice(ChoiceMode.NAMED, "save_note"), "a block", tools)
    assert auto == "(To use a tool (get_weather, save_note), write a block; otherwise answer in plain text.)"
    assert required == "(This reply must call one of the tools (get_weather, save_note): write a block.)"
    assert named == "(This reply must call the tool save_note: write a block.)"


def test_many_names_are_left_to_the_block() -> None:
    tools = [Tool(f"a_tool_with_number_{at}") for at in range(20)]
    assert reminder(ToolChoice(), "a block", tools) == "(To use a tool, write a block; otherwise answer in plain text.)"


def test_the_next_step_counts() -> None:
    assert next_step(1, "a block").startswith("Use this result:")
    assert next_step(2, "a block").startswith("Use these results:")


def test_a_wanted_answer_never_forbids_a_call() -> None:
    for said in (answer_format(None), answer_format('{"type":"object"}')):
        assert said.startswith("An answer without a call is")
    assert '{"type":"object"}' in answer_format('{"type":"object"}')


def test_a_dialect_without_a_short_name_gets_one() -> None:
    assert form_of(SimpleNamespace(name="x")) == "a block in the format shown above"
    assert form_of(SimpleNamespace(name="x", form="an X")) == "an X"

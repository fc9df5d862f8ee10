import pytest

from pipeline.refusals.corrections import QUOTE_CHARS, correction_message
from pipeline.turn import Correction
from pipeline.verdicts import Cause

BLOCK = '```json action\n{"tool": "read_file", "parameters": {"path": "a"}}\n```'
TOOLS = ("read_file", "write_file")
CAUSES = (Cause.REFUSAL, Cause.SOFT_REFUSAL, Cause.MISSING_CALL, Cause.WRONG_TOOL, Cause.MALFORMED, Cause.EMPTY)
OVERRIDES = ("ignore", "forget", "disregard", "override", "previous instructions", "system:", "json only", "only json", "###")


@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_names_the_tools_shows_a_block_and_overrides_nothing(cause, neutral):
    text = correction_message(Correction(cause=cause, number=1, neutral=neutral), block=BLOCK, tools=TOOLS)
    assert BLOCK in text
    assert "read_file" in text and "write_file" in text
    assert "block" in text
    lowered = text.replace(BLOCK, "").lower()
    assert not [phrase for phrase in OVERRIDES if phrase in lowered]


def test_every_cause_has_a_wording_of_its_own():
    texts = {correction_message(Correction(cause=cause, number=1), block="", tools=TOOLS) for cause in CAUSES}
    assert len(texts) == len(CAUSES)


def test_first_correction_demands_and_neutral_one_informs():
    firm = correction_message(Correction(cause=Cause.REFUSAL, number=1), block="", tools=TOOLS)
    neutral = correction_message(Correction(cause=Cause.REFUSAL, number=2, neutral=True), block="", tools=TOOLS)
    assert "must" in firm and "no explanation" in firm
    assert "must" not in neutral


def test_named_tool_is_the_only_one_named():
    text = correction_message(Correction(cause=Cause.WRONG_TOOL, number=1, tool="write_file"), block="", tools=TOOLS)
    assert "write_file" in text and "read_file" not in text


def test_malformed_block_is_quoted_with_its_fault():
    correction = Correction(
        cause=Cause.MALFORMED, number=1, discarded='```json action\n{"tool": x\n```', fault="no value, line 2, column 10"
    )
    text = correction_message(correction, block=BLOCK, tools=TOOLS)
    assert "What is wrong: no value, line 2, column 10." in text
    assert '> {"tool": x' in text


def test_quote_is_bounded_and_keeps_both_ends():
    discarded = "BEGIN" + "x" * 100_000 + "END"
    text = correction_message(Correction(cause=Cause.MALFORMED, number=1, discarded=discarded), block="", tools=TOOLS)
    assert len(text) < QUOTE_CHARS + 1000
    assert "BEGIN" in text and "END" in text and "98808 characters left out" in text


def test_only_a_malformed_block_is_quoted():
    text = correction_message(Correction(cause=Cause.REFUSAL, number=1, discarded="I have no tools at all."), block="", tools=TOOLS)
    assert "no tools at all" not in text


def test_long_tool_lists_are_cut():
    text = correction_message(Correction(cause=Cause.REFUSAL, number=1), block="", tools=tuple(f"t{i}" for i in range(40)))
    assert "t14 and 25 more" in text and "t15," not in text


def test_plain_answer_is_offered_only_where_it_would_do():
    for neutral in (False, True):
        allowed = Correction(cause=Cause.EMPTY, number=1, answer_allowed=True, neutral=neutral)
        assert "final answer" in correction_message(allowed, block="", tools=TOOLS)
        assert "final answer" not in correction_message(Correction(cause=Cause.EMPTY, number=1, neutral=neutral), block="", tools=TOOLS)

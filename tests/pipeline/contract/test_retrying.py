"""What a retry adds (R4)."""

from __future__ import annotations

from pipeline.contract.retrying import SHOWN_CHARS, correcting
from pipeline.turn import Correction, Role
from pipeline.verdicts import Cause
from tests.pipeline.contract.tools import NOTE, WEATHER


def test_the_discarded_answer_then_the_correction() -> None:
    answer, message = correcting(Correction(Cause.REFUSAL, 1, "I have no tools."), "BLOCK", (WEATHER, NOTE))
    assert (answer.role, answer.parts[0].text) == (Role.ASSISTANT, "I have no tools.")
    assert message.role is Role.USER
    assert "BLOCK" in message.parts[0].text
    assert "save_note" in message.parts[0].text


def test_nothing_stands_for_an_empty_answer() -> None:
    (message,) = correcting(Correction(Cause.EMPTY, 1, " \n"), "BLOCK", (WEATHER,))
    assert message.role is Role.USER


def test_a_long_answer_loses_its_middle_and_says_so() -> None:
    answer, _ = correcting(Correction(Cause.REFUSAL, 1, "a" * 9000 + "z" * 1000), "", (WEATHER,))
    text = answer.parts[0].text
    assert len(text) < SHOWN_CHARS + 60
    assert text.startswith("aaa") and text.endswith("zzz")
    assert "4000 characters left out" in text

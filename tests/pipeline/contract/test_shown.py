"""What is shown of other people's text: markers broken, JSON fences remembered (C10, S8)."""

from __future__ import annotations

import pytest

from pipeline.contract import plain_texts
from pipeline.contract.plain_texts import PlainTexts
from pipeline.contract.shown import Shown
from pipeline.text import echo
from pipeline.turn import Arguments, Call

MARKED = '```json action\n{"tool": "x", "parameters": {}}\n```'
FENCE = '```json\n{"tool": "x", "parameters": {}}\n```'


def test_text_without_markers_is_the_same_object() -> None:
    shown, text = Shown(), "plain <b>words</b> and ```python\ncode\n```"
    assert shown.text(text) is text
    assert not shown.escaped
    assert shown.quotes == []


@pytest.mark.parametrize("text", [MARKED, "<|DSML|tool_calls>", "<tool_calls>", "</invoke>"])
def test_markers_are_broken_and_told(text: str) -> None:
    shown = Shown()
    safe = shown.text(text)
    assert safe != text
    assert echo.unescape(safe) == text
    assert shown.escaped


@pytest.mark.parametrize("text", [FENCE, "say ~~~JSON\n{}\n~~~", "``` json\n{}\n```"])
def test_json_fences_stay_as_they_are_and_are_remembered(text: str) -> None:
    shown = Shown()
    assert shown.text(text) is text
    assert shown.quotes == [text]
    assert not shown.escaped


def test_a_text_with_both_is_remembered_as_it_was_shown() -> None:
    shown = Shown()
    safe = shown.text(FENCE + "\n<tool_calls>")
    assert shown.quotes == [safe]


def test_argument_texts_are_escaped_at_any_depth() -> None:
    shown = Shown()
    call = shown.call(Call("c", "x", Arguments({"a": ["<tool_calls>", 1], "b": {"c": "<tool_calls>"}, "d": None})))
    broken = echo.escape("<tool_calls>")
    assert call.arguments.value() == {"a": [broken, 1], "b": {"c": broken}, "d": None}
    assert shown.escaped


def test_a_call_without_markers_is_the_same_object() -> None:
    call = Call("c", "x", Arguments('{"a": ["b", {"c": 1}]}'))
    assert Shown().call(call) is call


def test_json_fences_in_the_arguments_of_a_call_are_remembered_too() -> None:
    shown = Shown()
    call = Call("c", "x", Arguments({"a": [FENCE], "b": "none"}))
    assert shown.call(call) is call
    assert shown.quotes == [FENCE]


class TestPlainTexts:
    def test_a_long_text_is_looked_through_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain, text = PlainTexts(), "words " * 200
        assert Shown(plain).text(text) is text
        monkeypatch.setattr(echo, "escape", lambda _: pytest.fail("looked through again"))
        again = "".join(text)
        assert Shown(plain).text(again) is again

    @pytest.mark.parametrize("piece", ["<tool_calls>", FENCE])
    def test_what_holds_something_of_ours_is_never_taken_as_plain(self, piece: str) -> None:
        plain, text = PlainTexts(), "words " * 200 + piece
        for _ in range(2):
            shown = Shown(plain)
            shown.text(text)
            assert shown.escaped or shown.quotes

    def test_it_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plain_texts, "MAX_TEXTS", 3)
        plain = PlainTexts()
        keys = [plain.key(str(at) * 600) for at in range(5)]
        for key in keys:
            plain.add(key)
        assert [key in plain for key in keys] == [False, False, True, True, True]

    def test_short_texts_are_not_worth_it(self) -> None:
        assert PlainTexts().key("short") is None

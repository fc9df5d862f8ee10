"""Echo escaping: markers break, everything else stays, and it comes back byte for byte (C10)."""

from __future__ import annotations

import random

import pytest

from pipeline.text.echo import Unescaper, escape, unescape

FRAGMENTS = (
    *("<", "|", "DSML", "¬", "tool_calls", "invoke", "parameter", "function_calls", ">", " ", "x", "/", "```", "json action", "json "),
    *(
        "action",
        "~~~",
        "\n",
        "＜",
        "_",
        "\u200b",
        "tоol_calls",
        "ｄＳＭＬ",
        "T",
        "OOL_CALLS",
        "-",
        "`",
        "<|DSML|",
        "<|DSML|¬tool_calls",
        "<¬invoke ",
    ),
)


def texts(count: int, most: int):
    source = random.Random(5)
    for _ in range(count):
        yield "".join(source.choice(FRAGMENTS) for _ in range(source.randrange(most)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<|DSML|tool_calls>", "<|DSML|¬tool_calls>"),
        ("</|DSML|invoke>", "</|DSML|¬invoke>"),
        ('<invoke name="x">', '<¬invoke name="x">'),
        ("</parameter>", "</¬parameter>"),
        ("<｜DSML｜function_calls>", "<｜DSML｜¬function_calls>"),
        ("＜dsml_tool_calls>", "＜dsml_¬tool_calls>"),
        ("<tоol_calls>", "<¬tоol_calls>"),
        ("<|DSML|¬tool_calls>", "<|DSML|¬¬tool_calls>"),
        ("```json action\n", "```json ¬action\n"),
        ("~~~~JSON  Action", "~~~~JSON  ¬Action"),
    ],
)
def test_markers_break_before_their_keyword(text, shown):
    assert escape(text) == shown
    assert unescape(shown) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "a < b",
        "<b>bold</b>",
        "<tool_calls_log>",
        "<invoker>",
        "<function_calls>",
        "```json\n{}\n```",
        "```python",
        "¬ not ¬¬",
        "<¬b>",
    ],
)
def test_text_without_a_marker_is_the_same_object(text):
    assert escape(text) is text
    assert unescape(text) is text


def test_it_is_one_to_one():
    for text in texts(4000, 9):
        assert unescape(escape(text)) == text


def test_pieces_are_unescaped_as_the_whole_is():
    source = random.Random(9)
    for text in texts(3000, 10):
        for whole in (text, escape(text)):
            unescaper = Unescaper()
            out = []
            at = 0
            while at < len(whole):
                size = source.randrange(1, 5)
                out.append(unescaper.feed(whole[at : at + size]))
                at += size
                assert len("".join(out)) + unescaper.held >= len(unescape(whole[:at])) - 1
            out.append(unescaper.flush())
            assert "".join(out) == unescape(whole), (whole, out)


def test_nothing_is_held_without_an_escape():
    unescaper = Unescaper()
    assert unescaper.feed("a <|DSML|") == "a <|DSML|"
    assert unescaper.held == 0
    assert unescaper.feed("¬tool") == ""
    assert unescaper.held == 5
    assert unescaper.feed("box") == "¬toolbox"

"""The grammar builds what the laws need: every kind of thing, often, and simple things from few bytes."""

from __future__ import annotations

import random

from pipeline import json_values
from pipeline.testing import grammar, laws, written
from pipeline.testing.dice import Dice


class Brackets:
    name = "brackets"
    markers = ("[[call",)

    def describe(self, tools, example):
        return ""

    def render_calls(self, calls):
        return "".join(f"[[call {call.name} {call.arguments.text()}]]" for call in calls)


def thrown(number: int, size: int = 120) -> Dice:
    return Dice(random.Random(number).randbytes(size))


def test_no_bytes_build_the_simplest_things():
    assert grammar.hostile_text(Dice(b""), [Brackets()]) == ""
    assert grammar.arguments(Dice(b"")) == {}
    assert grammar.plain_prose(Dice(b"")) == ""
    assert len(grammar.calls(Dice(b""))) == 1


def test_the_same_bytes_build_the_same_things():
    for number in range(50):
        first, second = (grammar.hostile_text(thrown(number), [Brackets()], written.FRAGMENTS, (written.dsml,)) for _ in range(2))
        assert first == second


def test_arguments_survive_json_and_hold_every_kind_of_value():
    kinds = set()
    for number in range(400):
        value = grammar.arguments(thrown(number))
        assert laws.canonical(json_values.dumps(value)) == laws.canonical(grammar.call("x", value).arguments.text())
        kinds |= {type(item) for item in value.values()}
    assert kinds == {str, int, float, bool, type(None), list, dict}


def test_texts_hold_whole_blocks_damaged_ones_and_marks():
    texts = [
        grammar.hostile_text(thrown(number), [Brackets()], written.FRAGMENTS, (written.dsml, written.json_action)) for number in range(300)
    ]
    assert sum("[[call " in text and "]]" in text for text in texts) > 30
    assert sum("tool_calls" in text for text in texts) > 60
    assert sum("json action" in text for text in texts) > 60
    assert sum("\n" in text for text in texts) > 150
    assert any("\ud800" <= ch <= "\udfff" for text in texts for ch in text)


def test_schemas_come_with_every_value():
    for number in range(100):
        calls, tools = grammar.declared_calls(thrown(number))
        assert [call.name for call in calls] == [tool.name for tool in tools]
        for call, tool in zip(calls, tools, strict=True):
            assert set(tool.parameters["properties"]) == set(call.arguments.value() or {})


def test_plain_words_hold_no_mark():
    for number in range(100):
        words = grammar.plain_prose(thrown(number))
        assert not set(words) & set("<`~[{\"'\\>|&\n＜")
        assert words == words.strip()

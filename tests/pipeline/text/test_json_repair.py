"""A JSON value is read strictly first, then with narrow repairs; nothing is invented (S7)."""

from __future__ import annotations

import pytest

from pipeline.text.json_repair import UnreadableError, in_order, read
from pipeline.verdicts import Repair


def test_strict_json_is_read_as_it_is():
    assert read('{"a": 12345678901234567890, "b": "x"}') == ({"a": 12345678901234567890, "b": "x"}, [])


def test_repairs_come_in_the_order_of_the_rule():
    value, repairs = read('{“a”: "x\ny", "b": True, "c": "q "i" q",}')
    assert value == {"a": "x\ny", "b": True, "c": 'q "i" q'}
    assert repairs == [Repair.CONTROL_CHARACTERS, Repair.SMART_QUOTES, Repair.TRAILING_COMMA, Repair.PYTHON_LITERALS, Repair.INNER_QUOTES]
    assert in_order([Repair.TAG_NOISE, Repair.INNER_QUOTES, Repair.TAG_NOISE]) == [Repair.INNER_QUOTES, Repair.TAG_NOISE]


@pytest.mark.parametrize(
    ("text", "value"), [('{"a": {"b": "x"', {"a": {"b": "x"}}), ('{"a": [1, "b"\n', {"a": [1, "b"]}), ('{"a": 1', {"a": 1})]
)
def test_closing_brackets_are_added_only_when_told_that_they_are_missing(text, value):
    assert read(text, unclosed=True) == (value, [Repair.MISSING_BRACKETS])
    with pytest.raises(UnreadableError, match="not complete"):
        read(text)


@pytest.mark.parametrize("text", ['{"a": "x', '{"a":', '{"a": 1,', "{"])
def test_half_a_value_stays_half(text):
    with pytest.raises(UnreadableError):
        read(text, unclosed=True)


def test_nesting_too_deep_is_refused():
    with pytest.raises(UnreadableError):
        read("[" * 100_000 + "]" * 100_000)

"""Whole texts against a regex grammar: the Responses API takes the syntax of Rust's regex crate (CR03)."""

from __future__ import annotations

import pytest

from pipeline.testing.growth import growth
from pipeline.text.regex_grammar import regex_grammar


@pytest.mark.parametrize(
    ("definition", "text", "fits"),
    [
        ("[0-9]+|none", "42", True),
        ("[0-9]+|none", "none", True),
        ("[0-9]+|none", "42 or so", False),
        ("[0-9]+|none", "about none", False),
        ("[0-9]+", "42\n", False),
        ("", "", True),
        (r"a.b", "a\rb", True),
        (r"a.b", "a\u2028b", True),
        (r"a.b", "a\nb", False),
        (r"a\.b", "axb", False),
        (r"a[.]b", "axb", False),
        (r"a[^].]b", "a.b", False),
        (r"[\s\S]*", "a\nb", True),
        (r"(?:x|y)+(?P<end>z)", "xyz", True),
        (r"(?P<month>jan|feb) \d{1,2}(st|nd)? at \d+(AM|PM)", "feb 2nd at 5PM", True),
    ],
)
def test_a_whole_text_fits_or_does_not(definition: str, text: str, fits: bool):
    grammar = regex_grammar(definition)
    assert grammar is not None and grammar(text) is fits


@pytest.mark.parametrize(
    "definition", ["[unclosed", "(?=ahead)x", "(?s).*", "a(?i:b)", "(?-u)x", "a{1000}{1000}{1000}", "a" * 65_537, "\\"]
)
def test_what_is_not_understood_is_not_judged(definition: str):
    assert regex_grammar(definition) is None


def test_no_pattern_backtracks():
    grammar = regex_grammar("(a+)+b")
    assert grammar is not None
    assert growth(lambda size: "a" * size, grammar, 20_000, 8) < 3


@pytest.mark.parametrize("unit", ["[", "[^", "[\\\\", "(?i"])
@pytest.mark.parametrize("tail", ["", "\\"])
def test_a_definition_is_read_in_proportion(unit: str, tail: str):
    assert growth(lambda size: unit * (size // len(unit)) + tail, regex_grammar.__wrapped__, 4_000, 8, rounds=1) < 4

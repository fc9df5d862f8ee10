"""The estimate of tokens (X42)."""

import pytest

from pipeline.text.tokens import estimate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("жжжж", 2),
        ("猫", 1),
        ("猫猫猫", 3),
        ("\U0001f600", 2),
        ("ab猫cd", 2),
        ("abcd猫жж\U0001f600", 5),
        ("\ud800", 1),
    ],
)
def test_each_width_of_character_has_its_weight(text, tokens):
    assert estimate(text) == tokens


def test_it_is_near_what_a_tokenizer_counts_for_real_tool_lists():
    # 81.0 kB of tool definitions are 18,644 tokens, 16.5 kB are 3,397, as measured on two agents.
    assert 18_644 <= estimate("x" * 81_000) <= 18_644 * 1.15
    assert 3_397 <= estimate("x" * 16_500) <= 3_397 * 1.25

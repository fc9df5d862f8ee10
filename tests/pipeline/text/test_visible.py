"""What counts as nothing to see."""

from __future__ import annotations

import unicodedata

import pytest

from pipeline.text.visible import visible


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b\u200b", "\u2060\ufeff", "\u00ad\u200e \u3000", "\ufe0f", "\u3164", "\x00", "\U000e0041"]
)
def test_nothing_can_be_seen(text):
    assert not visible(text)


@pytest.mark.parametrize("text", ["a", ".", "\u200b0", "答", "🌱\ufe0f", "`", "\ufffd", "\u0301"])
def test_something_can_be_seen(text):
    assert visible(text)


def test_no_control_or_format_character_can_be_seen_alone():
    # Signs that Unicode files under formats but draws: Arabic and Kaithi number marks, hieroglyph joiners, shorthand.
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13460), *range(0x1BCA0, 0x1BCA4)}
    wrong = [
        code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf") and visible(chr(code)) and code not in drawn
    ]
    assert wrong == []

from __future__ import annotations

import pytest

from pipeline.text import marker_check
from pipeline.text.marker_check import MarkerCheck

BOTH = ("json_action", "dsml")


def found(text: str, size: int = 0) -> str | None:
    check = MarkerCheck(BOTH)
    size = size or len(text) or 1
    for at in range(0, len(text), size):
        check.feed(text[at : at + size])
    return check.close()


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("plain words, `code` and <b>tags</b>", None),
        ('so:\n```json action\n{"tool": "x"', "json_action"),
        ('so: ```JSON Action\n{"tool": "x"', "json_action"),
        ("~~~json action\n{", "json_action"),
        ('<|DSML|invoke name="x">', "dsml"),
        ("<｜DSML｜tool_calls>", "dsml"),
        ("<tool_calls>\n", "dsml"),
        ("the tag `<tool_calls>` opens it", None),
        ("```xml\n<tool_calls>\n```\nthat was an example", None),
        ("```xml\n<tool_calls>\n```\n<tool_calls>", "dsml"),
        ("~~~~\n```json action\n~~~\n~~~~\n", None),
        ("```\n<tool_calls>", None),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_markers_outside_code(text, dialect, size):
    assert found(text, size) == dialect


def test_unknown_dialects_have_no_markers():
    check = MarkerCheck(("hermes",))
    check.feed("<tool_calls>")
    assert check.close() is None


def test_long_texts_are_looked_at_in_portions_and_fences_reach_across(monkeypatch):
    monkeypatch.setattr(marker_check, "_LOOK_AFTER", 40)
    inside = "```\n" + "a line of code\n" * 20 + "<tool_calls>\n```\n"
    assert found(inside, 7) is None
    assert found(inside + "more\n" * 20 + "<tool_calls>", 7) == "dsml"
    check = MarkerCheck(BOTH)
    for _ in range(100):
        check.feed("words without a line break ")
        assert check._size < 80

"""Echo escaping is one to one, and undoing it piece by piece is undoing it whole (C10)."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.testing import grammar, laws, written
from pipeline.testing.strategies import built, cuts
from pipeline.text import echo
from pipeline.text.letters import ESCAPE

PROFILE = settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
DIALECTS = (JsonAction(), Dsml())
MARKED = (
    *(f"<|DSML|{ESCAPE * count}tool_calls>" for count in range(3)),
    *(f"</{ESCAPE * count}invoke>" for count in range(3)),
    *(f"```json {ESCAPE * count}action" for count in range(3)),
    ESCAPE,
    ESCAPE * 2,
    "<|DSML|",
    "<",
    "</",
    "```json ",
    "tool_calls",
    "tool_calls>",
    "param",
    "action",
    "act",
    "invoke",
    "functions",
)


def marked_text():
    return built(lambda dice: grammar.hostile_text(dice, DIALECTS, MARKED * 3 + written.FRAGMENTS, (written.dsml, written.json_action)))


@PROFILE
@given(marked_text())
def test_escaping_is_one_to_one(text):
    assert echo.unescape(echo.escape(text)) == text


@PROFILE
@given(marked_text())
def test_escaping_adds_escapes_and_nothing_else(text):
    assert echo.escape(text).replace(ESCAPE, "") == text.replace(ESCAPE, "")
    if ESCAPE not in text:
        assert echo.escape(echo.escape(text)).count(ESCAPE) == 2 * echo.escape(text).count(ESCAPE)


@PROFILE
@given(marked_text(), cuts())
def test_undoing_it_piece_by_piece_is_undoing_it_whole(text, at):
    for one in (text, echo.escape(text)):
        for parts in (list(one), laws.split_at(one, at)):
            unescaper = echo.Unescaper()
            fed = out = 0
            shown = []
            for part in parts:
                shown.append(unescaper.feed(part))
                fed += len(part)
                out += len(shown[-1])
                assert unescaper.held <= fed - out
            shown.append(unescaper.flush())
            assert "".join(shown) == echo.unescape(one)

"""CPU time grows with the input and no faster: sizes are compared with each other, so the machine does not matter (S14).

Here eight times the size with a wide margin, cheap enough for every run: linear work gives about 1, quadratic work 8. A first look compares
16 KB with 128 KB, once; what looks bad there is measured well, at 32 KB and 256 KB.
`tests/bench/sieve.py --growth` measures 64 KB against 1 MB against the margin of 1.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.events import CallDone
from pipeline.sieve.sieve import Sieve
from pipeline.testing import inputs, laws
from pipeline.testing.growth import growth
from pipeline.text.markdown import Markdown, Stop, first_of
from pipeline.turn import Tool

FIRST_LOOK = 16 << 10
SMALL = 32 << 10
TIMES = 8
MOST = 2.5
DIALECTS = (JsonAction(), Dsml())
WRITTEN = {
    "prose": inputs.prose,
    "noisy prose": inputs.noisy_prose,
    **{f"long {dialect.name}": lambda size, dialect=dialect: inputs.long_call(dialect, size) for dialect in DIALECTS},
    **{f"open {dialect.name}": lambda size, dialect=dialect: inputs.long_call(dialect, size)[:size] for dialect in DIALECTS},
    **{f"small {dialect.name}": lambda size, dialect=dialect: inputs.small_calls(dialect, size) for dialect in DIALECTS},
}


def consume(text: str, size: int) -> None:
    laws.run(Sieve(DIALECTS, ParserOptions()), laws.pieces(text, size))


def check(make: Callable[[int], str], size: int) -> None:
    grown = growth(make, lambda text: consume(text, size), FIRST_LOOK, TIMES, rounds=1)
    if grown > MOST:
        grown = growth(make, lambda text: consume(text, size), SMALL, TIMES, rounds=3)
    assert grown <= MOST, f"{grown:.2f} times the CPU per character at {TIMES} times the size"


@pytest.mark.parametrize("size", [1, 20, 1 << 30], ids=["characters", "pieces", "whole"])
@pytest.mark.parametrize("name", WRITTEN)
def test_what_models_write_costs_in_proportion(name, size):
    check(WRITTEN[name], size)


@pytest.mark.parametrize("size", [20, 1 << 30], ids=["pieces", "whole"])
@pytest.mark.parametrize("name", inputs.HOSTILE)
def test_what_is_made_to_hurt_costs_in_proportion(name, size):
    check(inputs.HOSTILE[name], size)


_NOPE = '{"tool": "nope", "parameters": {}'


@pytest.mark.parametrize(
    "make",
    [
        inputs.behind("```json action\n[", _NOPE + "}, ", '{"tool": "ping", "parameters": {}}]\n```'),
        inputs.behind("```json action\n", _NOPE + "}\n", '{"tool": "ping", "parameters": {}}\n```'),
        inputs.behind("```json action\n", f"[{_NOPE}]", '{"tool": "ping", "parameters": {}}\n```'),
    ],
    ids=["array", "objects", "arrays without a brace"],
)
def test_undeclared_calls_among_good_ones_cost_in_proportion(make):
    options = ParserOptions(tools=(Tool(name="ping"),), unknown_tools="text")

    def whole(size: int) -> str:
        text = make(size)
        cut = text.index('{"tool": "ping"')
        return text[: text.rindex(_NOPE, 0, cut)] + text[cut:]

    def work(text: str) -> None:
        assert len([event for event in laws.run(Sieve(DIALECTS, options), [text]) if isinstance(event, CallDone)]) == 1

    grown = growth(whole, work, FIRST_LOOK, TIMES, rounds=1)
    if grown > MOST:
        grown = growth(whole, work, SMALL, TIMES, rounds=3)
    assert grown <= MOST, f"{grown:.2f} times the CPU per character at {TIMES} times the size"


@pytest.mark.parametrize("name", ["escaped backticks behind open runs", "closing runs in open runs"])
def test_a_run_costs_the_same_however_many_are_open(name):
    # As many lengths as can be open are but the root of the size: the scanner alone, and far larger sizes, show what the whole sieve hides.
    grown = growth(inputs.HOSTILE[name], scan, FIRST_LOOK, 4 * TIMES)
    assert grown <= MOST, f"{grown:.2f} times the CPU per character at {4 * TIMES} times the size"


def scan(text: str) -> None:
    markdown = Markdown(re.compile("(?P<whole>(?!))"), first_of("<"))
    while markdown.scan(text, markdown.at) is Stop.RUN:
        markdown.take_run()


@pytest.mark.parametrize("name", inputs.HOSTILE)
def test_what_is_made_to_hurt_keeps_the_laws(name):
    text = inputs.HOSTILE[name](3000)
    whole = laws.run(Sieve(DIALECTS, ParserOptions()), [text])
    laws.check_run(text, whole)
    for size in (1, 2, 3, 7, 20):
        laws.check_same(text[:200], whole, laws.run(Sieve(DIALECTS, ParserOptions()), laws.pieces(text, size)), f"pieces of {size}")


@pytest.mark.parametrize("unit", ["[", '{"a":', "<i>", "(", "[{", '["', "<item>"])
@pytest.mark.parametrize(
    "frame",
    [
        ('```json action\n{"tool": "x", "parameters": {"a": ', "}}\n```"),
        ('```json\n{"tool": "x", "parameters": {"a": ', "}}\n```"),
        ('<tool_calls><invoke name="x"><parameter name="a">', "</parameter></invoke></tool_calls>"),
        ('<tool_calls><invoke name="x">{"a": ', "}</invoke></tool_calls>"),
    ],
)
def test_any_depth_is_read_or_refused_without_an_error(frame, unit):
    closer = {"[": "]", '{"a":': "}", "<i>": "</i>", "(": ")", "[{": "}]", '["': '"]', "<item>": "</item>"}[unit]
    for depth in (500, 50_000):
        text = frame[0] + unit * depth + "1" + closer * depth + frame[1]
        laws.check_run(text, laws.run(Sieve(DIALECTS, ParserOptions()), [text]))

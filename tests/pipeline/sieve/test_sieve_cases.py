"""Every case of `tests/cases/sieve.jsonl`, however its text is cut: the same events, the expected text, calls and reasoning.

Text is compared with white space collapsed, arguments as strictly typed JSON, order counts. `alt` lists other right outcomes; the one that
came out must come out at every cut. `TOOLGRAFT_ALL_SPLITS=1` tries every split point of the long cases as well.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.sieve.reading import parse
from pipeline.testing import laws
from pipeline.turn import Tool

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "sieve.jsonl").read_text(encoding="utf-8").splitlines()]
DIALECTS = load(("json_action", "dsml"))
CONTRADICTS_SPEC: dict[str, str] = {}
"""Cases that SPEC decides otherwise: id -> the rule. There is none."""
LONG = 4096
STRUCTURE = re.compile(r"[`~<>{}\[\]]")


def tools_of(case) -> tuple[Tool, ...]:
    functions = [entry.get("function", entry) for entry in case["tools"] or []]
    return tuple(
        Tool(name=one["name"], description=one.get("description", ""), parameters=one.get("parameters") or {}) for one in functions
    )


def told(text: str, calls) -> tuple[str, list[tuple[str, str]]]:
    return " ".join(text.split()), [(name, json.dumps(arguments, sort_keys=True, ensure_ascii=False)) for name, arguments in calls]


def outcomes(case):
    yield told(case["text"], [(call["name"], call["arguments"]) for call in case["calls"]])
    for other in case.get("alt", ()):
        yield told(other["expected_text"], [(call["name"], call["arguments"]) for call in other["expected_calls"]])


def split_points(text: str) -> list[int]:
    if len(text) <= LONG or os.environ.get("TOOLGRAFT_ALL_SPLITS"):
        return list(range(1, len(text)))
    near = {at for found in STRUCTURE.finditer(text) for at in range(found.start() - 32, found.end() + 33)}
    chance = random.Random(7)
    near.update(chance.randrange(1, len(text)) for _ in range(500))
    return sorted(at for at in near if 0 < at < len(text))


def ways(case):
    text = case["input"]
    yield [text]
    yield list(text)
    for size in (2, 3, 7, 20):
        yield laws.pieces(text, size)
    if "chunks" in case:
        yield case["chunks"]
    for at in split_points(text):
        yield [text[:at], text[at:]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case):
    text = case["input"]
    options = ParserOptions(tools=tools_of(case), wide=case.get("tolerance") == "wide")
    whole = parse(text, DIALECTS, options)
    got = told(whole.text, [(call.name, json.loads(call.arguments)) for call in whole.calls])
    if case["id"] in CONTRADICTS_SPEC:
        assert got not in list(outcomes(case)), f"{case['id']} agrees with SPEC now"
    else:
        assert got in list(outcomes(case))
    if "reasoning" in case:
        assert " ".join(whole.reasoning.split()) == " ".join(case["reasoning"].split())
    laws.check_run(text, whole.events)
    for pieces in ways(case):
        events = parse(text, DIALECTS, options, pieces=pieces).events
        laws.check_same(text, whole.events, events, str([len(piece) for piece in pieces][:40]))


def test_no_case_is_missing():
    assert len(CASES) == 245
    assert len({case["id"] for case in CASES}) == 245

"""An undeclared call among good ones in one fence: its object alone stays text, the rest of the fence belongs to the block (S2, S3, S9)."""

from __future__ import annotations

import pytest

from pipeline.dialects.options import ParserOptions
from pipeline.sieve.reading import parse
from pipeline.testing import laws
from tests.pipeline.dialects.reading import DIALECTS, TOOLS, calls_of, read

SAVE = '{"tool": "save", "parameters": {"path": "a ] } b"}}'
SAVED = ("save", {"path": "a ] } b"})
ZZZ = '{"tool": "zzz", "parameters": {"a": [{}]}}'
YYY = '{"tool": "yyy", "parameters": {}}'
BODIES = {
    "behind a call": (f"[{SAVE},{ZZZ}]", 1, ZZZ),
    "before a call": (f"[{ZZZ},{SAVE}]", 1, ZZZ),
    "between calls": (f"[ {SAVE} ,\n {ZZZ} ,\n {SAVE} ]", 2, ZZZ),
    "two of them": (f"[{ZZZ}, {SAVE}, {YYY}]", 1, ZZZ + YYY),
    "apart, behind": (f"{SAVE}\n{ZZZ}", 1, ZZZ),
    "apart, before": (f"{ZZZ}\n{SAVE}", 1, ZZZ),
    "apart, between": (f"{SAVE}\n{ZZZ}\n{SAVE}", 2, ZZZ),
    "with a comma": (f"{SAVE},\n{ZZZ}", 1, ZZZ),
    "array and object": (f"[{SAVE}]\n{ZZZ}", 1, ZZZ),
    "object and array": (f"{ZZZ}[{SAVE}]", 1, ZZZ),
    "arrays": (f"[{ZZZ}]\n[{SAVE}]", 1, ZZZ),
    "array not closed": (f"[{SAVE}, {ZZZ}", 1, ZZZ),
    "array and object not closed": (f"[{SAVE}, {ZZZ[:-1]}", 1, ZZZ[:-1]),
    "object closed by the array": (f"[{SAVE}, {ZZZ[:-1]}]", 1, ZZZ[:-1]),
    "object closed by the array, spaced": (f"[{SAVE}, {ZZZ[:-1]} \n]", 1, ZZZ[:-1]),
    "apart, not closed": (f"{SAVE}\n{ZZZ[:-1]}", 1, ZZZ[:-1]),
    "trailing comma": (f"[{SAVE}, {ZZZ},]", 1, ZZZ),
    "smart quotes": (f"[{SAVE}, {{“tool”: “zzz”, “parameters”: {{}}}}]", 1, "{“tool”: “zzz”, “parameters”: {}}"),
}
FENCES = {"lines": ("```json action\n", "\n```"), "one line": ("```json action ", " ```"), "tildes": ("~~~~json action\n", "\n~~~~~")}


@pytest.mark.parametrize("policy", ["text", "retry"])
@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("body", BODIES)
def test_only_the_object_stays_text(body, fence, policy):
    inside, calls, text = BODIES[body]
    head, foot = FENCES[fence]
    block = head + inside + foot
    alone = read(block, unknown_tools=policy)
    assert (calls_of(alone), alone.text) == ([SAVED] * calls, text)
    assert set(alone.rejected_tool_names) == {name for name in ("zzz", "yyy") if name in text}
    among = read(f"a {block}\nok", unknown_tools=policy)
    assert (calls_of(among), among.text) == ([SAVED] * calls, f"a {text}\nok")


@pytest.mark.parametrize("body", BODIES)
def test_what_stands_behind_it_is_read(body):
    inside, calls, text = BODIES[body]
    behind = f"```json action\n{SAVE}\n```"
    reading = read(f"```json action\n{inside}\n```\n\n{behind}", unknown_tools="text")
    assert (calls_of(reading), reading.text) == ([SAVED] * (calls + 1), text)


@pytest.mark.parametrize("body", BODIES)
def test_without_a_closing_fence(body):
    inside, calls, text = BODIES[body]
    if "not closed" not in body:
        reading = read(f"```json action\n{inside}", unknown_tools="text")
        assert (calls_of(reading), reading.text) == ([SAVED] * calls, text)


@pytest.mark.parametrize(
    "inside", [ZZZ, f"[{ZZZ}]", f"[{ZZZ}, {YYY}]", f"{ZZZ}\n{YYY}", f"{ZZZ}\n[{YYY}]", f"[{ZZZ}", f"[{ZZZ[:-1]}]", f"[{ZZZ}, {YYY[:-1]}"]
)
def test_a_fence_of_nothing_else_stays_text_whole(inside):
    text = f"a ```json action\n{inside}\n```\nok"
    reading = read(text, unknown_tools="text")
    assert (reading.calls, reading.text) == ([], text)
    assert reading.rejected_tool_names == [name for name in ("zzz", "yyy") if name in inside]


@pytest.mark.parametrize("body", [*BODIES, "array", "array of two", "arrays of one", "array without its bracket", "all brackets missing"])
def test_the_spans_cut_the_text_when_arguments_stream(body):
    whole = {
        "array": f"[{SAVE}]",
        "array of two": f"[{SAVE}, {SAVE}]",
        "arrays of one": f"[{SAVE}]\n[{SAVE}]",
        "array without its bracket": f"[{SAVE}",
        "all brackets missing": f"[{SAVE[:-1]}",
    }
    inside, calls, text = BODIES[body] if body in BODIES else (whole[body], whole[body].count("save"), "")
    answer = f"a ```json action\n{inside}\n```\nok"
    options = ParserOptions(tools=TOOLS, unknown_tools="text", stream_arguments=True)
    reading = parse(answer, DIALECTS, options)
    laws.check_run(answer, reading.events)
    assert (calls_of(reading), reading.text) == ([SAVED] * calls, f"a {text}\nok")
    for size in (1, 2, 3, 7, 20):
        laws.check_same(
            answer, reading.events, parse(answer, DIALECTS, options, pieces=laws.pieces(answer, size)).events, f"pieces of {size}"
        )

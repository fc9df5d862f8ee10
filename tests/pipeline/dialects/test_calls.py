"""Names and arguments become calls in one place for all dialects (S9, S10, C10)."""

from __future__ import annotations

import json

import pytest

from pipeline.dialects.calls import Calls, Fault, Found
from pipeline.dialects.options import ParserOptions
from pipeline.text.echo import escape
from pipeline.turn import Tool, ToolKind
from pipeline.verdicts import BlockOutcome, Repair

TOOLS = (
    Tool(name="note"),
    Tool(name="Note"),
    Tool(name="look_up", parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}),
    Tool(name="patch", kind=ToolKind.CUSTOM),
)


def calls(*, unescape=False, **options):
    return Calls(ParserOptions(tools=TOOLS, **options), unescape=unescape)


@pytest.mark.parametrize(
    ("written", "name", "repair"),
    [
        ("note", "note", None),
        ("Note", "Note", None),
        ("look_up", "look_up", None),
        (" look_up ", "look_up", Repair.NAME_CASE),
        ("LOOK_UP", "look_up", Repair.NAME_CASE),
        ("functions.look_up", "look_up", Repair.NAME_PREFIX),
        ("default_api.Look_Up", "look_up", Repair.NAME_PREFIX),
    ],
)
def test_declared_names(written, name, repair):
    found = calls().find(written)
    assert (found.name, found.tool.name, found.repair) == (name, name, repair)


@pytest.mark.parametrize("written", ["NOTE", "mcp.look_up", "ns/tool:v2", "погода", "a.b-c", "functions.nothing", "name", "tool"])
def test_undeclared_names_come_back_verbatim(written):
    assert calls().find(written) == Found(written, None)


@pytest.mark.parametrize("written", ["", "  ", "\n"])
def test_an_empty_name_is_never_a_call(written):
    assert calls().find(written).outcome is BlockOutcome.MALFORMED
    declared = Calls(ParserOptions(tools=(Tool(name=""), Tool(name=" "), Tool(name=written), Tool(name="note"))))
    assert declared.find(written).outcome is BlockOutcome.MALFORMED
    assert isinstance(declared.find("note"), Found)


@pytest.mark.parametrize("written", ["functions.", "tool. "])
def test_a_prefix_alone_names_no_tool(written):
    declared = Calls(ParserOptions(tools=(Tool(name=""), Tool(name=" "))))
    assert declared.find(written) == Found(written, None)


@pytest.mark.parametrize("written", ["TOOL_NAME", "NAME", "...", "<tool_name>", " NAME "])
def test_a_placeholder_is_never_a_call_unless_it_is_declared(written):
    assert calls().find(written).outcome is BlockOutcome.PLACEHOLDER
    declared = Calls(ParserOptions(tools=(Tool(name=written.strip()),)))
    assert isinstance(declared.find(written), Found)


@pytest.mark.parametrize(("policy", "outcome"), [("retry", BlockOutcome.UNKNOWN_TOOL), ("text", BlockOutcome.UNKNOWN_TOOL)])
def test_unknown_tools_can_be_refused(policy, outcome):
    maker = calls(unknown_tools=policy)
    made = maker.make(maker.find("nope"), {}, [])
    assert isinstance(made, Fault)
    assert made.outcome is outcome
    assert calls().make(calls().find("nope"), {"a": 1}, []).arguments == '{"a":1}'


def test_arguments_are_typed_and_the_repairs_are_named():
    repairs = []
    maker = calls()
    made = maker.make(maker.find("functions.look_up"), {"n": "7", "m": "7"}, repairs)
    assert (made.name, json.loads(made.arguments)) == ("look_up", {"n": 7, "m": "7"})
    assert repairs == [Repair.NAME_PREFIX, Repair.VALUE_TYPE]
    assert maker.missing(maker.find("look_up"), {"n": 1}) == ["m"]
    assert maker.missing(maker.find("nope"), {}) == []


def test_what_is_fixed_is_not_typed():
    repairs = []
    made = calls().make(calls().find("look_up"), {"n": "7"}, repairs, fixed={"n"})
    assert json.loads(made.arguments) == {"n": "7"}
    assert not repairs


def test_a_custom_tool_makes_a_custom_call():
    assert calls().make(calls().find("patch"), {"input": "x"}, []).kind is ToolKind.CUSTOM


def test_escapes_are_undone_in_every_string():
    marker = "<|DSML|tool_calls>"
    value = {escape(marker): [escape(marker), {"a": escape(marker), "n": 1}]}
    assert json.loads(calls(unescape=True).make(Found("x", None), value, []).arguments) == {marker: [marker, {"a": marker, "n": 1}]}
    assert json.loads(calls().make(Found("x", None), value, []).arguments) == value


def test_arguments_that_nest_too_deep_are_a_fault_and_no_crash():
    value: object = 1
    for _ in range(5000):
        value = [value]
    made = calls(unescape=True).make(Found("look_up", TOOLS[2]), {"n": value}, [])
    assert isinstance(made, Fault)
    assert made.outcome is BlockOutcome.BAD_ARGUMENTS

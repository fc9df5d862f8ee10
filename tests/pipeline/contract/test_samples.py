"""Example arguments fit the schema they are made from (C1). An independent validator is the judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.samples import sample_arguments
from pipeline.turn import Tool, ToolKind
from tests.pipeline.contract.tools import AGENTS, agent_tools, schema

FITTING = {
    "text": {"type": "string"},
    "enum": {"type": "string", "enum": ["asc", "desc"]},
    "numeric enum": {"enum": [3, 5]},
    "enum with null": {"enum": [None, "x"]},
    "const": {"const": {"a": [1]}},
    "integer": {"type": "integer"},
    "integer from 10": {"type": "integer", "minimum": 10},
    "integer above 10": {"type": "integer", "exclusiveMinimum": 10},
    "integer up to -3": {"type": "integer", "maximum": -3},
    "integer below 0": {"type": "integer", "exclusiveMaximum": 0},
    "multiple": {"type": "integer", "minimum": 7, "multipleOf": 5},
    "number from 0 to 1, open": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "number": {"type": "number", "minimum": 2.5},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "type list": {"type": ["null", "integer"]},
    "array": {"type": "array", "items": {"type": "integer"}},
    "array of three": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    "array of none": {"type": "array", "maxItems": 0},
    "array of numbers, unique": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True},
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
    "object": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "free object": {"type": "object"},
    "anyOf": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 4}]},
    "oneOf": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}, {"type": "null"}]},
    "allOf": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}]},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "uri": {"type": "string", "format": "uri"},
    "uuid": {"type": "string", "format": "uuid"},
    "ipv4": {"type": "string", "format": "ipv4"},
    "long text": {"type": "string", "minLength": 30},
    "short text": {"type": "string", "maxLength": 3},
    "pattern of digits": {"type": "string", "pattern": "^[0-9]+$"},
    "pattern of a path": {"type": "string", "pattern": "^/"},
    "default": {"type": "integer", "default": 30000, "minimum": 1000},
    "default that does not fit": {"type": "integer", "default": "many"},
    "examples": {"type": "string", "examples": ["Ghent"]},
}


@pytest.mark.parametrize("variant", [0, 1, 2])
@pytest.mark.parametrize("value", FITTING.values(), ids=FITTING.keys())
def test_a_sample_fits(value: dict, variant: int) -> None:
    whole = schema(thing=value)
    made = sample_arguments(Tool("t", parameters=whole), variant)
    jsonschema_rs.validator_for(whole, validate_formats=True).validate(made)


def test_a_reference_is_followed() -> None:
    whole = {**schema(step={"$ref": "#/$defs/step"}), "$defs": {"step": schema(km={"type": "integer", "minimum": 2})}}
    assert sample_arguments(Tool("t", parameters=whole)) == {"step": {"km": 2}}


def test_a_schema_that_refers_to_itself_ends() -> None:
    whole = {**schema(node={"$ref": "#/$defs/node"}), "$defs": {"node": schema(child={"$ref": "#/$defs/node"})}}
    made = json.dumps(sample_arguments(Tool("t", parameters=whole)))
    assert len(made) < 200
    assert sample_arguments(Tool("t", parameters={"$ref": "#"})) == {}
    assert sample_arguments(Tool("t", parameters={**schema(a={"$ref": "#/properties/a"})})) == {"a": "sample"}


def test_only_what_is_required_is_given_or_one_argument_where_nothing_is() -> None:
    optional = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert sample_arguments(Tool("t", parameters=optional)) == {"a": 1}
    assert sample_arguments(Tool("t", parameters={**optional, "required": ["b"]})) == {"b": 1}
    assert sample_arguments(Tool("t")) == {}


def test_variants_differ_where_they_can() -> None:
    tool = Tool("t", parameters=schema(city={"type": "string"}))
    assert len({sample_arguments(tool, variant)["city"] for variant in range(3)}) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("file_path", "notes.txt"),
        ("filePath", "notes.txt"),
        ("path_pattern", "total"),
        ("URL", "https://example.com/"),
        ("cityName", "Sample"),
        ("zzz", "sample"),
    ],
)
def test_the_last_known_word_of_a_name_chooses(name: str, text: str) -> None:
    assert sample_arguments(Tool("t", parameters=schema(**{name: {"type": "string"}}))) == {name: text}


def test_a_custom_tool_takes_one_text() -> None:
    assert sample_arguments(Tool("t", kind=ToolKind.CUSTOM)) == {"input": "Hello"}


def test_a_costly_pattern_is_not_run() -> None:
    tool = Tool("t", parameters=schema(a={"type": "string", "pattern": "^(a+)+(b+)+$"}))
    assert sample_arguments(tool) == {"a": "sample"}


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_examples_for_the_tools_of_real_agents_fit(path) -> None:
    tools = agent_tools(path)
    assert tools
    for tool in tools:
        made = sample_arguments(tool)
        if tool.kind is ToolKind.FUNCTION:
            jsonschema_rs.validator_for(dict(tool.parameters)).validate(made)


json_things = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4), st.sampled_from(["string", "object", "array", "#/properties/a"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "required",
                    "enum",
                    "items",
                    "$ref",
                    "anyOf",
                    "allOf",
                    "const",
                    "default",
                    "minimum",
                    "maxItems",
                    "pattern",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(json_things)
@settings(max_examples=400, deadline=None)
def test_no_schema_however_wrong_makes_it_fail(anything: object) -> None:
    made = sample_arguments(Tool("t", parameters={"type": "object", "properties": {"a": anything}, "required": ["a"]}))
    assert json.loads(json.dumps(made)) == made
    if isinstance(anything, dict):
        assert isinstance(sample_arguments(Tool("t", parameters=anything)), dict)


def test_the_same_in_a_process_with_another_hash_seed() -> None:
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.pipeline.contract.tools import AGENTS, agent_tools\n"
        "from pipeline.contract.samples import sample_arguments\n"
        "print([sample_arguments(tool, 1) for path in AGENTS for tool in agent_tools(path)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1

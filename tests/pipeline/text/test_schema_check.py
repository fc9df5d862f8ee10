from __future__ import annotations

import pytest

from pipeline.text.schema_check import fits, misfits

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ({"x": 1}, POINT, True),
        ({"x": 1.5}, POINT, True),
        ({}, POINT, False),
        ({"x": "1"}, POINT, False),
        ({"x": True}, POINT, False),
        ({"x": 1, "y": 2}, POINT, False),
        (None, POINT, False),
        ({"y": 2}, {"additionalProperties": {"type": "string"}}, False),
        ({"y": 2}, {"properties": {}}, True),
        (2.0, {"type": "integer"}, True),
        (2.5, {"type": "integer"}, False),
        (False, {"type": "integer"}, False),
        (None, {"type": ["string", "null"]}, True),
        (1, {"type": ["string", "null"]}, False),
        ("b", {"enum": ["a", "b"]}, True),
        (1, {"enum": [True]}, False),
        (1, {"const": 1}, True),
        (2, {"const": 1}, False),
        ([1, "a"], {"type": "array", "items": {"type": "integer"}}, False),
        ([1, 2], {"type": "array", "items": {"type": "integer"}}, True),
        (1, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, True),
        ([], {"anyOf": [{"type": "string"}, {"type": "integer"}]}, False),
        (1, {"allOf": [{"type": "number"}, {"type": "string"}]}, False),
        ({"p": {"x": 1}}, {"$defs": {"p/q": POINT}, "properties": {"p": {"$ref": "#/$defs/p~1q"}}}, True),
        ({"p": {}}, {"$defs": {"p/q": POINT}, "properties": {"p": {"$ref": "#/$defs/p~1q"}}}, False),
        (1, {"$ref": "#/nowhere"}, True),
        (1, {"$ref": "https://elsewhere"}, True),
        (1, {"$ref": "#"}, True),
        (1, False, False),
        (1, True, True),
        (1, "no schema", True),
        (1, {"type": "unheard of"}, True),
        (1, {"type": 7, "enum": "x", "anyOf": [], "required": 3, "properties": 4}, True),
        ({}, {"required": [3]}, True),
    ],
)
def test_fits(value, schema, expected):
    assert fits(value, schema) is expected


def test_trees_are_followed_and_endless_references_end():
    tree = {
        "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "additionalProperties": False}},
        "$ref": "#/$defs/n",
    }
    assert fits({"next": {"next": {}}}, tree)
    assert not fits({"next": {"next": {"other": 1}}}, tree)
    assert fits(1, {"$ref": "#/a", "a": {"$ref": "#/a"}})
    deep: object = 1
    for _ in range(10_000):
        deep = [deep]
    assert fits(deep, {"$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"})


def test_schemas_that_branch_into_themselves_end_too():
    again = {"$ref": "#"}
    assert not fits(1, {"anyOf": [again, again, {"type": "string"}], "type": "string"})
    assert fits(1, {"anyOf": [{"allOf": [again, again]}, {"allOf": [again, again]}]})


def test_the_parameters_at_fault_are_named_and_nothing_of_their_values():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/number"}, "b": {"type": "string"}, "c": {}},
        "required": ["b", "c"],
        "additionalProperties": False,
        "$defs": {"number": {"type": "integer"}},
    }
    assert misfits({"a": "x", "b": "y", "z": 1}, schema) == ["`c` is missing", "`a` does not fit", "`z` is no parameter"]
    assert misfits({"a": 1, "b": "y", "c": None}, schema) == []
    assert misfits({"z": 1}, {"type": "object", "properties": 5, "required": "b"}) == []
    assert misfits(None, schema) == misfits([1], schema) == []

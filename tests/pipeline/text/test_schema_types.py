"""Lossless typing by schema (S10): from text to the type that is wanted, never the other way, never by guessing."""

from __future__ import annotations

import pytest

from pipeline.text.schema_types import exact_number, fit, fits, item_schema, property_schema, required, types

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, ARRAY, OBJECT = {"type": "boolean"}, {"type": "array"}, {"type": "object"}


@pytest.mark.parametrize(
    ("value", "schema", "typed"),
    [
        ("5", INTEGER, 5),
        (" 5\n", INTEGER, 5),
        ("12345678901234567890123", INTEGER, 12345678901234567890123),
        ("0.5", NUMBER, 0.5),
        ("5", NUMBER, 5),
        ("1e3", NUMBER, 1000.0),
        ("true", BOOLEAN, True),
        ("false", BOOLEAN, False),
        ("null", {"type": ["integer", "null"]}, None),
        ('["a"]', ARRAY, ["a"]),
        ('{"a": 1}', OBJECT, {"a": 1}),
        ("7", {"anyOf": [{"type": "null"}, INTEGER]}, 7),
        ("7", {"oneOf": [INTEGER]}, 7),
        ("7", {"enum": [7, 8]}, 7),
        ("7", {"const": 7}, 7),
        ({"n": "5", "m": "5"}, {"type": "object", "properties": {"n": INTEGER}}, {"n": 5, "m": "5"}),
        (["1", 2, "x"], {"type": "array", "items": INTEGER}, [1, 2, "x"]),
        ('["1"]', {"type": "array", "items": INTEGER}, [1]),
        ({"a": {"b": "1"}}, {"additionalProperties": {"additionalProperties": INTEGER}}, {"a": {"b": 1}}),
        (["1", "1"], {"prefixItems": [STRING, INTEGER]}, ["1", 1]),
    ],
)
def test_text_becomes_what_the_schema_wants(value, schema, typed):
    got = fit(value, schema, schema)
    assert got == typed
    assert type(got) is type(typed)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("5", STRING),
        ("5", {"type": ["string", "integer"]}),
        ("5", {}),
        ("5", {"anyOf": [STRING, INTEGER]}),
        (5, STRING),
        (True, STRING),
        (None, STRING),
        ([1], STRING),
        ("null", STRING),
        ("null", {"type": ["string", "null"]}),
        ("five", INTEGER),
        ("007", INTEGER),
        ("5.5", INTEGER),
        ("-0", INTEGER),
        ("yes", BOOLEAN),
        ("True", BOOLEAN),
        ("0.1000000000000000055511151231257827021181583404541015625", NUMBER),
        ("1e999", NUMBER),
        ("a", ARRAY),
        ("{broken", OBJECT),
        ("9", {"enum": [7, 8]}),
        ("", INTEGER),
        (5.0, INTEGER),
        ("x", {"$ref": "#/nowhere"}),
        ("x", {"$ref": "https://elsewhere.example/schema"}),
    ],
)
def test_what_fits_or_cannot_be_made_to_passes_unchanged(value, schema):
    assert fit(value, schema, schema) is value


def test_references_are_followed_within_the_schema_and_loops_end():
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/a~1b"}, "again": {"$ref": "#"}, "loop": {"$ref": "#/$defs/loop"}},
        "$defs": {"a/b": INTEGER, "loop": {"$ref": "#/$defs/loop"}},
    }
    assert fit({"n": "1", "again": {"n": "2"}, "loop": "3"}, schema, schema) == {"n": 1, "again": {"n": 2}, "loop": "3"}


def test_nothing_changed_is_the_same_object():
    schema = {"type": "object", "properties": {"n": INTEGER, "l": {"type": "array", "items": STRING}}}
    value = {"n": 1, "l": ["a"], "x": "5"}
    assert fit(value, schema, schema) is value


def test_booleans_are_no_numbers():
    assert not fits(True, INTEGER, INTEGER)
    assert not fits(1, {"enum": [True]}, {})
    assert fits(1, NUMBER, NUMBER)
    assert fits(2.0, INTEGER, INTEGER)


def test_what_a_schema_admits():
    assert types({"type": ["string", "null"]}, {}) == {"string", "null"}
    assert types({"type": "number"}, {}) == {"number", "integer"}
    assert types({"type": "string", "nullable": True}, {}) == {"string", "null"}
    assert types({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, {}) == {"integer"}
    assert types({"enum": ["a", None]}, {}) == {"string", "null"}
    assert len(types({}, {})) == len(types({"type": "unheard-of"}, {})) == 7


def test_properties_items_and_what_is_required():
    schema = {"allOf": [{"properties": {"a": INTEGER}, "required": ["a"]}, {"required": ["b", 3]}], "anyOf": [{"required": ["c"]}]}
    assert property_schema(schema, "a", schema) is INTEGER
    assert property_schema(schema, "z", schema) is None
    assert required(schema, schema) == {"a", "b"}
    assert item_schema({"items": STRING}, {}) is STRING
    assert item_schema({"prefixItems": [STRING]}, {}) is None


@pytest.mark.parametrize(
    ("text", "number"), [("0.10", 0.1), ("-1.5e-3", -0.0015), ("1.", None), (".5", None), ("NaN", None), ("1" * 65, None)]
)
def test_exact_numbers(text, number):
    assert exact_number(text) == number


def test_schemas_that_refer_to_themselves_many_times_take_no_time():
    schema = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#/anyOf/2"}]}], "oneOf": [{"$ref": "#"}] * 8}
    assert fit({"a": "5", "b": {"c": ["1"]}}, schema, schema) == {"a": "5", "b": {"c": ["1"]}}
    assert property_schema(schema, "a", schema) is None
    assert required(schema, schema) == set()
    deep = {"$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}, "$ref": "#/$defs/d0"}
    assert fit("5", deep, deep) == "5"

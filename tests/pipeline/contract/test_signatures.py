"""Schemas on one line."""

from __future__ import annotations

import pytest

from pipeline.contract.signatures import signature, type_text
from pipeline.turn import Tool
from tests.pipeline.contract.tools import NOTE, PING, RAW, schema


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"const": 5}, "5"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{[key]: integer}"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, "{a: string, b?: any}"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]}, "string | integer"),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}]}, "{a?: integer}"),
        ({}, "any"),
        (True, "any"),
        ({"enum": list(range(30))}, " | ".join(map(str, range(24))) + " | ... 6 more"),
    ],
)
def test_types(value: object, text: str) -> None:
    assert type_text(value, {}) == text


def test_a_tool() -> None:
    tool = Tool(
        "search", parameters={"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}
    )
    assert signature(tool) == "search(q: string, n?: integer)"
    assert signature(tool, typed=False) == "search(q, n?)"
    assert signature(PING) == "ping()"
    assert signature(RAW) == "apply_patch(input: string)"
    assert signature(NOTE) == "save_note(text: string)"


def test_fields_of_referenced_items_are_seen() -> None:
    step = schema(km={"type": "number"})
    tool = Tool("plan_walk", parameters={**schema(steps={"type": "array", "items": {"$ref": "#/$defs/step"}}), "$defs": {"step": step}})
    assert signature(tool) == "plan_walk(steps: {km: number}[])"


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    tool = Tool("t", parameters={**schema(head={"$ref": "#/$defs/node"}), "$defs": {"node": node}})
    assert signature(tool) == "t(head: {next?: {next?: {next?: {next?: object}}}})"


def test_alternatives_at_the_top() -> None:
    tool = Tool("t", parameters={"anyOf": [schema(a={"type": "integer"}), schema(b={"type": "string"})]})
    assert signature(tool) == "t({a: integer} | {b: string})"

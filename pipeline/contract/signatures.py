"""A schema on one line, as a programmer would write a type: `search(query: string, limit?: integer, order?: "asc" | "desc")`.

In: a tool or a schema. Out: one line of text, deterministic. Promise: never raises, never loops; what is nested too deep to
be short is named by its type alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import json_values
from pipeline.contract import schemas
from pipeline.contract.schemas import Schema
from pipeline.turn import CUSTOM_INPUT, Tool, ToolKind

MAX_DEPTH = 4
MAX_CHOICES = 24
"""Longer enums are cut, and say so."""


def signature(tool: Tool, *, typed: bool = True) -> str:
    """The tool's name with its arguments, optional ones marked with `?`. Without types: names alone."""
    if tool.kind is ToolKind.CUSTOM:
        return f"{tool.name}({CUSTOM_INPUT}: string)" if typed else f"{tool.name}({CUSTOM_INPUT})"
    root = tool.parameters
    schema = schemas.resolve(root, root)
    known = schemas.properties(schema, root)
    if typed and not known and schemas.alternatives(schema):
        return f"{tool.name}({_type(schema, root, 0)})"
    wanted = set(schemas.required(schema, root))
    arguments = (f"{name}{'' if name in wanted else '?'}{f': {_type(value, root, 0)}' if typed else ''}" for name, value in known.items())
    return f"{tool.name}({', '.join(arguments)})"


def type_text(schema: object, root: Schema) -> str:
    """The type of one value, such as `string[]` or `{a: string, b?: number} | null`."""
    return _type(schema, root, 0)


def _type(schema: object, root: Schema, depth: int) -> str:
    found = schemas.resolve(schema, root)
    if "const" in found:
        return _literal(found["const"])
    listed = found.get("enum")
    if isinstance(listed, list) and listed:
        more = [f"... {len(listed) - MAX_CHOICES} more"] if len(listed) > MAX_CHOICES else []
        return " | ".join([*(_literal(value) for value in listed[:MAX_CHOICES]), *more])
    if depth >= MAX_DEPTH:
        return (schemas.types(found) or ["any"])[0]
    options = schemas.alternatives(found)
    if options:
        return " | ".join(dict.fromkeys(_type(option, root, depth + 1) for option in options))
    kinds = schemas.types(found)
    if not kinds:
        return _object(found, root, depth) if schemas.properties(found, root) else "any"
    return " | ".join(dict.fromkeys(_named(kind, found, root, depth) for kind in kinds))


def _named(kind: str, schema: Schema, root: Schema, depth: int) -> str:
    if kind == "array":
        item = _type(schema.get("items", {}), root, depth + 1)
        return f"({item})[]" if " | " in item else f"{item}[]"
    return _object(schema, root, depth) if kind == "object" else kind


def _object(schema: Schema, root: Schema, depth: int) -> str:
    known = schemas.properties(schema, root)
    if not known:
        values = schema.get("additionalProperties")
        return f"{{[key]: {_type(values, root, depth + 1)}}}" if isinstance(values, Mapping) and values else "object"
    wanted = set(schemas.required(schema, root))
    return "{" + ", ".join(f"{name}{'' if name in wanted else '?'}: {_type(value, root, depth + 1)}" for name, value in known.items()) + "}"


def _literal(value: object) -> str:
    try:
        return json_values.dumps(value)
    except json_values.NotJsonError:
        return "any"

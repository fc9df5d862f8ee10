"""Reading JSON Schema as far as a contract needs it: where a `$ref` leads, what an object holds, which type is meant.

In: a schema, of any shape, and the whole document it stands in. Out: plain values. Promise: never raises on any schema, never
loops on one that refers to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

Schema = Mapping[str, object]

MAX_REFS = 16
"""How many references in a row are followed."""


def resolve(schema: object, root: Schema) -> Schema:
    """The schema behind its references; an empty one where there is none (`true`, a broken or a remote reference)."""
    for _ in range(MAX_REFS):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return cast("Schema", schema)
        schema = _at(root, reference)
    return {}


def _at(root: Schema, reference: str) -> object:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    found: object = root
    for key in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(key.replace("~1", "/").replace("~0", "~"))
    return found


def properties(schema: Schema, root: Schema) -> dict[str, object]:
    """The properties of an object schema by name, those of its `allOf` parts among them."""
    found: dict[str, object] = {}
    for part in _parts(schema, root):
        listed = part.get("properties")
        if isinstance(listed, Mapping):
            found |= {str(key): value for key, value in listed.items()}
    return found


def required(schema: Schema, root: Schema) -> list[str]:
    """The required names that have a property, in the schema's order."""
    known = properties(schema, root)
    wanted: list[str] = []
    for part in _parts(schema, root):
        listed = part.get("required")
        if isinstance(listed, list):
            wanted += [name for name in listed if isinstance(name, str) and name in known and name not in wanted]
    return wanted


def alternatives(schema: Schema) -> list[object]:
    """What `anyOf` or `oneOf` offer; empty where neither stands."""
    for key in ("anyOf", "oneOf"):
        listed = schema.get(key)
        if isinstance(listed, list) and listed:
            return listed
    return []


def types(schema: Schema) -> list[str]:
    """The types named, or those that other keywords imply; empty when anything goes."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    if "properties" in schema or "additionalProperties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    return []


def _parts(schema: Schema, root: Schema) -> list[Schema]:
    listed = schema.get("allOf")
    if not isinstance(listed, list):
        return [schema]
    return [schema, *(resolve(part, root) for part in listed)]

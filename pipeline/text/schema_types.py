"""Fit a value to its JSON Schema without loss (S10).

In: a value as it was written, the schema of its place, the root schema for `$ref`. Out: the same value, or one converted from text to a
type that the schema wants. A value that already fits is never touched, nothing is ever turned into text, and what cannot be
converted without loss passes unchanged. No validation: constraints other than types, `enum` and `const` are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from pipeline import json_values

Schema = Mapping[str, object]

_DEEPEST = 32
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
_ANY: frozenset[str] = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
_LITERALS = {"true": True, "false": False, "null": None}


def property_schema(schema: object, name: str, root: Schema) -> Schema | None:
    """The schema of a property, or None when nothing is said about it."""
    for branch in _branches(schema, root):
        properties = branch.get("properties")
        found = properties.get(name) if isinstance(properties, Mapping) else None
        if found is None:
            found = branch.get("additionalProperties")
        if isinstance(found, Mapping):
            return found or None
    return None


def required(schema: object, root: Schema) -> frozenset[str]:
    """The names of the properties that must be there."""
    names: set[str] = set()
    for branch in _branches(schema, root, alternatives=False):
        wanted = branch.get("required")
        if isinstance(wanted, list | tuple):
            names.update(name for name in wanted if isinstance(name, str))
    return frozenset(names)


def types(schema: object, root: Schema) -> frozenset[str]:
    """The JSON types that the schema admits; all of them when it says nothing."""
    return _types(schema, root, {}, 0)


def _types(schema: object, root: Schema, known: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """`known` holds what was found for schemas met before; one that is met inside itself says nothing."""
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return _ANY
    found = known.get(id(schema))
    if found is None:
        known[id(schema)] = _ANY
        found = known[id(schema)] = _own_types(schema, root, known, depth)
    return found


def _own_types(schema: Schema, root: Schema, known: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    admitted = _ANY
    kind = schema.get("type")
    if isinstance(kind, str):
        kind = [kind]
    if isinstance(kind, list | tuple):
        admitted = frozenset(one for one in kind if isinstance(one, str)) & _ANY or _ANY
        if "number" in admitted:
            admitted |= {"integer"}
        if schema.get("nullable") is True:
            admitted |= {"null"}
    members = _members(schema)
    if members is not None:
        admitted &= frozenset().union(*(_kinds(member) for member in members)) or _ANY
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list | tuple) and options:
            either = frozenset().union(*(_types(option, root, known, depth + 1) for option in options))
            admitted = admitted & either or either
    every = schema.get("allOf")
    if isinstance(every, list | tuple):
        for option in every:
            admitted = admitted & _types(option, root, known, depth + 1) or admitted
    return admitted


def _members(schema: Schema) -> list[object] | None:
    if "const" in schema:
        return [schema["const"]]
    members = schema.get("enum")
    return list(members) if isinstance(members, list | tuple) and members else None


def _kinds(value: object) -> frozenset[str]:
    if value is None:
        return frozenset(("null",))
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, int):
        return frozenset(("integer", "number"))
    if isinstance(value, float):
        return frozenset(("number", "integer")) if value.is_integer() else frozenset(("number",))
    if isinstance(value, str):
        return frozenset(("string",))
    return frozenset(("array",)) if isinstance(value, list | tuple) else frozenset(("object",))


def fits(value: object, schema: object, root: Schema) -> bool:
    """Is the value of a type that the schema admits, and a member of its `enum` where there is one?"""
    resolved = _resolve(schema, root)
    if not isinstance(resolved, Mapping):
        return True
    if not _kinds(value) & types(resolved, root):
        return False
    members = _members(resolved)
    return members is None or any(_same(value, member) for member in members)


def _same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def fit(value: object, schema: object, root: Schema) -> object:
    """The value, converted where it and its parts do not fit yet and can be made to; the same object when nothing changed."""
    return _fit(value, schema, root, 0)


def _fit(value: object, schema: object, root: Schema, depth: int) -> object:
    schema = _resolve(schema, root)
    if not isinstance(schema, Mapping) or not schema or depth > _DEEPEST:
        return value
    if isinstance(value, str):
        return value if fits(value, schema, root) else _from_text(value, schema, root, depth)
    if isinstance(value, dict):
        changed = {}
        for name, item in value.items():
            inner = property_schema(schema, name, root)
            if inner is not None and (made := _fit(item, inner, root, depth + 1)) is not item:
                changed[name] = made
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        made_items = [_fit(item, _item_schema(schema, at, root), root, depth + 1) for at, item in enumerate(value)]
        return made_items if any(new is not old for new, old in zip(made_items, value, strict=True)) else value
    return value


def item_schema(schema: object, root: Schema) -> Schema | None:
    """The schema of any item of an array, or None when nothing is said about it."""
    found = _item_schema(schema, 1 << 30, root)
    return found if isinstance(found, Mapping) and found else None


def _item_schema(schema: object, at: int, root: Schema) -> object:
    for branch in _branches(schema, root):
        first = branch.get("prefixItems")
        if isinstance(first, list | tuple) and at < len(first):
            return first[at]
        if isinstance(branch.get("items"), Mapping):
            return branch["items"]
    return None


def _from_text(text: str, schema: Schema, root: Schema, depth: int) -> object:
    for value in _readings(text.strip(), types(schema, root)):
        if fits(value, schema, root):
            return _fit(value, schema, root, depth + 1)
    return text


def _readings(text: str, admitted: frozenset[str]) -> Iterator[object]:
    """What the text can mean in each admitted type."""
    if "integer" in admitted and len(text) <= 4000 and _INTEGER.fullmatch(text) and text != "-0":
        yield int(text)
    if "number" in admitted and (number := exact_number(text)) is not None:
        yield number
    if text in _LITERALS and ("null" if text == "null" else "boolean") in admitted:
        yield _LITERALS[text]
    if ("object" in admitted and text[:1] == "{") or ("array" in admitted and text[:1] == "["):
        try:
            yield json_values.loads(text)
        except json_values.NotJsonError:
            return


def exact_number(text: str) -> float | None:
    """The number as a float, if a float holds exactly the digits that were written."""
    if len(text) > 64 or _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if number - number == 0 and Decimal(text) == Decimal(repr(number)) else None


def _resolve(schema: object, root: Schema) -> object:
    """Follow local references."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return None
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target: object = root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping):
                target = target.get(key)
            elif isinstance(target, list | tuple) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                return None
        schema = target
    return None


def _branches(schema: object, root: Schema, *, alternatives: bool = True) -> Iterator[Schema]:
    """The schema and those it is composed of, references followed, each once."""
    keys = ("allOf", "anyOf", "oneOf") if alternatives else ("allOf",)
    seen: set[int] = set()
    todo: list[object] = [schema]
    while todo:
        resolved = _resolve(todo.pop(), root)
        if not isinstance(resolved, Mapping) or id(resolved) in seen:
            continue
        seen.add(id(resolved))
        yield resolved
        options = [option for key in keys if isinstance(found := resolved.get(key), list | tuple) for option in found]
        todo += reversed(options)

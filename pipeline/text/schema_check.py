"""Does a value fit a JSON schema? The part of JSON Schema that strict tools are written in (X35).

In: a JSON value and a schema as a client sent it. Out: yes or no. Known keywords: type, enum, const, properties, required,
additionalProperties, items, anyOf, oneOf, allOf, local $ref. Unknown ones are no hindrance, nor is a schema that is none: this check notes
what a model did wrong, it is no gate. Promise: never raises; depth and steps are bounded, since references may go round in circles, and what lies beyond fits.
"""

from __future__ import annotations

from collections.abc import Mapping

_MAX_DEPTH = 48
_MAX_STEPS = 50_000


def fits(value: object, schema: object) -> bool:
    """Whether the value fits."""
    return _Check(schema).fits(value, schema, 0)


def misfits(value: object, schema: Mapping[str, object]) -> list[str]:
    """The parameters at fault, each with what is wrong with it: missing, unknown, or of another shape. Empty where the fault is elsewhere."""
    if not isinstance(value, dict):
        return []
    check = _Check(schema)
    given, required = schema.get("properties"), schema.get("required")
    properties = given if isinstance(given, Mapping) else {}
    missing = [key for key in required if isinstance(key, str) and key not in value] if isinstance(required, list) else []
    found = [f"`{key}` is missing" for key in missing]
    for key, item in value.items():
        if key not in properties:
            if schema.get("additionalProperties") is False:
                found.append(f"`{key}` is no parameter")
        elif not check.fits(item, properties[key], 0):
            found.append(f"`{key}` does not fit")
    return found


class _Check:
    """One look at one value."""

    __slots__ = ("_root", "_steps")

    def __init__(self, root: object) -> None:
        self._root = root
        self._steps = 0

    def fits(self, value: object, schema: object, depth: int) -> bool:
        if schema is False:
            return False
        self._steps += 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return True
        depth += 1
        target = schema.get("$ref")
        if isinstance(target, str) and not self.fits(value, _resolve(target, self._root), depth):
            return False
        if not _has_type(value, schema.get("type")):
            return False
        choices = schema.get("enum")
        if isinstance(choices, list) and not any(_same(value, choice) for choice in choices):
            return False
        if "const" in schema and not _same(value, schema["const"]):
            return False
        for key, wanted in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            branches = schema.get(key)
            if isinstance(branches, list) and branches and not wanted(self.fits(value, branch, depth) for branch in branches):
                return False
        if isinstance(value, dict):
            return self._object_fits(value, schema, depth)
        items = schema.get("items")
        return not isinstance(value, list) or items is None or all(self.fits(item, items, depth) for item in value)

    def _object_fits(self, value: Mapping[str, object], schema: Mapping[str, object], depth: int) -> bool:
        required = schema.get("required")
        if isinstance(required, list) and any(isinstance(key, str) and key not in value for key in required):
            return False
        given = schema.get("properties")
        properties = given if isinstance(given, Mapping) else {}
        others = schema.get("additionalProperties", True)
        return all(self.fits(item, properties.get(key, others), depth) for key, item in value.items())


def _resolve(target: str, root: object) -> object:
    """The schema behind a local reference; True (everything fits) where there is none."""
    found = root
    if not target.startswith("#"):
        return True
    for step in target[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return True
        found = found[key]
    return found


def _has_type(value: object, types: object) -> bool:
    names = [types] if isinstance(types, str) else types
    if not isinstance(names, list) or not names:
        return True
    return any(_is(value, name) for name in names)


def _is(value: object, name: object) -> bool:
    if name == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    return kind is None or isinstance(value, kind)


_KINDS: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def _same(left: object, right: object) -> bool:
    """Equal in JSON's sense: true is not 1."""
    return isinstance(left, bool) is isinstance(right, bool) and left == right

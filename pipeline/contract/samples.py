"""Example arguments made from a tool's own schema.

In: a tool. Out: an arguments object that fits its schema: enum, const, type, format, bounds, required. Short, neutral, and the
same for the same tool in any process. Promise: never raises, never loops; where a schema cannot be met (a pattern nothing
known matches) the nearest plain value stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pipeline import json_values
from pipeline.contract import schemas
from pipeline.contract.sample_texts import ANYTHING, BY_FORMAT, BY_WORD, FALLBACKS
from pipeline.contract.schemas import Schema
from pipeline.turn import CUSTOM_INPUT, Tool, ToolKind

MAX_DEPTH = 6
MAX_ITEMS = 4
MAX_TEXT = 1000
MAX_CHARS = 60
"""A longer enum member, default or example of a schema is passed over where another value does."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_RISKY_PATTERN = re.compile(r"[*+?{].*[*+{].*[*+{]|\\[1-9]", re.DOTALL)


def sample_arguments(tool: Tool, variant: int = 0) -> dict[str, object]:
    """Arguments for an example call: what is required, or one optional argument where nothing is. Variants differ where they can."""
    if tool.kind is ToolKind.CUSTOM:
        return {CUSTOM_INPUT: _text_for(CUSTOM_INPUT, variant)}
    root = tool.parameters
    schema = schemas.resolve(root, root)
    options = schemas.alternatives(schema)
    if options and not schemas.properties(schema, root):
        schema = schemas.resolve(options[0], root)
    known = schemas.properties(schema, root)
    names = schemas.required(schema, root) or list(known)[:1]
    return _Sampler(root, variant).fields(known, names, 0)


class _Sampler:
    """Makes values for the schemas of one document."""

    def __init__(self, root: Schema, variant: int) -> None:
        self._root = root
        self._variant = variant

    def fields(self, known: Mapping[str, object], names: Iterable[str], depth: int) -> dict[str, object]:
        return {name: self._value(known[name], name, depth) for name in names}

    def _value(self, schema: object, name: str, depth: int) -> object:
        found = schemas.resolve(schema, self._root)
        if "const" in found:
            return found["const"]
        chosen = _listed(found.get("enum"), self._variant)
        if chosen is not None:
            return chosen
        options = [one for one in schemas.alternatives(found) if schemas.types(schemas.resolve(one, self._root)) != ["null"]]
        if options and depth < MAX_DEPTH:
            return self._value(options[0], name, depth + 1)
        kind = self._kind(found)
        given = _listed(found.get("examples"), self._variant)
        if given is not None and _is_a(given, kind):
            return given
        default = found.get("default")
        if default not in (None, "") and _is_short(default) and _is_a(default, kind):
            return default
        return self._made(kind, found, name, depth)

    def _kind(self, schema: Schema) -> str:
        named = schemas.types(schema)
        if named:
            return next((kind for kind in named if kind != "null"), "null")
        return "object" if schemas.properties(schema, self._root) else "string"

    def _made(self, kind: str, schema: Schema, name: str, depth: int) -> object:
        match kind:
            case "integer":
                return _number(schema, whole=True)
            case "number":
                return _number(schema, whole=False)
            case "boolean":
                return True
            case "null":
                return None
            case "array":
                return self._array(schema, name, depth)
            case "object":
                return self._object(schema, depth)
            case _:
                return _text(schema, name, self._variant)

    def _array(self, schema: Schema, name: str, depth: int) -> list[object]:
        if depth >= MAX_DEPTH or _bound(schema, "maxItems") == 0:
            return []
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list):
            return [self._value(item, name, depth + 1) for item in prefix]
        least = min(int(_bound(schema, "minItems") or 1), MAX_ITEMS)
        item = self._value(schema.get("items", {}), _singular(name), depth + 1)
        return [item, *(_another(item, number) for number in range(2, least + 1))]

    def _object(self, schema: Schema, depth: int) -> dict[str, object]:
        if depth >= MAX_DEPTH:
            return {}
        return self.fields(schemas.properties(schema, self._root), schemas.required(schema, self._root), depth + 1)


def _listed(values: object, variant: int) -> object:
    """One of the short values of an enum or of examples, the first one at all where all are long; None where there are none."""
    if not isinstance(values, list):
        return None
    real = [value for value in values if value is not None and value != ""]
    short = [value for value in real if _is_short(value)]
    if short:
        return short[variant % len(short)]
    return real[0] if real else None


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CHARS
    try:
        return len(json_values.dumps(value)) <= MAX_CHARS
    except json_values.NotJsonError:
        return False


def _is_a(value: object, kind: str) -> bool:
    match kind:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case "null":
            return value is None
        case _:
            return isinstance(value, str)


def _number(schema: Schema, *, whole: bool) -> int | float:
    low, above = _bound(schema, "minimum"), _bound(schema, "exclusiveMinimum")
    high, below = _bound(schema, "maximum"), _bound(schema, "exclusiveMaximum")
    step = _bound(schema, "multipleOf")
    value: float = 1
    if low is not None:
        value = max(value, low)
    if above is not None and value <= above:
        value = above + 1
    if high is not None and value > high:
        value = high
    if below is not None and value >= below:
        floor = above if above is not None else low
        value = below - 1 if whole or floor is None or below - 1 > floor else (below + floor) / 2
    if step:
        value = -(-value // step) * step
    return int(value) if whole or value == int(value) else value


def _bound(schema: Schema, key: str) -> float | None:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else None


def _another(item: object, number: int) -> object:
    """A further item, unlike the first where that is easy (uniqueItems)."""
    if isinstance(item, str):
        return f"{item}{number}"
    return item + number - 1 if isinstance(item, int | float) and not isinstance(item, bool) else item


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _text(schema: Schema, name: str, variant: int) -> str:
    wanted = schema.get("format")
    text = BY_FORMAT.get(wanted, "") if isinstance(wanted, str) else ""
    text = _fitting(text or _text_for(name, variant), schema)
    least, most = _bound(schema, "minLength"), _bound(schema, "maxLength")
    if least is not None and len(text) < least:
        text = (text + ANYTHING[0] * (int(min(least, MAX_TEXT)) // len(ANYTHING[0]) + 1))[: int(min(least, MAX_TEXT))]
    return text if most is None else text[: max(0, int(most))]


def _text_for(name: str, variant: int) -> str:
    """The row of the rightmost word that any row knows: `file_path` is a path, `path_pattern` a pattern."""
    for word in reversed([word.lower() for word in _WORDS.findall(name)]):
        for words, texts in BY_WORD:
            if word in words:
                return texts[variant % len(texts)]
    return ANYTHING[variant % len(ANYTHING)]


def _fitting(text: str, schema: Schema) -> str:
    """The text where it matches the schema's pattern, else the first known one that does, else the text all the same."""
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or len(pattern) > MAX_CHARS or _RISKY_PATTERN.search(pattern):
        return text
    try:
        wanted = re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return text
    return next((candidate for candidate in (text, *FALLBACKS) if wanted.search(candidate)), text)

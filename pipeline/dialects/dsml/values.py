"""What the content of a parameter means (S5, S10).

In: the segments of a value, plain text and CDATA sections, with its `string` attribute and the schema of its parameter. Out: a JSON value.
CDATA is raw text. Outside of it entities are decoded once, one border line break is dropped, white space around a section is layout; what stands
there may be nested elements or a JSON literal. The `string` attribute beats the schema, the schema beats the look of the literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline import json_values
from pipeline.text import entities, schema_types
from pipeline.text.tags import COMMENT, COMMENT_END

Segment = tuple[bool, str]
"""Is it a CDATA section, and its text."""

_NONE: Final = object()
_DEEPEST = 64
_ELEMENT = re.compile(rf"<(/?)([A-Za-z_][\w.\-:]*)(?:\s[^<>]*?)?(/?)>|{COMMENT}")
_FIRST_BREAK = re.compile(r"\A(?:\r\n|\n|\r)")
_LAST_BREAK = re.compile(r"(?:\r\n|\n|\r)\Z")
_LITERAL_STARTS = frozenset('-0123456789tfn"{[')


def read(segments: Sequence[Segment], *, string: bool | None, schema: schema_types.Schema | None, root: schema_types.Schema) -> object:
    """The value. Text that the schema wants as another type is converted later, with the other arguments."""
    text = text_of(segments)
    if string:
        return text
    sections = any(section for section, _ in segments)
    if string is False:
        value = _literal(text)
        return text if value is _NONE else value
    admitted = schema_types.types(schema, root) if schema is not None else None
    if admitted == frozenset(("string",)) or not text.strip():
        return text if sections or text.strip() else ""
    value = _nested(segments, schema, root)
    if value is _NONE and not sections:
        value = _literal(text)
    if value is _NONE:
        return text
    if admitted is None or schema_types.fits(value, schema, root) or "string" not in admitted:
        return value
    return text


def text_of(segments: Sequence[Segment]) -> str:
    """The content as one text."""
    sections = any(section for section, _ in segments)
    out: list[str] = []
    for at, (section, text) in enumerate(segments):
        if section:
            out.append(text)
        elif not (sections and not text.strip()):
            if at == 0:
                text = _FIRST_BREAK.sub("", text, count=1)
            if at == len(segments) - 1:
                text = _LAST_BREAK.sub("", text, count=1)
            out.append(entities.decode(text))
    return "".join(out)


def _literal(text: str) -> object:
    text = text.strip()
    if text[:1] not in _LITERAL_STARTS:
        return _NONE
    try:
        value = json_values.loads(text)
    except json_values.NotJsonError:
        return _NONE
    if isinstance(value, float) and schema_types.exact_number(text) is None:
        return _NONE
    return value


class _Node:
    """An element that is open: its children, or the segments of its text."""

    __slots__ = ("children", "name", "schema", "segments")

    def __init__(self, name: str, schema: schema_types.Schema | None) -> None:
        self.name = name
        self.schema = schema
        self.children: list[tuple[str, object]] = []
        self.segments: list[Segment] = []

    def value(self, root: schema_types.Schema) -> object:
        """What the element means; `_NONE` for text beside children."""
        if not self.children:
            return read(self.segments, string=None, schema=self.schema, root=root) if self.segments else ""
        if any(section or text.strip() for section, text in self.segments):
            return _NONE
        if all(name == "item" for name, _ in self.children):
            return [value for _, value in self.children]
        collected: dict[str, list[object]] = {}
        for name, value in self.children:
            collected.setdefault(name, []).append(value)
        return {name: found[0] if len(found) == 1 else found for name, found in collected.items()}


def _nested(segments: Sequence[Segment], schema: schema_types.Schema | None, root: schema_types.Schema) -> object:
    """The value of nested elements; `_NONE` when the content is anything else."""
    if segments[0][0] or not segments[0][1].lstrip().startswith("<"):
        return _NONE
    stack = [_Node("", schema)]
    for section, text in segments:
        if section:
            stack[-1].segments.append((True, text))
            continue
        at = 0
        for found, end in _markup(text):
            if found.start() > at:
                stack[-1].segments.append((False, text[at : found.start()]))
            at = end
            if found[2] is not None and not _step(stack, found, root):
                return _NONE
        if at < len(text):
            stack[-1].segments.append((False, text[at:]))
    if len(stack) != 1 or not stack[0].children:
        return _NONE
    return stack[0].value(root)


def _markup(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Every tag and every comment that ends, with where it ends. A comment that never ends is plain text, and is looked for once only (S14)."""
    at = 0
    commented = True
    while (found := _ELEMENT.search(text, at)) is not None:
        at = found.end()
        if found[2] is None:
            if not commented:
                continue
            close = text.find(COMMENT_END, at)
            commented = close >= 0
            if not commented:
                continue
            at = close + len(COMMENT_END)
        yield found, at


def _step(stack: list[_Node], found: re.Match[str], root: schema_types.Schema) -> bool:
    """Open or close one element; false when it does not nest."""
    name = found[2]
    if found[1]:
        if len(stack) == 1 or stack[-1].name != name:
            return False
        node = stack.pop()
        value = node.value(root)
        if value is _NONE:
            return False
        stack[-1].children.append((name, value))
        return True
    if found[3]:
        stack[-1].children.append((name, ""))
        return True
    if len(stack) > _DEEPEST:
        return False
    stack.append(_Node(name, _child_schema(stack[-1].schema, name, root)))
    return True


def _child_schema(schema: schema_types.Schema | None, name: str, root: schema_types.Schema) -> schema_types.Schema | None:
    if schema is None:
        return None
    if name == "item" and "array" in schema_types.types(schema, root):
        return schema_types.item_schema(schema, root)
    return schema_types.property_schema(schema, name, root)

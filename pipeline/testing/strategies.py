"""Hypothesis strategies for what a sieve meets: JSON arguments, calls, schemas that fit them, and text made to confuse.

In: a dialect, or fragments. Out: strategies. This module and `conformance.py` are the only shipped ones that need hypothesis.
Promise: everything is built from parts that shrink, so a counterexample comes out small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from pipeline import json_values
from pipeline.dialects.dialect import Dialect
from pipeline.turn import Arguments, Call, Tool

# What breaks parsers inside values: closers of every layer, escapes, fences, numbers that look like text, characters of odd width.
NASTY = (
    "]]>",
    "]]]]><![CDATA[>",
    "<![CDATA[",
    "]]></parameter>",
    "</parameter>",
    "</invoke>",
    "</tool_calls>",
    "</|DSML|parameter>",
    "</|DSML|invoke>",
    "</|DSML|tool_calls>",
    '<parameter name="x">',
    '<|DSML|parameter name="x">',
    "<tool_calls>",
    "<|DSML|tool_calls>",
    "```",
    "\n```\n",
    "\n```json action\n",
    "~~~",
    "`",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    " ",
    "\t",
    '"',
    "'",
    "\\",
    '\\"',
    "\\u0041",
    "“",
    "”",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '{"tool": "x", "parameters": {}}',
    "&amp;",
    "&lt;",
    "&#60;",
    "&",
    "<br>",
    "<item>",
    "<!-- -->",
    "<div className={a ? `b` : 'c'}>",
    "null",
    "true",
    "None",
    "007",
    "1e3",
    "12345678901234567890",
    "漢字",
    "й",
    "İ",
    "ſ",
    "🙂",
    "👩\u200d👩\u200d👧",
    "e\u0301",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\x85",
    "\x0b",
    "\x00",
    "\x1b",
    "\u00a0",
    "\ufffd",
    "＜",
    "＞",
    "｜",
    "<think>",
    "</think>",
    "[Tool Result: x]",
)

NAMES = (
    "read_file",
    "x",
    "get-weather",
    "files.read",
    "mcp__srv__do_it",
    "ns/tool:v2",
    "погода",
    "天気",
    "Invoke",
    "parameter",
    "tool",
    "json",
)


def nasty_text(fragments: Sequence[str] = NASTY, max_parts: int = 6) -> st.SearchStrategy[str]:
    """Text of fragments and of any characters a JSON string may hold."""
    return st.lists(st.sampled_from(list(fragments)) | st.text(max_size=4), max_size=max_parts).map("".join)


def json_scalars() -> st.SearchStrategy[object]:
    """Any JSON scalar: integers of any size, floats that are numbers, nasty strings."""
    return st.one_of(
        nasty_text(),
        st.integers(min_value=-(10**40), max_value=10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.none(),
    )


def json_values_any(max_leaves: int = 6) -> st.SearchStrategy[object]:
    """Any JSON value."""
    return st.recursive(
        json_scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys(), inner, max_size=3),
        max_leaves=max_leaves,
    )


def keys() -> st.SearchStrategy[str]:
    """Keys of objects: mostly words, sometimes anything."""
    words = st.sampled_from(["path", "content", "a", "b", "item", "input", "name", "parameters", "старт", "a b", "a-b", "1"])
    return st.one_of(words, words, nasty_text(max_parts=2))


def arguments() -> st.SearchStrategy[dict[str, object]]:
    """Arguments of a call: any JSON object."""
    return st.dictionaries(keys(), json_values_any(), max_size=4)


def names() -> st.SearchStrategy[str]:
    """Tool names as protocols allow them, and the wider ones of MCP servers (S9: they come back verbatim)."""
    plain = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_-", min_size=1, max_size=12)
    return st.sampled_from(NAMES) | plain


def call(name: str, value: Mapping[str, object]) -> Call:
    """A call of the history, arguments as JSON text."""
    return Call(id=f"call_{name}", name=name, arguments=Arguments(json_values.dumps(value)))


def calls(max_size: int = 3) -> st.SearchStrategy[list[Call]]:
    """One or several calls."""
    return st.lists(st.builds(call, names(), arguments()), min_size=1, max_size=max_size)


def fitting_schema(value: object) -> st.SearchStrategy[Mapping[str, object]]:
    """A schema that the value fits, or the one that says nothing."""
    kind = _type_of(value)
    options: list[Mapping[str, object]] = [
        {},
        {"type": kind},
        {"type": [kind, "null"]},
        {"type": ["string", kind]} if kind != "string" else {"type": ["integer", "string"]},
        {"anyOf": [{"type": "null"}, {"type": kind}]},
        {"oneOf": [{"type": kind}]},
        {"enum": [value]},
        {"$ref": "#/$defs/it"},
    ]
    return st.sampled_from(options)


@st.composite
def declared_calls(draw: st.DrawFn, max_size: int = 2) -> tuple[list[Call], tuple[Tool, ...]]:
    """Calls together with tools whose schemas they fit (C4, S10)."""
    made: dict[str, tuple[Call, Tool]] = {}
    for name in draw(st.lists(names(), min_size=1, max_size=max_size, unique_by=str.casefold)):
        value = draw(arguments())
        properties: dict[str, object] = {}
        definitions: dict[str, object] = {}
        for key, item in value.items():
            schema = draw(fitting_schema(item))
            if "$ref" in schema:
                definition = f"d{len(definitions)}"
                definitions[definition] = {"type": _type_of(item)}
                schema = {"$ref": f"#/$defs/{definition}"}
            properties[key] = schema
        parameters: dict[str, object] = {"type": "object", "properties": properties, "required": sorted(properties)}
        if definitions:
            parameters["$defs"] = definitions
        made[name] = (call(name, value), Tool(name=name, parameters=parameters))
    return [pair[0] for pair in made.values()], tuple(pair[1] for pair in made.values())


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


# Text around blocks: markdown, protocol words, white space of every kind.
SURROUNDINGS = (
    "\n",
    "\n",
    "\n\n",
    " ",
    "\r\n",
    "\r",
    "\t",
    "\u2028",
    "\x0b",
    "\x0c",
    "\x85",
    "\u00a0",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\x00",
    "\x1b",
    "word ",
    "Sure, ",
    "漢字",
    "。",
    "🙂",
    "a < b ",
    "`",
    "``",
    "```",
    "````",
    "~~~",
    "~~~~",
    "\n```\n",
    "\n```xml\n",
    "\n```json\n",
    "\n~~~\n",
    "\n    ",
    "\n> ",
    "\n- ",
    "\n1. ",
    "> ",
    "- ",
    '"',
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    '{"a": 1}',
    "<",
    "</",
    "<b>",
    "<!-- x -->",
    "<![CDATA[",
    "]]>",
    "<think>",
    "</think>",
    "\n[Tool Result: x] ok",
    "\n<tool_result>",
    "<",
    ">",
    "＜",
    "＞",
    "|",
    "｜",
    "&",
)


def plain_prose() -> st.SearchStrategy[str]:
    """Text that cannot be part of any opener, result or markdown mark: what must come through untouched and at once."""
    return st.text("abc DEF,.!?'é漢字🙂й\u200b", max_size=20).map(lambda text: text.strip())


def any_characters(max_size: int = 3) -> st.SearchStrategy[str]:
    """Any code points, lone surrogates included: an upstream's JSON may hold them."""
    return st.text(st.characters(exclude_categories=()), max_size=max_size)


def blocks(dialect: Dialect) -> st.SearchStrategy[str]:
    """Whole blocks as the dialect writes them."""
    return calls(max_size=2).map(dialect.render_calls)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> str:
    """A block with one wound: cut short, a stretch lost, doubled, moved, or something foreign put in."""
    text = draw(whole)
    one, other = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
    start, end = one, min(len(text), one + other)
    wound = draw(st.integers(0, 4))
    if wound == 0:
        return text[:start]
    if wound == 1:
        return text[:start] + text[end:]
    if wound == 2:
        return text[:end] + text[start:]
    if wound == 3:
        return text[start:]
    return text[:start] + draw(st.sampled_from(SURROUNDINGS)) + text[start:]


def hostile_text(
    dialects: Sequence[Dialect],
    fragments: Sequence[str] = (),
    written: Sequence[st.SearchStrategy[str]] = (),
    max_parts: int = 8,
) -> st.SearchStrategy[str]:
    """Anything a model might say: surroundings, markers, whole blocks, nearly whole blocks, and what `written` brings."""
    markers = [marker for dialect in dialects for marker in dialect.markers] + list(fragments)
    small = st.sampled_from([*SURROUNDINGS, *markers])
    parts: list[st.SearchStrategy[str]] = [small, small, small, any_characters()]
    for dialect in dialects:
        parts += [blocks(dialect), damaged(blocks(dialect))]
    for strategy in written:
        parts += [strategy, damaged(strategy)]
    return st.lists(st.one_of(parts), max_size=max_parts).map("".join)


def cuts() -> st.SearchStrategy[list[int]]:
    """Offsets to cut at; those behind the end of a text count as its end."""
    return st.lists(st.integers(0, 400), max_size=8)

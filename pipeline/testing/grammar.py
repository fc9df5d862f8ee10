"""What a sieve meets, built from dice: JSON arguments, calls, tools they fit, and text made to confuse.

In: a `Dice`, for text also dialects and fragments. Out: plain values. The conformance kit, the property tests and the fuzzer all build
their inputs here, so that a find of one is an input of the others. Needs nothing but the standard library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from pipeline import json_values
from pipeline.dialects.dialect import Dialect
from pipeline.testing.dice import Dice
from pipeline.turn import Arguments, Call, Tool

Written = Callable[[Dice], str]
"""Makes a block as a model might write it, right or wrong."""

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


KEYS = ("a", "path", "content", "b", "item", "input", "name", "parameters", "tool", "старт", "a b", "a-b", "1", "")
_BIG = 10**40
_NUMBERS = (0, 1, -1, 7, 255, 2**31, 2**53 + 1, -(2**63), 2**63, 2**64, 10**18, 10**19, _BIG, -_BIG)
_FLOATS = (0.5, 0.0, -0.0, 1.0, 1e3, 1e16, 1e-7, 3.14, 1e300, 5e-324, 1.7976931348623157e308)
_RANGES = (
    (32, 127),
    (32, 127),
    (0, 32),
    (127, 256),
    (0x370, 0x530),
    (0x2000, 0x2070),
    (0x3000, 0x3100),
    (0xFF00, 0xFFF0),
    (0x1F600, 0x1F640),
)


def text_of(dice: Dice, most: int = 3, *, surrogates: bool = False) -> str:
    """A few characters of any script; lone surrogates where they are wanted, as an upstream's JSON may hold them."""
    return "".join(dice.some(lambda: _character(dice, surrogates=surrogates), most))


def _character(dice: Dice, *, surrogates: bool) -> str:
    low, high = dice.one_of(_RANGES)
    if surrogates and dice.seldom(16):
        low, high = 0xD800, 0xE000
    return chr(low + dice.below(high - low))


def nasty_text(dice: Dice, fragments: Sequence[str] = NASTY, most: int = 5) -> str:
    """Text of fragments and of any characters that a JSON string may hold."""
    return "".join(dice.some(lambda: text_of(dice) if dice.seldom(5) else dice.one_of(fragments), most))


def json_value(dice: Dice, depth: int = 3) -> object:
    """Any JSON value: integers of any size, finite floats, nasty strings, nested objects and arrays."""
    kind = dice.below(10 if depth else 7)
    if kind <= 2:
        return nasty_text(dice)
    if kind == 3:
        return dice.one_of(_NUMBERS) + dice.below(3)
    if kind == 4:
        return _float(dice)
    if kind == 5:
        return dice.seldom(2)
    if kind == 6:
        return None
    if kind == 7:
        return dice.some(lambda: json_value(dice, depth - 1), 3)
    return {key(dice): json_value(dice, depth - 1) for _ in range(dice.below(4))}


def _float(dice: Dice) -> float:
    if not dice.seldom(3):
        return dice.one_of(_FLOATS)
    made: float = struct.unpack("<d", bytes(dice.byte() for _ in range(8)))[0]
    return made if isfinite(made) else 0.5


def key(dice: Dice) -> str:
    """A key of an object: mostly a word, sometimes anything."""
    return nasty_text(dice, most=2) if dice.seldom(5) else dice.one_of(KEYS)


def arguments(dice: Dice) -> dict[str, object]:
    """Arguments of a call: any JSON object."""
    return {key(dice): json_value(dice) for _ in range(dice.below(4))}


def name(dice: Dice) -> str:
    """A tool's name as protocols allow it, or a wider one of an MCP server (S9: they come back verbatim)."""
    if dice.seldom(3):
        return "n" + "".join(dice.some(lambda: dice.one_of("abcXYZ0189_-"), 12))
    return dice.one_of(NAMES)


def call(called: str, value: Mapping[str, object]) -> Call:
    """A call of the history, arguments as JSON text."""
    return Call(id=f"call_{called}", name=called, arguments=Arguments(json_values.dumps(value)))


def calls(dice: Dice, most: int = 3) -> list[Call]:
    """One or several calls."""
    return [call(name(dice), arguments(dice)) for _ in range(1 + dice.below(most))]


def declared_calls(dice: Dice) -> tuple[list[Call], tuple[Tool, ...]]:
    """Calls together with tools whose schemas they fit (C4, S10)."""
    made: dict[str, tuple[Call, Tool]] = {}
    for _ in range(1 + dice.below(2)):
        called = name(dice)
        value = arguments(dice)
        definitions: dict[str, object] = {}
        properties = {wanted: _fitting_schema(dice, item, definitions) for wanted, item in value.items()}
        parameters: dict[str, object] = {"type": "object", "properties": properties, "required": sorted(properties)}
        if definitions:
            parameters["$defs"] = definitions
        made[called.casefold()] = (call(called, value), Tool(name=called, parameters=parameters))
    return [pair[0] for pair in made.values()], tuple(pair[1] for pair in made.values())


def _fitting_schema(dice: Dice, value: object, definitions: dict[str, object]) -> Mapping[str, object]:
    kind = _type_of(value)
    choice = dice.below(9)
    if choice == 8:
        reference = f"d{len(definitions)}"
        definitions[reference] = {"type": kind}
        return {"$ref": f"#/$defs/{reference}"}
    options: tuple[Mapping[str, object], ...] = (
        {},
        {"type": kind},
        {"type": kind},
        {"type": [kind, "null"]},
        {"type": ["integer", "string"] if kind == "string" else ["string", kind]},
        {"anyOf": [{"type": "null"}, {"type": kind}]},
        {"oneOf": [{"type": kind}]},
        {"enum": [value]},
    )
    return options[choice]


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


PLAIN = ("abc", "Then", "it,", "stops.", "Why?", "é", "漢字。", "🙂", "й\u200b", "x(y)", "3:4;", "a/b", "$5%", "@home", "=")


def plain_prose(dice: Dice, most: int = 6) -> str:
    """Words that cannot be part of any opener, result or markdown mark: what must come through untouched and at once."""
    return " ".join(dice.some(lambda: dice.one_of(PLAIN), most))


def damaged(dice: Dice, whole: str) -> str:
    """A block with one wound: cut short, a stretch lost or doubled, its head lost, or something foreign put in."""
    start = dice.below(len(whole) + 1)
    end = min(len(whole), start + dice.below(12))
    wound = dice.below(5)
    if wound == 0:
        return whole[:start]
    if wound == 1:
        return whole[:start] + whole[end:]
    if wound == 2:
        return whole[:end] + whole[start:]
    if wound == 3:
        return whole[start:]
    return whole[:start] + dice.one_of(SURROUNDINGS) + whole[start:]


def hostile_text(
    dice: Dice, dialects: Sequence[Dialect], fragments: Sequence[str] = (), written: Sequence[Written] = (), most: int = 9
) -> str:
    """Anything a model might say: surroundings, markers, whole blocks, nearly whole blocks, and what `written` brings."""
    small = (*SURROUNDINGS, *fragments, *(marker for dialect in dialects for marker in dialect.markers))
    makers = [*written, *(lambda dice, dialect=dialect: dialect.render_calls(calls(dice, 2)) for dialect in dialects)]

    def part() -> str:
        kind = dice.below(12)
        if kind < 7:
            return dice.one_of(small)
        if kind == 7:
            return text_of(dice, surrogates=True)
        whole = dice.one_of(makers)(dice)
        return damaged(dice, whole) if kind == 11 else whole

    return "".join(dice.some(part, most))

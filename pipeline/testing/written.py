"""Blocks of the two taught formats as models write them: right, drifted and wrong.

In: a `Dice`. Out: text. Knows the formats' letters, not their code: what drifts is listed in SPEC S5 to S8.
"""

from __future__ import annotations

from pipeline.testing.dice import Dice
from pipeline.testing.grammar import arguments, call, nasty_text

FRAGMENTS = (
    "<tool_calls>",
    "</tool_calls>",
    "<|DSML|tool_calls>",
    "</|DSML|tool_calls>",
    '<invoke name="x">',
    "</invoke>",
    '<parameter name="a">',
    "</parameter>",
    "<|DSML|",
    "</|DSML|",
    '<|DSML|invoke name="x">',
    "</|DSML|invoke>",
    '<|DSML|parameter name="a">',
    "</|DSML|parameter>",
    "<|DSML|tool_result>",
    "<tool_calls",
    "<tool_c",
    "｜DSML｜",
    "```json action",
    "```json action\n",
    "~~~json action\n",
    "```json\n",
    '{"tool": "x", "parameters": {}}',
    '{"tool": ',
    '{"name": "x", "arguments": {"a": 1}}',
    "\n```json action\n{",
    "\n```",
    "}}\n```\n",
    "`<tool_calls>`",
    "[Tool Result: ",
    "[Tool",
    "]]",
    "<![CDA",
    "\\",
)
_STYLES = (
    ("<|DSML|", "</|DSML|", ">"),
    ("<", "</", ">"),
    ("<|DSML|", "</|DSML|", ">"),
    ("<", "</", ">"),
    ("<｜DSML｜", "</｜DSML｜", ">"),
    ("<||DSML||", "</||DSML||", ">"),
    ("<DSML|", "</DSML|", ">"),
    ("<|DSML ", "</|DSML ", ">"),
    ("<|dsml|", "<|/dsml|", "|>"),
    ("<dsml_", "</dsml_", ">"),
    ("< | DSML | ", "< / | DSML | ", " >"),
    ("＜｜DSML｜", "＜／｜DSML｜", "＞"),
    ("<\u200b|DSML|", "</|DSML\u200b|", ">"),
)
_VALUES = (
    "7",
    "600519",
    "true",
    "null",
    "3.5",
    '{"a": [1, "b"]}',
    "[1, 2]",
    "a < b && c",
    "&lt;b&gt; &amp;amp; &#x41;",
    "",
    "  two  ",
    "\nline\n",
)
_WRAPPERS = ("tool_calls",) * 8 + ("function_calls", "TOOL_CALLS", "tool-calls", "tool_call", "tvoe_calls")
_NAMES = ("x", "x", "x", "look_up", "look_up", "other", "Look_Up", "functions.x", "no such", "")
_BODIES = ('{"berth": 4}', '{"input": {"ship": "a</b>"}}', '{"a": ', "{}", "text", "<!-- n -->")
_ARGUMENTS = (
    '{"berth": 4}',
    '{"berth": 4, "ship": "Gull 7"}',
    '{"berth": 4, "tags": ["a", "``` b"]}',
    '{"berth": "5", "ship": "</tool_calls>"}',
    "{}",
    "{'berth': 4, 'ship': None}",
    '{"berth": 4,}',
    '{"ship": "a\nb"}',
    "{“ship”: “Gull”}",
    '{"ship": "C:\\quay"}',
    '{"ship": "say "hi" now"}',
    '{"berth": 4',
    '{"ship": "cut',
    '"{\\"berth\\": 4}"',
    "null",
    "",
    "[]",
    "7",
    '{"ship": "```\\n~~~"}',
    '{"ship": "\n```\n"}',
)


def dsml(dice: Dice) -> str:
    """A DSML or canonical block."""
    opener, closer, end = dice.one_of(_STYLES)
    quote = dice.one_of(('"', '"', '"', "'", "“", ""))
    gap = dice.one_of(("", "", "\n", "\n  ", " ", "\r\n"))
    word = dice.one_of(_WRAPPERS)
    parts = [] if dice.seldom(10) else [f"{opener}{word}{end}"]
    for _ in range(1 + dice.below(2)):
        called = dice.one_of(_NAMES)
        body = dice.some(lambda: _parameter(dice, opener, closer, end, quote), 3)
        if dice.seldom(6):
            body = [dice.one_of(_BODIES)]
        parts.append(f"{opener}invoke name={quote}{called}{quote}{end}{gap}{gap.join(body)}{gap}{closer}invoke{end}")
    if not dice.seldom(10):
        parts.append(f"{closer}{word}{end}")
    return gap.join(parts)


def _parameter(dice: Dice, opener: str, closer: str, end: str, quote: str) -> str:
    raw = nasty_text(dice, most=3) if dice.seldom(2) else dice.one_of(_VALUES)
    value = dice.one_of(
        (
            raw,
            f"<![CDATA[{raw}]]>",
            f"<![CDATA[{raw}]]>",
            f"\n{raw}\n",
            f"<![CDATA[{raw}",
            f" <![CDATA[{raw}]]> <![CDATA[{raw}]]>",
            f"<![CDATA[{raw}]]> and {raw}",
            "<item>1</item><item>b</item>",
            "<a>1</a><b><c>true</c></b><a>x</a>",
        )
    )
    attribute = dice.one_of(("", "", ' string="true"', ' string="false"', " type='x'"))
    called = dice.one_of(("berth", "ship", "tags", "ship", "b c", ""))
    return f"{opener}parameter name={quote}{called}{quote}{attribute}{end}{value}{closer}parameter{end}"


def json_action(dice: Dice) -> str:
    """A fenced JSON action, or a plain JSON fence that looks like one."""
    mark = dice.one_of(("```", "```", "```", "````", "~~~", "~~~~"))
    info = dice.one_of(
        ("json action", "json action", "json action", "json action", "JSON Action", "json  action", "json", "json", "json actions")
    )
    gap = dice.one_of(("\n", "\n", "\n", " ", "\r\n", "\n\n", ""))
    objects = [_action(dice) for _ in range(1 + dice.below(2))]
    body = dice.one_of((gap, ",\n", "\n\n")).join(objects)
    if dice.seldom(6):
        body = f"[{', '.join(objects)}]"
    close = "" if dice.seldom(8) else f"{gap}{mark}"
    return f"{mark}{info}{gap}{body}{close}"


def _action(dice: Dice) -> str:
    word = dice.one_of(("tool", "tool", "tool", "name", "name", "tool_name")) if dice.seldom(2) else "tool"
    values = dice.one_of(("parameters", "parameters", "arguments", "input", "args")) if dice.seldom(2) else "parameters"
    called = dice.one_of(_NAMES)
    value = call("x", arguments(dice)).arguments.text() if dice.seldom(3) else dice.one_of(_ARGUMENTS)
    extra = dice.one_of((', "why": "because"', ",", ' "}')) if dice.seldom(8) else ""
    return f'{{"{word}": "{called}", "{values}": {value}{extra}}}'

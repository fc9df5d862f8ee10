"""Deterministic texts of any size: what models write, and what is made to hurt. For benches and for tests of growth.

In: a size in characters, for some a dialect. Out: a text of about that size, the same on every machine.
Promise: no file, no download, no clock; the words are our own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pipeline import json_values
from pipeline.dialects.dialect import Dialect
from pipeline.turn import Arguments, Call

_SEED = 20_240_229
_TALE = (
    "the harbour lamp turns slowly while a grey boat waits for its pilot and nobody counts the minutes because tide tables "
    "already say when water will carry it over the bar then engine noise fills the narrow channel gulls rise in one cloud "
    "someone waves from the mole a rope is thrown caught made fast now unloading can begin crates nets ice and last of all "
    "the letters which every shop along the quay expects before noon"
)
_WORDS = _TALE.split()
_NOISE = (
    "`count < limit`",
    "if (a < b && b > c) {",
    '"quoted"',
    '{"id": 7, "tags": ["x", "y"]}',
    "<div>",
    "</div>",
    "vec<T>",
    "it's",
    "x << 2",
    "[link](https://quay.example/a?b=1&c=2)",
    "**bold**",
    "~approx~",
    "'single'",
    "List[int]",
    "$HOME/*.txt",
    "漢字",
    "🙂",
)
_CODE = (
    "def unload(crates: list[Crate], *, limit: int = 12) -> Iterator[Crate]:",
    '    """Yield crates, heaviest first."""',
    "    for index, crate in enumerate(sorted(crates, key=lambda c: -c.weight)):",
    "        if index >= limit or crate.weight < 0:",
    "            break",
    '        log.info("crate %s: %r", crate.id, {"weight": crate.weight})',
    "        yield crate",
    "",
    "const Row = ({ crate }) => <li key={crate.id} className={`row ${crate.kind}`}>{crate.label && <b>{crate.label}</b>}</li>;",
    "// a < b, c > d; e ? 'f' : \"g\"",
)


def prose(size: int) -> str:
    """Sentences and paragraphs without a mark that means anything to a sieve."""
    return _sentences(size, ())


def noisy_prose(size: int) -> str:
    """Prose in which every eighth word is `<`, a code span, a quote, JSON or markup."""
    return _sentences(size, _NOISE)


def code(size: int) -> str:
    """Lines of source code of several languages."""
    lines: list[str] = []
    length = 0
    while length < size:
        line = _CODE[len(lines) % len(_CODE)]
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def long_call(dialect: Dialect, size: int) -> str:
    """One call whose single long argument is source code."""
    return dialect.render_calls([_call("write_file", {"path": "quay/unload.py", "content": code(size)})])


def small_calls(dialect: Dialect, size: int) -> str:
    """A short sentence and a small call, over and over."""
    parts: list[str] = []
    length = 0
    while length < size:
        number = len(parts)
        block = dialect.render_calls([_call("look_up", {"berth": number, "ship": f"Gull {number}", "deep": number % 2 == 0})])
        parts.append(f"Looking at berth {number}.\n\n{block}\n\n")
        length += len(parts[-1])
    return "".join(parts)


def repeated(unit: str) -> Callable[[int], str]:
    """A text that is one unit again and again."""
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def _runs(size: int) -> str:
    """Runs of backticks, each longer than the one before: none pairs with another."""
    return " ".join("`" * length for length in range(4, int((2 * size) ** 0.5)))


def behind(head: str, unit: str, tail: str = "") -> Callable[[int], str]:
    """A head, then one unit again and again, then a tail."""
    return lambda size: head + repeated(unit)(max(0, size - len(head) - len(tail))) + tail


_DSML_VALUE = '<|DSML|tool_calls><|DSML|invoke name="a"><|DSML|parameter name="b">'
_DSML_END = "</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>"
_REFUSED = '<tool_calls><invoke name="a"> now '
_JSON_VALUE = '```json action\n{"tool": "a", "parameters": {"b": '

HOSTILE: dict[str, Callable[[int], str]] = {
    "less-than": repeated("<"),
    "fullwidth less-than": repeated("＜"),
    "backticks": repeated("`"),
    "backtick runs": repeated("` `` ``` "),
    "lone backtick spans": repeated("`a ``b "),
    "growing backtick runs": lambda size: " ".join("`" * n for n in range(1, int((2 * size) ** 0.5)))[:size],
    "escaped backticks behind open runs": lambda size: behind(f"{_runs(size // 2)} ", r"\` ")(size),
    "closing runs in open runs": lambda size: behind(f"{_runs(size // 2)} ", "` `` ")(size),
    "tildes": repeated("~"),
    "quotes": repeated('"'),
    "braces": repeated("{"),
    "brackets": repeated("["),
    "line breaks": repeated("\n"),
    "carriage returns": repeated("\r"),
    "spaces": repeated(" "),
    "zero-width": repeated("\u200b"),
    "pipes": repeated("<|"),
    "quote marks": repeated("> "),
    "quoted fences": repeated("> ```\n"),
    "list fences": repeated("- ```\n"),
    "blank lines in lists": lambda size: behind("+ " * (size // 4) + "a", "\n")(size),
    "blank lines in a fence in lists": lambda size: behind("+ " * (size // 4) + "```", "\n")(size),
    "blank lines in lists and quotes": lambda size: behind("+ > " * (size // 8) + "a", "\n+ > a\n\n")(size),
    "blank quoted lines in quoted lists": lambda size: behind("> " + "+ " * (size // 4) + "a", "\n>")(size),
    "lazy lines in lists": lambda size: behind("+ " * (size // 4) + "a", "\nb")(size),
    "items in lists": lambda size: behind("+ " * (size // 4) + "a", "\n+\n")(size),
    "half-open CDATA": repeated("<![CDATA["),
    "half-open CDATA in a value": behind(_DSML_VALUE, "<![CDATA["),
    "half-open CDATA end in a value": behind(_DSML_VALUE + "<![CDATA[", "]]"),
    "CDATA ends in a value": behind(_DSML_VALUE + "<![CDATA[", "]]>"),
    "CDATA ends before closers": behind(_DSML_VALUE + "<![CDATA[", "]]></|DSML|parameter>"),
    "CDATA ends and spaces": behind(_DSML_VALUE + "<![CDATA[", "]]>          "),
    "CDATA ends and openers": behind(_DSML_VALUE + "<![CDATA[", "]]><![CDATA["),
    "closers in a value": behind(_DSML_VALUE, "</|DSML|parameter> "),
    "less-than in a value": behind(_DSML_VALUE, "<", _DSML_END),
    "ampersands in a value": behind(_DSML_VALUE, "&", _DSML_END),
    "elements in a value": behind(_DSML_VALUE, "<i>"),
    "comments in a value": behind(_DSML_VALUE, "<!--"),
    "comments in a complete value": behind(_DSML_VALUE + "<i>", "<!--", _DSML_END),
    "half-open elements in a complete value": behind(_DSML_VALUE + "<i>", "<i a=b ", _DSML_END),
    "half-open fences": repeated("```json action\n"),
    "half-open JSON fences": repeated("```json\n"),
    "half-open actions": repeated('```json action\n{"tool": "a", "parameters": {'),
    "half-open tilde actions": repeated('~~~json action\n{"tool": "a", '),
    "half-open JSON calls": repeated('```json\n{"tool": "a", "parameters": {}}\n```\n'),
    "nested arrays": behind(_JSON_VALUE, "["),
    "nested objects": behind(_JSON_VALUE, '{"a":'),
    "escapes in a string": behind(_JSON_VALUE + '"', "\\"),
    "escaped quotes in a string": behind(_JSON_VALUE + '"', '\\"'),
    "quotes in a value": behind(_JSON_VALUE + '"', '"', "}}\n```"),
    "smart quotes in a value": behind(_JSON_VALUE + "“", "”", "}}\n```"),
    "commas in a value": behind(_JSON_VALUE + "[", ",", "]}}\n```"),
    "fences in a string": behind(_JSON_VALUE + '"', "\n```\n", '"}}\n```'),
    "long wrapper tag": behind("<tool_calls ", "a=b "),
    "quoted wrapper tag": behind('<tool_calls a="', ">"),
    "wrapper openers": repeated("<|DSML|tool_calls>"),
    "canonical openers": repeated("<tool_calls>\n"),
    "bare invokes": repeated('<invoke name="a"></invoke>'),
    "bare invoke openers": repeated('<invoke name="a">'),
    "invokes without end": behind("<|DSML|tool_calls>", '<|DSML|invoke name="a"></|DSML|invoke>'),
    "wrapper closers": repeated("</tool_calls>"),
    "prefixes": repeated("<|DSML"),
    "keyword prefixes": repeated("<tool_call"),
    "alternating openers": repeated('<tool_calls>```json action\n<invoke name="a">{"tool":'),
    "alternating fences": repeated("```\n~~~\n"),
    "reasoning openers": repeated("<think>"),
    "reasoning without end": behind("<think>", "<tool_calls></thin"),
    "results": behind('```json action\n{"tool": "a", "parameters": {}}\n```\n', "[Tool Result: "),
    "half results": behind('```json action\n{"tool": "a", "parameters": {}}\n```\n', "\n<tool_resul"),
    "sections behind a refused block": behind(_REFUSED, "<![CDATA[a]]> "),
    "nested sections behind a refused block": behind(_REFUSED, "<![CDATA["),
    "ends in a section behind a refused block": behind(_REFUSED + "<![CDATA[", "]]> "),
    "openers in a section behind a refused block": behind(_REFUSED + "<![CDATA[", "<tool_calls>```json action\n"),
    "refused blocks behind a refused block": behind(_REFUSED, '<![CDATA[a]]><invoke name="x"> '),
    "refused blocks in what is given back": lambda size: behind(
        '<tool_calls><invoke name="a">{"b": "' + '<invoke name="x">' * (size // 34), '{"a":</think>', '"}</invoke></tool_calls>'
    )(size),
    "open code span": behind("`a ", '<tool_calls><invoke name="a"></invoke></tool_calls> '),
    "open code spans": repeated('`<tool_calls><invoke name="a"></invoke></tool_calls> ``'),
}


def _sentences(size: int, noise: tuple[str, ...]) -> str:
    source = random.Random(_SEED)
    out: list[str] = []
    length = 0
    words = 0
    while length < size:
        word = source.choice(_WORDS)
        if noise and words % 8 == 7:
            word = source.choice(noise)
        words += 1
        if words % 90 == 0:
            word += ".\n\n"
        elif words % 14 == 0:
            word += ". "
        else:
            word += " "
        out.append(word)
        length += len(word)
    return "".join(out)[:size]


def _call(name: str, value: dict[str, object]) -> Call:
    return Call(id="", name=name, arguments=Arguments(json_values.dumps(value)))

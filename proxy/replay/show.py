"""Comparisons for people. What was said is shown as text, never as markup, control characters made visible."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from proxy.replay.compare import Change, Comparison

_CONTEXT_LINES = 2
_NOT_COMPARED = {
    "client_gone": "its client left",
    "shutting_down": "the process ended",
    "truncated": "the capture was cut at its size bound",
}


def comparison_view(found: Comparison) -> RenderableType:
    """One turn: a line where nothing changed or nothing can be compared, else everything that did."""
    head = Text("turn ").append(_clean(found.rid), "bold").append(f"  {_clean(found.verdict)}  ")
    if found.not_compared is not None:
        head.append(f"not compared: {_NOT_COMPARED[found.not_compared]}", "dim")
    elif found.same:
        head.append("the same as then", "green")
    else:
        head.append("changed", "bold yellow")
    if found.not_compared is not None:
        return head
    parts: list[RenderableType] = [head, *map(_remark, _remarks(found))]
    if found.facts:
        parts.append(Padding(_facts(found.facts), (0, 0, 0, 2)))
    for change in found.answer:
        parts += [Text(f"  {change.what}", "bold"), *_difference(change)]
    return Group(*parts)


def _remarks(found: Comparison) -> list[str]:
    remarks = []
    if found.prompts:
        which = ", ".join(map(str, found.prompts))
        remarks.append(f"The prompt of attempt {which} is another one today: the captured answer was given to the old one.")
    if found.unanswered:
        which = ", ".join(map(str, found.unanswered))
        remarks.append(f"Attempt {which} was not made then: today's pipeline asks where the old one did not, and finds nobody there.")
    return remarks


def _remark(words: str) -> Text:
    return Text(f"  {words}", "dim")


def _facts(facts: list[Change]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "then", "now"):
        table.add_column(name, overflow="fold")
    for change in facts:
        table.add_row(change.what, Text(_shown(change.then), "red"), Text(_shown(change.now), "green"))
    return table


def _difference(change: Change) -> list[Text]:
    if not isinstance(change.then, str) or not isinstance(change.now, str):
        return [Text(f"    - {_shown(change.then)}", "red"), Text(f"    + {_shown(change.now)}", "green")]
    lines = difflib.unified_diff(change.then.splitlines(), change.now.splitlines(), lineterm="", n=_CONTEXT_LINES)
    styles = {"-": "red", "+": "green", "@": "dim"}
    return [Text(f"    {_clean(line)}", styles.get(line[:1], "")) for line in list(lines)[2:]]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return _clean(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _clean(text: str) -> str:
    return "".join(mark if mark.isprintable() else f"\\x{ord(mark):02x}" for mark in text)

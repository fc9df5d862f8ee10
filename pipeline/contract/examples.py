"""Example calls and worked exchanges, built from the caller's own tools (C1, C6).

In: tools. Out: calls, and messages of an invented little conversation. Promise: only declared names, arguments that fit their
schemas, the same for the same tools in any process.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import json_values
from pipeline.contract.samples import sample_arguments
from pipeline.contract.tiers import shorten
from pipeline.turn import Arguments, Call, Message, Result, Role, Text, Tool, ToolKind

MAX_EXAMPLE_TURNS = 3
MAX_CANDIDATES = 16
"""So many tools are looked at for the best ones to show."""
SHORT_CHARS = 120
"""Arguments longer than this (as JSON) make a poor example while shorter ones can be had."""
RESULT = "ok, sample result"


def example_call(tool: Tool, variant: int = 0) -> Call:
    """A legal call of this tool. Variants differ in their values where the schema allows it."""
    return Call(f"example_{variant}", tool.name, Arguments(sample_arguments(tool, variant)), tool.kind)


def best_to_show(tools: Sequence[Tool], wanted: str | None = None) -> list[Tool]:
    """Tools that make good examples, best first: the one named `wanted`, then short calls with an argument, in the caller's order."""
    first = [tool for tool in tools if tool.name == wanted]
    rest = [tool for tool in tools if tool.name != wanted][: MAX_CANDIDATES - len(first)]
    return first + sorted(rest, key=_awkwardness)


def _awkwardness(tool: Tool) -> tuple[bool, bool, int]:
    """Functions before raw texts, calls that show an argument before empty ones, short before long. Sorting keeps the caller's order."""
    size = len(example_call(tool).arguments.text())
    return (tool.kind is ToolKind.CUSTOM, size <= len("{}"), size if size > SHORT_CHARS else 0)


def example_turns(tools: Sequence[Tool], count: int, reminder: str) -> list[Message]:
    """So many worked exchanges with the tools, best first: request, call, result, next step.

    With two or more of them, and two tools, the first goes on to a second call after the result. It is not the last one: a weak model does what
    it saw last, and would call for ever.
    """
    messages: list[Message] = []
    for number in range(min(count, MAX_EXAMPLE_TURNS) if tools else 0):
        steps = [example_call(tools[number % len(tools)], number + 1)]
        if number == 0 and count > 1 and len(tools) > 1:
            steps.append(example_call(tools[1], number + 2))
        by_name = {tool.name: tool for tool in tools}
        request = ", then ".join(_request(by_name[step.name], step) for step in steps)
        messages.append(_said(Role.USER, f"{request}\n\n{reminder}"))
        for step in steps:
            messages += [Message(Role.ASSISTANT, (step,)), Message(Role.USER, (Result(step.id, (Text(RESULT),), step.name),))]
        messages.append(_said(Role.ASSISTANT, f"Done: {', '.join(dict.fromkeys(step.name for step in steps))} returned {RESULT}."))
    return messages


def _request(tool: Tool, call: Call) -> str:
    """What somebody would say to get this call made."""
    value = call.arguments.value() or {}
    told = {name: item if isinstance(item, str) else json_values.dumps(item) for name, item in value.items()}
    given = next(iter(told.values())) if len(told) == 1 else ", ".join(f"{name} {item}" for name, item in told.items())
    about = shorten(tool.description, 80).rstrip(".") or f"Use {tool.name}"
    return f"{about}: {given}" if given else about


def _said(role: Role, text: str) -> Message:
    return Message(role, (Text(text),))

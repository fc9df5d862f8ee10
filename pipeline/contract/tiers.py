"""How much of each tool is shown (C9): its whole schema, a signature with short descriptions, or names and one line.

In: tools and a tier. Out: the list of tools as text, deterministic. Promise: every tool is in it, at every tier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipeline import json_values
from pipeline.contract import schemas
from pipeline.contract.signatures import signature
from pipeline.turn import Tool, ToolKind
from pipeline.verdicts import Tier

COMPACT_CHARS = 300
ARGUMENT_CHARS = 100
NAMES_CHARS = 100
_SPACES = re.compile(r"\s+")


def list_tools(tools: Sequence[Tool], tier: Tier, *, whole: str | None = None) -> str:
    """All tools at this tier. With `whole`, the tool of that name stands at it and the others at the lowest (C3, named choice)."""
    separator = "\n\n" if tier is Tier.FULL else "\n"
    return separator.join(_RENDERERS[tier if whole in (None, tool.name) else Tier.NAMES](tool) for tool in tools)


def _full(tool: Tool) -> str:
    lines = [f"Tool: {tool.name}"]
    if tool.description.strip():
        lines.append(tool.description.strip())
    if tool.kind is ToolKind.CUSTOM:
        lines += _custom(tool)
    elif _takes_nothing(tool):
        lines.append("Arguments: none")
    else:
        lines.append(f"Arguments (JSON Schema): {_schema_text(tool.parameters)}")
    return "\n".join(lines)


def _compact(tool: Tool) -> str:
    line = f"- {signature(tool)}"
    about = shorten(tool.description, COMPACT_CHARS)
    lines = [f"{line}: {about}" if about else line]
    if tool.kind is ToolKind.CUSTOM:
        return "\n".join([*lines, *(f"  {note}" for note in _custom(tool))])
    schema = schemas.resolve(tool.parameters, tool.parameters)
    for name, value in schemas.properties(schema, tool.parameters).items():
        described = schemas.resolve(value, tool.parameters).get("description")
        if described is None and isinstance(value, Mapping):
            described = value.get("description")
        if isinstance(described, str) and described.strip():
            lines.append(f"  {name}: {shorten(described, ARGUMENT_CHARS)}")
    return "\n".join(lines)


def _names(tool: Tool) -> str:
    about = shorten(tool.description, NAMES_CHARS)
    line = f"- {signature(tool, typed=False)}"
    return f"{line}: {about}" if about else line


_RENDERERS = {Tier.FULL: _full, Tier.COMPACT: _compact, Tier.NAMES: _names}


def _custom(tool: Tool) -> list[str]:
    """What a custom tool takes: one raw text, and the grammar it has to follow (CR03)."""
    lines = ["Arguments: input (string), the raw text for the tool"]
    form = tool.format or {}
    definition = form.get("definition")
    if isinstance(definition, str) and definition.strip():
        lines.append(f"The text follows this {form.get('syntax', '')} grammar:".replace("  ", " "))
        lines.append(definition.strip())
    return lines


def _takes_nothing(tool: Tool) -> bool:
    schema = schemas.resolve(tool.parameters, tool.parameters)
    return not schemas.properties(schema, tool.parameters) and not schemas.alternatives(schema) and "additionalProperties" not in schema


def _schema_text(schema: Mapping[str, object]) -> str:
    """Compact JSON. `$schema` names a draft, which tells a model nothing and stands in every tool of some agents."""
    return json_values.dumps({key: value for key, value in schema.items() if key != "$schema"})


def shorten(text: str, limit: int) -> str:
    """The text on one line, cut at the end of a sentence or word within `limit` characters."""
    line = _SPACES.sub(" ", text[: 8 * limit]).strip()
    if len(line) <= limit:
        return line
    head = line[:limit]
    sentence = max(head.rfind(". "), head.rfind("。"))
    if sentence >= limit // 3:
        return head[: sentence + 1]
    word = line.rfind(" ", 0, limit - 2)
    return f"{line[: word if word >= limit // 2 else limit - 3].rstrip(' ,;:')}..."

"""From a name and a value to a call: names resolved (S9), arguments typed by the tool's schema (S10), echo escapes undone (C10).

One `Calls` serves all blocks of an answer; every dialect uses it, so that all of them agree. It is no security boundary: an undeclared name is
a call as well, unless the route says otherwise (`unknown_tools`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pipeline import json_values
from pipeline.dialects.options import ParserOptions
from pipeline.text import echo, schema_types
from pipeline.turn import Tool, ToolKind
from pipeline.verdicts import BlockOutcome, Repair

PLACEHOLDERS = frozenset(
    {
        *("NAME", "TOOL", "TOOL_NAME", "TOOL NAME", "tool_name", "FUNCTION_NAME", "function_name", "...", "…"),
        *("<name>", "<tool>", "<tool_name>", "<tool name>", "{name}", "{tool_name}", "$NAME", "$TOOL_NAME"),
    }
)
"""Names that stand in descriptions of formats; they are calls only where a tool is declared under just that name (S9)."""
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.")


class Written(msgspec.Struct, frozen=True):
    """One call. `arguments` is JSON text of an object."""

    name: str
    arguments: str
    kind: ToolKind = ToolKind.FUNCTION


class Fault(msgspec.Struct, frozen=True):
    """Why something that looks like a call is none."""

    outcome: BlockOutcome
    text: str


class Found(msgspec.Struct, frozen=True):
    """A resolved name. `tool` is None for an undeclared one."""

    name: str
    tool: Tool | None
    repair: Repair | None = None


class Calls:
    """Makes calls for one answer."""

    __slots__ = ("_folded", "_options", "_tools", "_unescape")

    def __init__(self, options: ParserOptions, *, unescape: bool = False) -> None:
        """Index the declared tools."""
        self._options = options
        self._unescape = unescape
        # A tool without a name cannot be called, not even by a prefix with nothing behind it (S9).
        self._tools = {tool.name: tool for tool in options.tools if tool.name.strip()}
        self._folded: dict[str, Tool | None] = {}
        for tool in self._tools.values():
            key = tool.name.strip().casefold()
            self._folded[key] = None if key in self._folded else tool

    @property
    def unescapes(self) -> bool:
        """Does this answer hold echo escapes?"""
        return self._unescape

    def find(self, name: str) -> Found | Fault:
        """Exactly, then ignoring case and space where that is unique, then without a known prefix (S9)."""
        tool = self._tools.get(name)
        if tool is not None:
            return Found(name, tool)
        plain = name.strip()
        if not plain:
            return Fault(BlockOutcome.MALFORMED, "the tool name is empty")
        tool = self._near(plain)
        if tool is not None:
            return Found(tool.name, tool, Repair.NAME_CASE)
        for prefix in _PREFIXES:
            if plain.startswith(prefix) and (tool := self._tools.get(plain[len(prefix) :]) or self._near(plain[len(prefix) :])) is not None:
                return Found(tool.name, tool, Repair.NAME_PREFIX)
        if plain in PLACEHOLDERS:
            return Fault(BlockOutcome.PLACEHOLDER, f"{plain!r} is a placeholder, not the name of a tool")
        return Found(name, None)

    def _near(self, name: str) -> Tool | None:
        return self._folded.get(name.casefold())

    def make(self, found: Found, arguments: Mapping[str, object], repairs: list[Repair], *, fixed: Collection[str] = ()) -> Written | Fault:
        """The call, its arguments undone of escapes and, but for those in `fixed`, typed; notes what that took in `repairs`."""
        if found.tool is None and self._options.unknown_tools != "forward":
            return Fault(BlockOutcome.UNKNOWN_TOOL, f"there is no tool named {found.name!r}")
        if found.repair is not None:
            repairs.append(found.repair)
        kind = found.tool.kind if found.tool is not None else ToolKind.FUNCTION
        try:
            value: object = unescaped(arguments) if self._unescape else arguments
            if found.tool is not None:
                schema = found.tool.parameters
                typed = schema_types.fit(value, schema, schema)
                if typed is not value and isinstance(typed, dict) and isinstance(value, dict):
                    typed |= {key: item for key, item in value.items() if key in fixed}
                if typed != value:
                    repairs.append(Repair.VALUE_TYPE)
                    value = typed
            return Written(found.name, json_values.dumps(value), kind)
        except (json_values.NotJsonError, RecursionError):
            return Fault(BlockOutcome.BAD_ARGUMENTS, "the arguments nest too deep")

    def schema_of(self, found: Found, parameter: str) -> schema_types.Schema | None:
        """What the tool says about a parameter; None when it says nothing, or is not declared."""
        if found.tool is None:
            return None
        schema = found.tool.parameters
        return schema_types.property_schema(schema, parameter, schema)

    def missing(self, found: Found, arguments: Mapping[str, object]) -> list[str]:
        """Required arguments that are not there, sorted."""
        if found.tool is None:
            return []
        schema = found.tool.parameters
        return sorted(name for name in schema_types.required(schema, schema) if name not in arguments)


def unescaped(value: object) -> object:
    """The value with echo escapes undone in every string, keys included."""
    if isinstance(value, str):
        return echo.unescape(value)
    if isinstance(value, list):
        return [unescaped(item) for item in value]
    if isinstance(value, Mapping):
        return {echo.unescape(key): unescaped(item) for key, item in value.items()}
    return value

"""Tools for the tests of the contract: hand-made ones and those of real agents' requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.turn import CUSTOM_INPUT, Tool, ToolKind

AGENTS = sorted((Path(__file__).parents[2] / "cases" / "agent_requests").glob("*.json"))

WEATHER = Tool(
    "get_weather",
    "Get the weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string", "description": "name of the city"}}, "required": ["city"]},
)
NOTE = Tool("save_note", "Save a note.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
PING = Tool("ping")
RAW = Tool(
    "apply_patch",
    "Apply a patch.",
    {"type": "object", "properties": {CUSTOM_INPUT: {"type": "string"}}, "required": [CUSTOM_INPUT]},
    kind=ToolKind.CUSTOM,
    format={"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def agent_tools(path: Path) -> tuple[Tool, ...]:
    """The functions of a recorded request, in whichever of the three forms they stand."""
    return tuple(_tool(entry) for entry in _flat(json.loads(path.read_text())["tools"]))


def _flat(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [tool for entry in entries for tool in entry.get("tools", [entry]) if tool.get("name") or tool.get("function")]


def _tool(entry: dict[str, Any]) -> Tool:
    inner = entry.get("function", entry)
    kind = ToolKind.CUSTOM if entry.get("type") == "custom" and "input_schema" not in entry else ToolKind.FUNCTION
    return Tool(inner["name"], inner.get("description", ""), inner.get("parameters") or inner.get("input_schema") or {}, kind=kind)

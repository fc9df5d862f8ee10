"""The demo's two tools, in both SDKs' forms, and what they really do: a small weather table and a notebook in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WEATHER = {"oslo": "4 degrees and rain", "rome": "21 degrees and sunny", "cairo": "33 degrees and dry", "lima": "18 degrees and foggy"}

GET_WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "name of the city"}},
    "required": ["city"],
}
SAVE_NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "what to write down"}},
    "required": ["text"],
}
_TOOLS = (("get_weather", "Get the weather of a city.", GET_WEATHER), ("save_note", "Save a note.", SAVE_NOTE))

OPENAI_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": about, "parameters": schema}} for name, about, schema in _TOOLS
]
ANTHROPIC_TOOLS: list[dict[str, Any]] = [{"name": name, "description": about, "input_schema": schema} for name, about, schema in _TOOLS]


class Workbench:
    """Runs calls. Bad arguments and unknown names come back as error texts, as a careful agent would report them."""

    def __init__(self) -> None:
        """Start with an empty notebook."""
        self.notes: list[str] = []
        self.calls = 0

    def run(self, name: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Run one call: (result text, is it an error)."""
        self.calls += 1
        if name == "get_weather":
            city = arguments.get("city")
            if not isinstance(city, str):
                return "error: city must be a string", True
            found = WEATHER.get(city.strip().lower())
            return (f"{found} in {city}", False) if found else (f"error: no weather is known for {city}", True)
        if name == "save_note":
            text = arguments.get("text")
            if not isinstance(text, str) or not text:
                return "error: text must be a non-empty string", True
            self.notes.append(text)
            return f"saved note {len(self.notes)}", False
        return f"error: there is no tool named {name}", True

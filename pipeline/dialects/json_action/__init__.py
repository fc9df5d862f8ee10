"""The dialect `json_action`: a fence with the info string `json action` that holds `{"tool": ..., "parameters": {...}}` (S7, S8)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dialects.json_action.render import render_calls
from pipeline.turn import Call, Tool


class JsonAction:
    """Writes, teaches and reads action fences."""

    name = "json_action"
    form = "a fenced `json action` block"
    markers = ("```json action", "~~~json action")

    def describe(self, tools: Sequence[Tool], example: Call | None) -> str:
        """The format rules, with the example as a block; see `prompt.py`."""
        from pipeline.dialects.json_action.prompt import describe  # noqa: PLC0415 - the contract needs it, the parser never does

        return describe(tools, render_calls([example]) if example is not None else "")

    def render_calls(self, calls: Sequence[Call]) -> str:
        """One fence per call."""
        return render_calls(calls)

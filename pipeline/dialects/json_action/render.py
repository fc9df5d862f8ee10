"""How we write `json_action` blocks: for the contract's example and for the history (C4).

In: calls. Out: one fence per call, compact JSON in it. Promise: parsing it gives the same calls back, whatever the strings hold,
since the end of the object is found outside of strings and JSON has no bare backtick.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import json_values
from pipeline.turn import Call


def render_calls(calls: Sequence[Call]) -> str:
    """All blocks, one behind the other; empty for no calls. Arguments that are no JSON object are quoted as one string."""
    return "\n".join(_block(call) for call in calls)


def _block(call: Call) -> str:
    value = call.arguments.value()
    arguments = json_values.dumps(call.arguments.raw if value is None else value)
    return f'```json action\n{{"tool": {json_values.dumps(call.name)}, "parameters": {arguments}}}\n```'

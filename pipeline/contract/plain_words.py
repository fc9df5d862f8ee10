"""Calls and results as plain words, for turns in which nothing can be called (N2, C3 `none`).

In: calls and results. Out: text that no parser and no model takes for a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.contract.results import Returned, body, heading
from pipeline.turn import Call


def tell_calls(calls: Sequence[Call]) -> str:
    """What was called, a line each."""
    return "\n".join(f"I used the tool {call.name} with these arguments: {call.arguments.text()}" for call in calls)


def tell_results(results: Sequence[Returned]) -> str:
    """What came back, a paragraph each."""
    return "\n\n".join(f"Tool result: {heading(one)}\n{body(one.result)}" for one in results)

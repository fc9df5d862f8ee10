"""How the contract teaches `dsml` (C2): the rules around one legal block.

In: the tools, and an example block that `render.py` made. Out: text. Promise: it shows no block but that example, so that no
name that was not declared can be called from it (C7).
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.turn import Tool

FORM = "a DSML tool_calls block"
"""What a block is called in one line, without its markers."""


def describe(tools: Sequence[Tool], example: str) -> str:
    """The format rules. `example` is a whole block, or empty when there is no tool to show one with."""
    several = " Several calls are several invoke elements in one tool_calls element." if len(tools) > 1 else ""
    rules = (
        "A string argument stands in CDATA exactly as it is, nothing escaped. Numbers, true, false, null, arrays and objects are "
        f"written as JSON, without CDATA.{several} Write the tags as they are, not in a code fence."
    )
    if not example:
        return f"A call is {FORM}: tool_calls holds an invoke element with the tool's name, that a parameter element for each argument. {rules}"
    return f"A call is {FORM}:\n\n{example}\n\n{rules}"

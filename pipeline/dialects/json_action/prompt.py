"""How the contract teaches `json_action` (C2): the rules around one legal block.

In: the tools, and an example block that `render.py` made. Out: text. Promise: it shows no block but that example, so that no
name that was not declared can be called from it (C7).
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.turn import Tool

FORM = "a fenced `json action` block"
"""What a block is called in one line, without its markers."""


def describe(tools: Sequence[Tool], example: str) -> str:
    """The format rules. `example` is a whole block, or empty when there is no tool to show one with."""
    several = " Each call stands in a block of its own." if len(tools) > 1 else ""
    rules = f"The block holds one valid JSON object: the tool's name and its arguments, nothing else.{several} Write no tags around it."
    if not example:
        return f'A call is {FORM} with the keys "tool" and "parameters". {rules}'
    return f"A call is {FORM}:\n\n{example}\n\n{rules}"

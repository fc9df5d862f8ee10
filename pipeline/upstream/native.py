"""Whether a turn's tools and demands go upstream as such, and in which form. Shared by both request writers.

In: a turn and the route's mode. Out: the tools to declare. Under emulation no tool field ever leaves; where the contract did not speak
(another mode, a chain without it, a history that is still structured) the upstream gets the tools natively.
"""

from __future__ import annotations

from pipeline.turn import Tool, Turn
from pipeline.upstream.wire_names import WireNames
from pipeline.verdicts import Mode


def offered(turn: Turn, mode: Mode) -> tuple[Tool, ...]:
    """The tools to declare upstream: none under emulation; else those that the choice allows."""
    if mode is Mode.EMULATE and (turn.emulation is not None or not turn.has_tool_history):
        return ()
    allowed = turn.tool_choice.allowed
    return turn.tools if allowed is None else tuple(tool for tool in turn.tools if tool.name in allowed)


def names_of(turn: Turn) -> WireNames:
    """The turn's tool names as an upstream takes them."""
    return WireNames(tool.name for tool in turn.tools)


def taught(turn: Turn) -> bool:
    """Whether the contract stands in the messages, and with it the demand for a format of the answer (CR10)."""
    return turn.emulation is not None and turn.emulation.injected

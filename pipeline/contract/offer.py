"""What a turn's tool choice leaves of its tools (C3).

In: tools and a choice. Out: the tools that may be called, none when there is to be no call. Raises ChoiceError for a demand that
cannot be met.
"""

from __future__ import annotations

from pipeline.turn import ChoiceMode, Tool, ToolChoice


class ChoiceError(ValueError):
    """The choice asks for what is not there; the message is meant for the client."""


def offered(tools: tuple[Tool, ...], choice: ToolChoice) -> tuple[Tool, ...]:
    """The tools that an answer may call."""
    names = {tool.name for tool in tools}
    if choice.mandatory and not tools:
        raise ChoiceError("tool_choice demands a call, but the request has no tools")
    if choice.mode is ChoiceMode.NAMED and choice.name not in names:
        raise ChoiceError("tool_choice names a tool that is not among the tools")
    if choice.allowed is not None and not choice.allowed <= names:
        raise ChoiceError("tool_choice allows a tool that is not among the tools")
    if choice.mode is ChoiceMode.NONE:
        return ()
    allowed = tools if choice.allowed is None else tuple(tool for tool in tools if tool.name in choice.allowed)
    if choice.mandatory and not allowed:
        raise ChoiceError("tool_choice demands a call, but allows no tool")
    if choice.mode is ChoiceMode.NAMED and choice.name not in {tool.name for tool in allowed}:
        raise ChoiceError("tool_choice names a tool that it does not allow")
    return allowed

"""What is wrong with the arguments of a call to a strict tool (X35), in words a model can act on (R4).

In: the tools that may be called, and a call. Out: a short sentence, or None where the arguments fit or the tool is not strict. Promise: it
names parameters only, never their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.events import CallDone
from pipeline.text.schema_check import fits, misfits
from pipeline.turn import Arguments, Tool

_NAMED = 5
"""How many parameters a sentence names."""


def strict_fault(tools: Sequence[Tool], call: CallDone) -> str | None:
    """The fault of this call."""
    tool = next((tool for tool in tools if tool.strict and tool.name == call.name), None)
    if tool is None:
        return None
    value = Arguments(call.arguments).value()
    if fits(value, tool.parameters):
        return None
    named = misfits(value, tool.parameters)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    details = f": {', '.join(named[:_NAMED])}{more}" if named else ""
    return f"the arguments of {call.name} do not fit its schema{details}"

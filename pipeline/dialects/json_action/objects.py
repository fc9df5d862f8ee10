"""From one JSON object of a fence to a call, or to the reason why it is none (S7, S8).

In: the object's text. Out: a `Written` call and the repairs it took, or a `Fault`. Keys are `tool` or `name`, and `parameters`, `arguments` or `input`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import json_values
from pipeline.dialects.calls import Calls, Fault, Found, Written
from pipeline.verdicts import BlockOutcome, Repair

NAME_KEYS = ("tool", "name")
ARGUMENT_KEYS = ("parameters", "arguments", "input")


def call_of(item: object, calls: Calls, repairs: list[Repair], *, exact: bool) -> Written | Fault:
    """The call that an object means. `exact` is S8's: declared, two keys, nothing required missing."""
    if not isinstance(item, dict):
        return Fault(BlockOutcome.MALFORMED, "a call is no object")
    name = next((item[key] for key in NAME_KEYS if key in item), None)
    if not isinstance(name, str):
        return Fault(BlockOutcome.MALFORMED, "the tool name is missing or no string")
    found = calls.find(name)
    if isinstance(found, Fault):
        return found
    arguments = _arguments(item, calls, found, repairs)
    if isinstance(arguments, Fault):
        return arguments
    if exact and (found.tool is None or len(item) != 2 or calls.missing(found, arguments)):
        return Fault(BlockOutcome.BAD_ARGUMENTS, "a plain JSON fence counts only with a declared tool and all it requires")
    return calls.make(found, arguments, repairs)


def _arguments(item: Mapping[str, object], calls: Calls, found: Found, repairs: list[Repair]) -> Mapping[str, object] | Fault:
    key = next((key for key in ARGUMENT_KEYS if key in item), None)
    value = item[key] if key is not None else None
    if isinstance(value, dict):
        return value
    if value is None or (isinstance(value, str) and not value.strip()):
        if key is None and found.tool is None:
            return Fault(BlockOutcome.MALFORMED, "there are no arguments, and no tool of that name")
        lacking = calls.missing(found, {})
        if lacking:
            return Fault(BlockOutcome.BAD_ARGUMENTS, f"arguments are missing: {', '.join(lacking[:8])}")
        repairs.append(Repair.MISSING_ARGUMENTS)
        return {}
    if isinstance(value, str):
        try:
            inner = json_values.loads(value)
        except json_values.NotJsonError:
            inner = None
        if isinstance(inner, dict):
            repairs.append(Repair.STRINGIFIED_ARGUMENTS)
            return inner
    return Fault(BlockOutcome.BAD_ARGUMENTS, "the arguments are no JSON object")

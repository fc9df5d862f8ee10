"""Read a JSON object or array that may need narrow repairs (S7): strictly first, then with every repair that the scan can name.

In: the whole text of the value, as `json_scan` found it. Out: the value and the repairs, in the order of S7. A value that no repair makes
strict is refused; nothing is invented, no string is closed.
"""

from __future__ import annotations

from pipeline import json_values
from pipeline.text.json_scan import JsonScanner
from pipeline.verdicts import Repair

_ORDER = {
    repair: at
    for at, repair in enumerate(
        (
            Repair.CONTROL_CHARACTERS,
            Repair.SMART_QUOTES,
            Repair.TRAILING_COMMA,
            Repair.PYTHON_LITERALS,
            Repair.STRINGIFIED_ARGUMENTS,
            Repair.MISSING_ARGUMENTS,
            Repair.INVALID_ESCAPE,
            Repair.INNER_QUOTES,
            Repair.MISSING_BRACKETS,
        )
    )
}


class UnreadableError(ValueError):
    """No narrow repair makes this JSON."""


def in_order(repairs: set[Repair] | list[Repair]) -> list[Repair]:
    """Repairs without doubles in the order in which S7 names them."""
    return sorted(dict.fromkeys(repairs), key=lambda repair: _ORDER.get(repair, len(_ORDER)))


def read(text: str, *, unclosed: bool = False) -> tuple[object, list[Repair]]:
    """The value; `unclosed` when closing brackets are missing at the end. Raises UnreadableError."""
    if not unclosed:
        try:
            return json_values.loads(text), []
        except json_values.NotJsonError:
            pass
    scanner = JsonScanner(strict=True)
    # A mark of a fence is what ends a value without its brackets, so the scan sees one.
    scanner.feed(text + "`" if unclosed else text)
    if unclosed and scanner.value_complete:
        scanner.close_brackets()
    if not scanner.done:
        raise UnreadableError(scanner.fault or "the object is not complete")
    try:
        return json_values.loads("".join(scanner.out)), in_order(scanner.repairs)
    except json_values.NotJsonError as exc:
        raise UnreadableError("the object is not valid JSON") from exc

"""Honest words for calls and results that cannot stay what they were (G2, G3).

In: a call or a result. Out: text. Promise: nothing in it looks like a call of any dialect, and nothing is invented.
"""

from __future__ import annotations

from pipeline import json_values
from pipeline.turn import Call, Image, Media, Result, Text, text_of

QUOTE_BYTES = 4096
"""How much of broken arguments is quoted, in UTF-8 bytes (G2)."""

NO_OUTPUT = "(no output)"
NO_RESULT = "no result was recorded"
"""Said for a call without a result. Never "cancelled": a model that reads that word apologises and stops."""


def poisoned_call(call: Call) -> str:
    """Say that a call was taken out of the history, why, and what its arguments were."""
    raw = call.arguments.text()
    return f"[A call of the tool {call.name} was taken out of the history because its arguments {_fault(raw)}. They were: {_quote(raw)}]"


def result_text(result: Result) -> str:
    """All text of a result; `(no output)` when there is none and no image either."""
    text = text_of(result.content)
    return text if text or media(result) else NO_OUTPUT


def loose_result(result: Result, name: str | None) -> str:
    """A result without its call, as the text of a user message."""
    return f"[Tool Result: {result.name or name or result.call_id or 'unknown tool'}] {result_text(result)}"


def media(result: Result) -> tuple[Image | Media, ...]:
    """What a result holds besides text."""
    return tuple(part for part in result.content if not isinstance(part, Text))


def _fault(raw: str) -> str:
    try:
        json_values.loads(raw)
    except json_values.NotJsonError:
        return "were not valid JSON"
    return "were valid JSON but not an object"


def _quote(raw: str) -> str:
    data = raw.encode(errors="replace")
    if len(data) <= QUOTE_BYTES:
        return raw
    return f"{data[:QUOTE_BYTES].decode(errors='ignore')} ... ({len(data)} bytes in all)"

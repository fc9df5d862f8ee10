"""Tool results as continuation text (C5): which call returned, what, and what to do next.

In: the results of one turn, in call order. Out: the text of one user message. Promise: one wording each for an empty, a failed, a
partial and a missing result; what stands inside a result can neither end it nor begin another (its closing tag is one that the
content does not hold).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from pipeline.history import records
from pipeline.turn import Result

FAILED = "The tool reported an error:"
PARTIAL = "Partial result:"
MISSING = "No result was recorded for this call. It may or may not have run."
_TAG = "tool_result"
_CLOSER = re.compile(r"[/／∕⁄⧸]\W{0,8}(?:dsml\W{0,8})?tool_result_?(\d{0,6})", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"<>&`\u2028\u2029]")
_MAX_ATTRIBUTE = 128


class Returned(msgspec.Struct, frozen=True):
    """A result with the name of its call and its position among the calls of its turn (from 1), where these are known."""

    result: Result
    name: str | None = None
    position: int = 0
    total: int = 0


def render_results(results: Sequence[Returned], text: Callable[[str], str]) -> str:
    """All results, one behind the other. `text` makes somebody else's text safe to show."""
    bodies = [text(body(one.result)) for one in results]
    tag = _free_tag(bodies)
    return "\n".join(f"<{tag}{_attributes(one)}>\n{content}\n</{tag}>" for one, content in zip(results, bodies, strict=True))


def body(result: Result) -> str:
    """The words of one result, stating what is special about it."""
    if result.is_missing:
        return MISSING
    content = records.result_text(result)
    attached = len(records.media(result))
    if attached:
        note = "(1 attachment below)" if attached == 1 else f"({attached} attachments below)"
        content = f"{content}\n{note}" if content else note
    if result.is_error:
        content = f"{FAILED}\n{content}"
    return f"{PARTIAL}\n{content}" if result.is_partial else content


def _attributes(returned: Returned) -> str:
    call = f"{returned.position} of {returned.total}" if returned.total > 1 and returned.position else ""
    known = (("tool", returned.name or returned.result.name or ""), ("call", call), ("id", returned.result.call_id))
    return "".join(f' {key}="{_UNSAFE.sub("_", value)[:_MAX_ATTRIBUTE]}"' for key, value in known if value)


def _free_tag(bodies: Sequence[str]) -> str:
    """`tool_result`, numbered higher than any that the bodies close."""
    taken = [int(found[1] or 1) for content in bodies for found in _CLOSER.finditer(content)]
    return f"{_TAG}_{max(taken) + 1}" if taken else _TAG

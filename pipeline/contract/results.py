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

MISSING = "No result was recorded for this call; it may or may not have run."
_TAG = "tool_result"
_CLOSER = re.compile(r"[/／∕⁄⧸]\W{0,8}(?:dsml\W{0,8})?tool_result_?(\d{0,6})", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f<>`~\u2028\u2029]")
_MAX_WORD = 128


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
    return "\n".join(f"<{tag}>\n{heading(one)}\n{content}\n</{tag}>" for one, content in zip(results, bodies, strict=True))


def heading(returned: Returned) -> str:
    """Which call it is, and how it went: one wording each. In words, since models copy attributes of a tag into their own tags."""
    result = returned.result
    call = f"call {returned.position} of {returned.total}" if returned.total > 1 and returned.position else ""
    which = ", ".join(filter(None, (call, _one_line(result.call_id))))
    name = _one_line(returned.name or result.name or "") or "An earlier call"
    return f"{name}{f' ({which})' if which else ''} {_manner(result)}:"


def _manner(result: Result) -> str:
    if result.is_missing:
        return "has no result"
    if result.is_error:
        return "failed, with part of its output" if result.is_partial else "failed"
    return "returned a partial result" if result.is_partial else "returned"


def body(result: Result) -> str:
    """The words of one result."""
    if result.is_missing:
        return MISSING
    content = records.result_text(result)
    attached = len(records.media(result))
    if not attached:
        return content
    note = "(1 attachment below)" if attached == 1 else f"({attached} attachments below)"
    return f"{content}\n{note}" if content else note


def _one_line(text: str) -> str:
    return _UNSAFE.sub("_", text[:_MAX_WORD])


def _free_tag(bodies: Sequence[str]) -> str:
    """`tool_result`, numbered higher than any that the bodies close."""
    named = [content for content in bodies if _TAG in content.lower()]
    taken = [int(found[1] or 1) for content in named for found in _CLOSER.finditer(content)]
    return f"{_TAG}_{max(taken) + 1}" if taken else _TAG

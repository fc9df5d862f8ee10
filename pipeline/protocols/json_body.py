"""The bytes of a request body into one JSON object (X26, X36).

In: raw bytes and the limits of the door. Out: a dict, or a StageError with a 4xx of its own. Promise: what comes out nests no deeper than the
limit, so that the rest of the product may walk it freely, and holds no lone surrogate (N5); big integers keep every digit.
"""

from __future__ import annotations

import msgspec

from pipeline import json_values
from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import ErrorKind

_BOM = b"\xef\xbb\xbf"


class BodyLimits(msgspec.Struct, frozen=True):
    """What a body may measure: bytes as received, and levels of arrays and objects (1 is the body's own)."""

    max_bytes: int = 32 << 20
    max_depth: int = 128


DEFAULT_LIMITS = BodyLimits()


def parse_body(raw: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> dict[str, object]:
    """Parse the body. Raises StageError: TOO_LARGE beyond `max_bytes`, else INVALID_REQUEST for what is no JSON object or nests too deep."""
    if len(raw) > limits.max_bytes:
        raise StageError(Failed(ErrorKind.TOO_LARGE, f"The request body is larger than {limits.max_bytes} bytes."))
    value = _value_of(raw.removeprefix(_BOM))
    if not isinstance(value, dict):
        raise _invalid("The request body must be a JSON object.")
    if too_deep(value, limits.max_depth):
        raise _invalid(f"The request body nests deeper than {limits.max_depth} levels.")
    return value


def too_deep(value: object, limit: int) -> bool:
    """Whether arrays and objects nest in more than `limit` levels. Goes level by level: no recursion, linear time."""
    level: list[object] = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            return True
        level = [
            inner
            for holder in level
            for inner in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
            if isinstance(inner, dict | list)
        ]
    return False


def _value_of(raw: bytes) -> object:
    try:
        return json_values.loads(raw)
    except json_values.NotJsonError:
        pass
    # What is JSON but for lone surrogates, escaped or encoded, is repaired and not refused.
    try:
        return json_values.loads(raw.decode("utf-8", "surrogatepass"))
    except (UnicodeDecodeError, json_values.NotJsonError):
        raise _invalid("We could not parse the JSON body of your request.") from None


def _invalid(message: str) -> StageError:
    return StageError(Failed(ErrorKind.INVALID_REQUEST, message))

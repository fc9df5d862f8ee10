"""The words that stand for content which cannot go on as it is (N5), and readable records of what other servers ran.

In: a kind of content, or a JSON value. Out: short text in square brackets. Promise: bounded length, and nothing encrypted or binary in it.
"""

from __future__ import annotations

import re

from pipeline import json_values

_MAX_RECORD_CHARS = 2000
_MAX_LEVELS = 8
_LABEL = re.compile(r"[^A-Za-z0-9_.-]")
# Opaque to everybody but the server that wrote it, or too big to be of use as text.
_OPAQUE = frozenset({
    "encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "data", "file_data", "image_url", "fingerprint",
})  # fmt: skip


def label(name: object) -> str:
    """A client's type name, made short and harmless."""
    return _LABEL.sub("", name)[:40] or "unknown" if isinstance(name, str) else "unknown"


def omitted(what: str) -> str:
    """The placeholder for content that is left out."""
    return f"[{what} omitted]"


def unknown_part(kind: object) -> str:
    """The placeholder for a kind of content that nobody here knows."""
    return omitted(f"content of type {label(kind)}")


def record(what: str, value: object) -> str:
    """A record of something that happened elsewhere, with its readable fields as JSON, cut at 2,000 characters."""
    try:
        text = json_values.dumps(_readable(value, _MAX_LEVELS))
    except json_values.NotJsonError:
        return f"[{what}]"
    if len(text) > _MAX_RECORD_CHARS:
        text = f"{text[:_MAX_RECORD_CHARS]}... ({len(text)} characters)"
    return f"[{what}: {text}]"


def json_text(value: object) -> str:
    """The value as JSON text, whole; a placeholder for what cannot be written."""
    try:
        return json_values.dumps(value)
    except json_values.NotJsonError:
        return omitted("value")


def _readable(value: object, levels: int) -> object:
    if isinstance(value, dict):
        if not levels:
            return "..."
        return {key: _readable(inner, levels - 1) for key, inner in value.items() if key not in _OPAQUE}
    if isinstance(value, list):
        return [_readable(inner, levels - 1) for inner in value] if levels else "..."
    return value

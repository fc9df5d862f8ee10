"""Limits of the original APIs that this one could do without (X37): `strict` asks for them, what an answer repeats needs them always.

In: a value of a request and its place. Out: the value, or a StageError that names the field.
"""

from __future__ import annotations

from pipeline.protocols import fields
from pipeline.protocols.fields import Json, Place

MAX_ITEMS = 100_000
"""Messages, or input items, of one request."""
MAX_OUTPUT_CHARS = 10_485_760
"""Text that one tool returned."""
_MAX_PAIRS = 16
_MAX_KEY_CHARS = 64
_MAX_VALUE_CHARS = 512


def bounded_metadata(body: Json, place: Place) -> dict[str, object] | None:
    """The metadata: at most 16 pairs, keys of 64 characters, values that are texts of 512. None where it is absent or null."""
    metadata = fields.optional_object(body, "metadata", place)
    if metadata is None:
        return None
    here = place.at("metadata")
    if len(metadata) > _MAX_PAIRS:
        raise here.wrong(f"must have at most {_MAX_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY_CHARS:
            raise here.wrong(f"all keys must have at most {_MAX_KEY_CHARS} characters")
        if not isinstance(value, str) or len(value) > _MAX_VALUE_CHARS:
            raise here.wrong(f"all values must be strings of at most {_MAX_VALUE_CHARS} characters")
    return metadata


def bounded_output(text: str, place: Place) -> str:
    """What a tool returned, as the original API would take it."""
    if len(text) > MAX_OUTPUT_CHARS:
        raise place.wrong(f"must have at most {MAX_OUTPUT_CHARS} characters")
    return text

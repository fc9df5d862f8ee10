"""Typed reading of a request body, with errors that name the field (N3, X25, X26).

In: JSON values as a client sent them, and the place where they stand. Out: values of the wanted type, or a StageError whose message and
`parameter` give the path in the protocol's own spelling: `tools[0].name` for OpenAI, `tools.0.name` for Anthropic.
Promise: no other exception for any JSON value; text comes out well formed (lone surrogates are U+FFFD, N5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline import json_values
from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import Api, ErrorKind

Json = Mapping[str, object]

_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class Place:
    """Where in a request body something stands. Cheap to make; the path is written out only when an error needs it."""

    __slots__ = ("api", "parent", "step")

    def __init__(self, api: Api, parent: Place | None = None, step: str | int = "") -> None:
        """The body of a request of this protocol, or a place one step further in than `parent`."""
        self.api = api
        self.parent = parent
        self.step = step

    def at(self, step: str | int) -> Place:
        """The place one field name or list index further in."""
        return Place(self.api, self, step)

    @property
    def dots(self) -> bool:
        """Whether this protocol spells paths with dots alone."""
        return self.api is Api.ANTHROPIC_MESSAGES

    def __str__(self) -> str:
        """The path from the body; empty for the body itself."""
        steps: list[str | int] = []
        here = self
        while here.parent is not None:
            steps.append(here.step)
            here = here.parent
        text = ""
        for step in reversed(steps):
            if isinstance(step, int) and not self.dots:
                text += f"[{step}]"
            else:
                text += f".{step}" if text else str(step)
        return text

    def missing(self) -> StageError:
        """Say that a required field is not there."""
        path = str(self)
        return _error(f"{path}: Field required" if self.dots else f"Missing required parameter: '{path}'.", path)

    def expected(self, what: str, value: object) -> StageError:
        """Say what should stand here (`what` with its article) and what kind of value does."""
        path = str(self)
        if self.dots:
            return _error(f"{path}: Input should be {what}" if path else f"Input should be {what}", path)
        got = _KINDS.get(type(value), "something else")
        return _error(f"Invalid type for '{path}': expected {what}, but got {got} instead.", path)

    def wrong(self, sentence: str, kind: ErrorKind = ErrorKind.INVALID_REQUEST, code: str | None = None) -> StageError:
        """Say in one sentence what is wrong with the value here."""
        path = str(self)
        return _error(f"{path}: {sentence}" if self.dots else f"Invalid '{path}': {sentence}", path, kind, code)


def _error(message: str, path: str, kind: ErrorKind = ErrorKind.INVALID_REQUEST, code: str | None = None) -> StageError:
    return StageError(Failed(kind, message, parameter=path or None, code=code))


def as_object(value: object, place: Place) -> dict[str, object]:
    """The value as an object."""
    if not isinstance(value, dict):
        raise place.expected("an object", value)
    return value


def as_text(value: object, place: Place) -> str:
    """The value as text."""
    if not isinstance(value, str):
        raise place.expected("a string", value)
    return json_values.well_formed(value)


def optional_text(body: Json, key: str, place: Place) -> str | None:
    """The text under the key; None where it is absent or null."""
    value = body.get(key)
    return None if value is None else as_text(value, place.at(key))


def required_text(body: Json, key: str, place: Place) -> str:
    """The text under the key, which must be there and must not be empty."""
    value = body.get(key)
    if value is None:
        raise place.at(key).missing()
    text = as_text(value, place.at(key))
    if not text.strip():
        raise place.at(key).wrong("must not be empty")
    return text


def flag(body: Json, key: str, place: Place, *, default: bool = False) -> bool:
    """The boolean under the key; the default where it is absent or null."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise place.at(key).expected("a boolean", value)
    return value


def whole(body: Json, key: str, place: Place, *, least: int = 0) -> int | None:
    """The integer under the key, not below `least`; None where it is absent or null. A number like 512.0 is an integer too."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.at(key).expected("an integer", value)
    if value < least:
        raise place.at(key).wrong(f"must be at least {least}")
    return value


def number(body: Json, key: str, place: Place) -> int | float | None:
    """The number under the key; None where it is absent or null."""
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise place.at(key).expected("a number", value)
    return value


def optional_object(body: Json, key: str, place: Place) -> dict[str, object] | None:
    """The object under the key; None where it is absent or null."""
    value = body.get(key)
    return None if value is None else as_object(value, place.at(key))


def elements(body: Json, key: str, place: Place) -> list[object]:
    """The array under the key; empty where it is absent or null."""
    value = body.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise place.at(key).expected("an array", value)
    return value


def objects(body: Json, key: str, place: Place) -> Iterator[tuple[dict[str, object], Place]]:
    """The objects in the array under the key, each with its place; none where it is absent or null."""
    inside = place.at(key)
    for index, value in enumerate(elements(body, key, place)):
        here = inside.at(index)
        yield as_object(value, here), here


def texts(body: Json, key: str, place: Place) -> tuple[str, ...]:
    """The texts in the array under the key, empty ones left out; none where it is absent or null."""
    inside = place.at(key)
    found = (as_text(value, inside.at(index)) for index, value in enumerate(elements(body, key, place)))
    return tuple(text for text in found if text)

"""A capture file in, a checked value out. Raises CaptureError with words that name the file's fault and hold nothing of its content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pipeline import json_values
from pipeline.verdicts import Api
from proxy.telemetry.capture import ABORTED, COMPLETE, FORMAT, bytes_of

Kept = str | dict[str, str]


class CaptureError(ValueError):
    """The file is no capture that can be replayed."""


class Request(msgspec.Struct, frozen=True):
    """What the client asked. `route` is the label of the route it took then."""

    api: Api
    route: str
    headers: dict[str, str]
    body: Kept


class Answered(msgspec.Struct, frozen=True):
    """One attempt. `ended` is `complete`, `aborted` (by us), or how the wire failed; `status` 0 where nothing was answered. Times in ms."""

    number: int
    cause: str
    upstream: str
    path: str
    request: Kept
    status: int
    headers: dict[str, str]
    chunks: list[Kept]
    times_ms: list[float] = []
    opened_ms: float = 0.0
    ended_ms: float | None = None
    ended: str = COMPLETE

    def timed(self) -> list[tuple[float, bytes]]:
        """The reads of the body, each with its time in seconds. Without recorded times everything came at once."""
        times = self.times_ms if len(self.times_ms) == len(self.chunks) else [self.opened_ms] * len(self.chunks)
        return [(at / 1000, bytes_of(chunk)) for at, chunk in zip(times, self.chunks, strict=True)]

    @property
    def end_s(self) -> float | None:
        """When it ended, in seconds; None for one that we closed."""
        if self.ended == ABORTED:
            return None
        last = max((self.opened_ms, *self.times_ms))
        return (self.ended_ms if self.ended_ms is not None else last) / 1000


class Captured(msgspec.Struct, frozen=True):
    """A whole turn."""

    format: int
    rid: str
    truncated: bool
    request: Request
    attempts: list[Answered]
    client: Kept
    turn: dict[str, Any]

    @property
    def client_bytes(self) -> bytes:
        """What the client got, headers left out."""
        return bytes_of(self.client)


def read_capture(path: Path) -> Captured:
    """Read one file. Raises CaptureError."""
    try:
        found = json_values.loads(path.read_bytes())
    except OSError as exc:
        raise CaptureError(f"{path}: cannot be read: {exc.strerror}") from None
    except json_values.NotJsonError:
        raise CaptureError(f"{path}: is no JSON") from None
    if not isinstance(found, Mapping) or not isinstance(found.get("format"), int):
        raise CaptureError(f"{path}: is no capture")
    if found["format"] > FORMAT:
        raise CaptureError(f"{path}: was written by a later version (format {found['format']}; this one reads up to {FORMAT})")
    if not found.get("request"):
        raise CaptureError(f"{path}: holds no request: the turn was refused before it became one")
    try:
        return msgspec.convert(found, Captured)
    except msgspec.ValidationError as exc:
        raise CaptureError(f"{path}: is no whole capture: {exc}") from None

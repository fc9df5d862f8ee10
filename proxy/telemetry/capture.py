"""Whole turns as files, for replay: the request, every upstream answer as it came, what the client got. Off unless a folder is configured.

In: bytes as they pass. Out: one JSON file a turn, readable by its owner alone. Promise: prompts go here and nowhere else; neither one turn nor the
folder outgrows its bound (the oldest files go first); a full disk costs the capture, never the turn. No header with a key in it is kept.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from pipeline import json_values
from pipeline.commands import Send
from proxy.config.tree import Capture
from proxy.transport import TransportError

FORMAT = 2
COMPLETE, ABORTED = "complete", "aborted"
"""How an upstream's answer ended, besides the outcomes of the wire: in order, or closed by us while it was still being written."""
_KEPT_HEADERS = ("content-type",)


class Answer(Protocol):
    """An upstream's answer as the driver reads it."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body."""

    def abort(self) -> None:
        """Close the connection at once."""


class TurnCapture:
    """One turn as it passes."""

    def __init__(self, rid: str, bound_bytes: int) -> None:
        """Begin empty. Times in the capture count from now."""
        self.rid = rid
        self._begun = monotonic()
        self._left = bound_bytes
        self._request: dict[str, Any] = {}
        self._attempts: list[dict[str, Any]] = []
        self._client: list[bytes] = []
        self.truncated = False

    def request(self, api: str, route: str, headers: Mapping[str, str], raw: bytes) -> None:
        """The client's request; `headers` are those that a protocol reads."""
        self._request = {"api": api, "route": route, "headers": dict(headers), "body": _text(self._kept(raw))}

    def attempt(self, send: Send, answer: Answer) -> Answer:
        """An upstream's answer that keeps what is read from it."""
        kept = self._attempt(send)
        kept |= {"status": answer.status, "headers": {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}}
        return _Tapped(answer, self, kept)

    def lost(self, send: Send, outcome: str) -> None:
        """A request that got no answer."""
        self._attempt(send)["ended"] = outcome

    def _attempt(self, send: Send) -> dict[str, Any]:
        kept: dict[str, Any] = {
            "number": send.attempt,
            "cause": send.cause.value,
            "upstream": send.target,
            "path": send.request.path,
            "stream": send.request.stream,
            "request": _text(self._kept(send.request.body)),
            "status": 0,
            "headers": {},
            "chunks": [],
            "times_ms": [],
            "opened_ms": self.now_ms(),
            "ended_ms": None,
            "ended": ABORTED,
        }
        self._attempts.append(kept)
        return kept

    def now_ms(self) -> float:
        """Milliseconds since the turn began."""
        return round((monotonic() - self._begun) * 1000, 1)

    def emitted(self, data: bytes) -> None:
        """Bytes that went to the client."""
        self._client.append(self._kept(data))

    def keep(self, attempt: dict[str, Any], data: bytes) -> None:
        """Bytes that came from an upstream."""
        kept = self._kept(data)
        if kept:
            attempt["chunks"].append(kept)
            attempt["times_ms"].append(self.now_ms())

    def document(self, turn: Mapping[str, Any]) -> bytes:
        """The file's content; `turn` are the fields of the canonical line."""
        attempts = [{**attempt, "chunks": [_text(chunk) for chunk in attempt["chunks"]]} for attempt in self._attempts]
        return json_values.dumps_bytes(
            {
                "format": FORMAT,
                "rid": self.rid,
                "truncated": self.truncated,
                "request": self._request,
                "attempts": attempts,
                "client": _text(b"".join(self._client)),
                "turn": dict(turn),
            }
        )

    def _kept(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.truncated = True
            data = data[: self._left]
        self._left -= len(data)
        return data


class _Tapped:
    """An answer that is captured while it is read."""

    def __init__(self, answer: Answer, capture: TurnCapture, kept: dict[str, Any]) -> None:
        self._answer = answer
        self._capture = capture
        self._kept = kept
        self.status = answer.status
        self.headers = answer.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._answer:
                self._capture.keep(self._kept, data)
                yield data
        except TransportError as exc:
            self._kept |= {"ended": exc.outcome.value, "ended_ms": self._capture.now_ms()}
            raise
        self._kept |= {"ended": COMPLETE, "ended_ms": self._capture.now_ms()}

    def abort(self) -> None:
        self._answer.abort()


class CaptureFolder:
    """Where captured turns go."""

    def __init__(self, settings: Capture) -> None:
        """Take a configuration that names a folder. The folder is made when the first turn is written."""
        self._settings = settings
        self._folder = Path(settings.dir or ".")
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    def begin(self, rid: str) -> TurnCapture | None:
        """A capture for this turn, or None where the sample leaves it out."""
        if self._settings.sample < 1 and zlib.crc32(rid.encode()) >= self._settings.sample * 2**32:
            return None
        return TurnCapture(rid, self._settings.max_turn_bytes)

    def write_later(self, capture: TurnCapture, turn: Mapping[str, Any], on_fault: Callable[[Exception], None]) -> None:
        """Write one file in a task of its own and a thread; `on_fault` hears when it could not be written."""
        task = asyncio.get_running_loop().create_task(self._write_off_loop(capture, turn, on_fault))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def settle(self) -> None:
        """Wait until every file is written."""
        await asyncio.gather(*self._writing)

    async def _write_off_loop(self, capture: TurnCapture, turn: Mapping[str, Any], on_fault: Callable[[Exception], None]) -> None:
        try:
            async with self._lock:
                await asyncio.to_thread(self._write, capture, turn)
        except Exception as exc:  # noqa: BLE001 - a full disk must not end a service
            on_fault(exc)

    def _write(self, capture: TurnCapture, turn: Mapping[str, Any]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = capture.document(turn)
        self._make_room(len(data))
        path = self._folder / f"{time.time_ns() // 1_000_000:013d}-{capture.rid}.json"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - the mode must hold from the start
            file.write(data)

    def _make_room(self, size: int) -> None:
        """Other workers write and remove here too: a file that is gone already takes no room."""
        sizes: dict[Path, int] = {}
        for file in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
        total = sum(sizes.values()) + size
        for file, taken in sizes.items():
            if total <= self._settings.max_total_bytes:
                return
            file.unlink(missing_ok=True)
            total -= taken


def _text(data: bytes) -> str | dict[str, str]:
    """Text as text, anything else so that it comes back byte for byte."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of(value: str | Mapping[str, str]) -> bytes:
    """The inverse, for whoever reads a capture."""
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])

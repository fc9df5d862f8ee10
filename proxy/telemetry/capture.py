"""Whole turns as files, for replay: the request, every upstream answer as it came, what the client got. Off unless a folder is configured.

In: bytes as they pass. Out: one JSON file a turn, readable by its owner alone. Promise: prompts go here and nowhere else; neither one turn nor the
folder outgrows its bound (the oldest files go first, and no others than its own); a full or stuck disk costs the capture, never the turn, nor the
memory, nor the end of the process. A file is there whole or not at all. No header with a key in it is kept.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from pipeline import json_values
from pipeline.commands import Send
from proxy.config.tree import Capture
from proxy.telemetry.bounded_folder import BoundedFolder
from proxy.transport import TransportError

FORMAT = 2
COMPLETE, ABORTED = "complete", "aborted"
"""How an upstream's answer ended, besides the outcomes of the wire: in order, or closed by us while it was still being written."""
QUEUE_BYTES = 64 << 20
"""What may wait for the disk, in bytes of memory."""
_KEPT_HEADERS = ("content-type",)
_PIECE_BYTES = 128
"""What a piece costs in memory beside its bytes, its time and its places in lists."""


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
        self._left = self._bound = bound_bytes
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
        kept = self._kept(data)
        if kept:
            self._client.append(kept)

    def keep(self, attempt: dict[str, Any], data: bytes) -> None:
        """Bytes that came from an upstream."""
        kept = self._kept(data)
        if kept:
            attempt["chunks"].append(kept)
            attempt["times_ms"].append(self.now_ms())

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        pieces = len(self._client) + sum(len(attempt["chunks"]) for attempt in self._attempts)
        return self._bound - self._left + _PIECE_BYTES * (1 + pieces)

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


class _Job(NamedTuple):
    """One file to be written."""

    capture: TurnCapture
    turn: Mapping[str, Any]
    on_fault: Callable[[Exception], None]
    size: int


class CaptureFolder:
    """Where captured turns go. One thread of its own writes them: the process can end while it hangs on its disk."""

    def __init__(self, settings: Capture, log: FilteringBoundLogger | None = None, queue_bytes: int = QUEUE_BYTES) -> None:
        """Take a configuration that names a folder. The folder is made when the first turn is written. `log` hears of captures that are dropped."""
        self._settings = settings
        self._folder = BoundedFolder(Path(settings.dir or "."), settings.max_total_bytes)
        self._log = log
        self._limit = queue_bytes
        self._jobs: deque[_Job] = deque()
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._writer: threading.Thread | None = None
        self._dropping = 0
        self.dropped = 0
        """Captures that found no room in the queue."""

    def begin(self, rid: str) -> TurnCapture | None:
        """A capture for this turn, or None where the sample leaves it out."""
        if self._settings.sample < 1 and zlib.crc32(rid.encode()) >= self._settings.sample * 2**32:
            return None
        return TurnCapture(rid, self._settings.max_turn_bytes)

    def write_later(self, capture: TurnCapture, turn: Mapping[str, Any], on_fault: Callable[[Exception], None]) -> None:
        """Write one file off the loop; `on_fault` hears when it could not be written. Dropped where too much waits for the disk already."""
        size = capture.size
        if self._waiting and self._waiting + size > self._limit:
            self._drop()
            return
        self._waiting += size
        self._idle.clear()
        self._jobs.append(_Job(capture, turn, on_fault, size))
        if self._writer is None:
            self._start()

    async def settle(self, within_s: float) -> bool:
        """Wait until every file is written, for so long at the most. What waits then is given up; returns whether nothing was."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), within_s)
        while self._jobs:
            self._waiting -= self._jobs.pop().size
            self._drop()
        if self._waiting:  # the one that is being written
            self._drop()
        self._dropped()
        return self._waiting == 0

    def _drop(self) -> None:
        """Count one. One line tells that it begins, another how many there were when it is over."""
        self.dropped += 1
        self._dropping += 1
        if self._dropping == 1 and self._log is not None:
            self._log.warning("captures_dropping", waiting_bytes=self._waiting)

    def _dropped(self) -> None:
        if self._dropping and self._log is not None:
            self._log.warning("captures_dropped", count=self._dropping)
        self._dropping = 0

    # --- the thread -------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """A daemon: neither the interpreter nor an executor waits for it."""
        loop = asyncio.get_running_loop()
        self._writer = threading.Thread(target=self._run, args=(loop,), name="capture", daemon=True)
        self._writer.start()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to hear
            while True:
                try:
                    job = self._jobs.popleft()
                except IndexError:
                    break
                fault: Exception | None = None
                try:
                    self._write(job.capture, job.turn)
                except Exception as exc:  # noqa: BLE001 - a full disk must not end a service
                    fault = exc
                loop.call_soon_threadsafe(self._written, job, fault)
            loop.call_soon_threadsafe(self._ended)

    def _written(self, job: _Job, fault: Exception | None) -> None:
        self._waiting -= job.size
        if fault is not None:
            job.on_fault(fault)
        if self._waiting < self._limit // 2:
            self._dropped()

    def _ended(self) -> None:
        self._writer = None
        if self._jobs:  # they came while it ended
            self._start()
        else:
            self._idle.set()

    def _write(self, capture: TurnCapture, turn: Mapping[str, Any]) -> None:
        self._folder.write(capture.rid, capture.document(turn))


def _text(data: bytes) -> str | dict[str, str]:
    """Text as text, anything else so that it comes back byte for byte."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of(value: str | Mapping[str, str]) -> bytes:
    """The inverse, for whoever reads a capture."""
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])

"""The JSON values in the body of an upstream's answer, whatever shape it comes in.

In: bytes, cut anywhere. Out: (event name, value, its bytes); `DONE` stands for `[DONE]`. The shape is told from the first byte that is no
white space, never from a header (U11): `{` or `[` is one JSON body or one JSON value a line, `<` is a page, anything else an event
stream. Promise: the values depend on the bytes alone; linear time; never raises. A frame that is no JSON gives what whole values are
in it (U02, glued frames); what is lost is noted as a skipped frame.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final

import orjson

from pipeline.protocols.sse import MAX_EVENT_BYTES, Frame, SseReader
from pipeline.stage import Note
from pipeline.verdicts import Noted

DONE: Final = object()
Value = tuple[str, object, bytes]

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_GLUED_TRIES = 32
_LENIENT = json.JSONDecoder(strict=False)


class Shape(Enum):
    """What the body turned out to be."""

    UNKNOWN = auto()
    EVENTS = auto()
    LINES = auto()
    BODY = auto()
    PAGE = auto()


class FrameReader:
    """One body. `shape` is known with its first byte; `odd` once a value needed the lenient parser: it may hold lone surrogates, or NaN.

    `overflowed` is True once a single frame grew beyond the limit; nothing comes after that.
    """

    __slots__ = ("_head", "_max", "_note", "_pieces", "_seen_line", "_size", "_sse", "events", "odd", "overflowed", "shape")

    def __init__(self, note: Note, max_frame_bytes: int = MAX_EVENT_BYTES) -> None:
        """Begin before the first byte; `note` hears of skipped frames."""
        self.shape = Shape.UNKNOWN
        self.odd = False
        self.overflowed = False
        self._note = note
        self._max = max_frame_bytes
        self._head: bytes | None = b""
        self._sse = SseReader(max_frame_bytes)
        self.events: SseReader | None = None  # the reader of an event stream, once it is known to be one
        self._pieces: list[bytes] = []
        self._size = 0
        self._seen_line = False

    def feed(self, data: bytes) -> Iterable[Value]:
        """Take one read; give the values that it completed, each parsed when it is asked for. To be used up, or given up for good."""
        shape = self.shape
        if shape is Shape.UNKNOWN:
            data = self._sniff(data)
            shape = self.shape
        if shape is Shape.EVENTS:
            return self.parsed(self._sse.feed(data))
        if shape is Shape.LINES:
            return () if self.overflowed else self._lines(data)
        if shape is Shape.BODY:
            self._keep(data)
        return ()

    def close(self) -> Iterable[Value]:
        """The body ended: give what is left in it."""
        if self.overflowed:
            return ()
        if self.shape is Shape.EVENTS:
            return self.parsed(self._sse.close())
        data = b"".join(self._pieces)
        self._pieces.clear()
        return self._parse("", data) if data and not data.isspace() else ()

    def _sniff(self, data: bytes) -> bytes:
        """Find the first byte that counts; return the data from there on, or nothing while it has not come."""
        if self._head is not None:  # at the very start, where a byte order mark may stand
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return b""
            self._head = None
            data = data.removeprefix(_BOM)
        data = data.lstrip(_SPACE)
        if data:
            first = data[:1]
            self.shape = Shape.LINES if first in (b"{", b"[") else Shape.PAGE if first == b"<" else Shape.EVENTS
            self.events = self._sse if self.shape is Shape.EVENTS else None
        return data

    def parsed(self, frames: list[Frame]) -> Iterator[Value]:
        """Give the values of events, each parsed when it is asked for."""
        for name, data in frames:
            try:
                value = orjson.loads(data)
            except ValueError:
                yield from self._parse(name, data)
            else:
                yield name, value, data
        if self._sse.overflowed:
            self.overflowed = True

    def _lines(self, data: bytes) -> Iterator[Value]:
        """One JSON value a line; a first line that is none means one body over several lines."""
        if b"\n" in data:
            lines = data.split(b"\n")
            if self._pieces:
                lines[0] = b"".join((*self._pieces, lines[0]))
                self._pieces.clear()
                self._size = 0
            data = lines.pop()
            for at, line in enumerate(lines):
                if len(line) > self._max:
                    self.overflowed = True
                    return
                if not line or line.isspace():
                    continue
                if not self._seen_line and not _is_value(line):
                    self.shape = Shape.BODY
                    data = b"\n".join((*lines[at:], data))
                    break
                self._seen_line = True
                yield from self._parse("", line)
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        if data and not self.overflowed:
            self._pieces.append(data)
            self._size += len(data)
            self.overflowed = self._size > self._max

    def _parse(self, name: str, data: bytes) -> list[Value]:
        """Make the best of a frame: `[DONE]`, strict or lenient JSON, whole values glued to torn ones, the text of an error."""
        if data.strip(_SPACE) == b"[DONE]":
            return [(name, DONE, data)]
        try:
            return [(name, orjson.loads(data), data)]
        except ValueError:
            self.odd = True
        text = data.decode("utf-8", "replace")
        try:
            return [(name, _LENIENT.decode(text), data)]
        except (ValueError, RecursionError):
            if name == "error":
                return [(name, text.strip(), data)]
        found, lost = _whole_values(text)
        if lost:
            self._note(Noted.FRAME_SKIPPED, bytes=len(data), recovered=len(found))
        return [(name, value, b"") for value in found]


def _is_value(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        try:
            _LENIENT.decode(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return False
    return True


def _whole_values(text: str) -> tuple[list[object], bool]:
    """The whole JSON objects and `[DONE]` among glued frames, and whether anything else was there (U02). A bounded number of tries."""
    found: list[object] = []
    lost = False
    at = 0
    for _ in range(_GLUED_TRIES):
        while at < len(text) and (text[at].isspace() or text.startswith("data:", at)):
            at += 1 if text[at].isspace() else 5
        if at >= len(text):
            return found, lost
        if text.startswith("[DONE]", at):
            found.append(DONE)
            at += 6
            continue
        if text[at] == "{":
            try:
                value, at = _LENIENT.raw_decode(text, at)
            except (ValueError, RecursionError):
                pass
            else:
                found.append(value)
                continue
        lost = True
        at = text.find("data:", at + 1)
        if at < 0:
            return found, lost
    return found, True

"""Server-sent events, read from bytes as they arrive.

In: reads of any size, cut anywhere. Out: (event name, data) of every complete event, with the data's lines joined by LF, as bytes.
Promise: the events depend on the bytes alone, never on where they were cut; each byte is looked at a bounded number of times; never
raises. Lines end at LF, CR or CRLF and nowhere else (U+2028 is content). What upstreams do beyond the standard (U01) is read as meant:
no space behind the colon, the JSON on the line behind an empty `data:`, JSON lines without any field name, an `error:` field, a last
event without its blank line. Comments, ids, retry times and events without data are no events.
"""

from __future__ import annotations

Frame = tuple[str, bytes]
MAX_EVENT_BYTES = 32 << 20

_LF = 10
_CR = 13
_COLON = 58
_BOM = b"\xef\xbb\xbf"
_JSON_STARTS = frozenset((b"{", b"}", b"[", b"]", b'"'))


class SseReader:
    """One stream. `overflowed` is True once a line or an event grew beyond `max_event_bytes`; nothing comes after that."""

    __slots__ = ("_after_cr", "_data", "_first", "_idle", "_max", "_name", "_partial", "_partial_size", "_size", "overflowed")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        """Begin before the first byte."""
        self.overflowed = False
        self._max = max_event_bytes
        self._first = True
        self._idle = False  # between two events, nothing carried over: the fast path may run
        self._after_cr = False
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""

    def feed(self, data: bytes) -> list[Frame]:
        """Take one read; return the events that it completed."""
        if self.overflowed:
            return []
        out: list[Frame] = []
        if b"\r" in data:
            self._lines(data, out)
            return out
        if not self._idle:
            end = data.find(b"\n\n") + 2
            if end == 1:
                self._lines(data, out)
                return out
            self._lines(data[:end], out)
            if end == len(data) or self.overflowed:
                return out
            data = data[end:]
        elif data[:6] == b"data: " and data.find(b"\n") == len(data) - 2 and data[-1] == _LF and len(data) <= self._max:
            return [("", data[6:-2])] if len(data) > 8 else out  # one plain event in one read: nearly every read of a live stream
        self._events(data, out)
        return out

    def close(self) -> list[Frame]:
        """The stream ended: return the event that lacks its blank line, if there is one."""
        out: list[Frame] = []
        if self._partial and not self.overflowed:
            self._lines(b"\n", out)
        if not self.overflowed:
            self._dispatch(out)
        return out

    def _events(self, data: bytes, out: list[Frame]) -> None:
        """Split at blank lines; what is no plain one-line event goes line by line."""
        parts = data.split(b"\n\n")
        tail = parts.pop()
        for part in parts:
            if part[:5] == b"data:" and b"\n" not in part and len(part) <= self._max:
                value = part[6:] if part[5:6] == b" " else part[5:]
                if value and not value.isspace():
                    out.append(("", value))
            elif part:
                self._lines(part + b"\n\n", out)
                if self.overflowed:
                    return
        if tail:
            self._lines(tail, out)

    def _lines(self, data: bytes, out: list[Frame]) -> None:
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
            self._after_cr = False
        for piece in data.splitlines(keepends=True):
            self._after_cr = False
            last = piece[-1]
            if last == _LF:
                line = piece[:-2] if piece[-2:-1] == b"\r" else piece[:-1]
            elif last == _CR:
                line = piece[:-1]
                self._after_cr = True  # only a LF in the next read can still belong to it: inside this one it would be in the piece
            else:
                self._partial.append(piece)
                self._partial_size += len(piece)
                self.overflowed = self._partial_size > self._max
                self._idle = False
                return
            if self._partial:
                line = b"".join((*self._partial, line))
                self._partial.clear()
                self._partial_size = 0
            self._line(line, out)
            if self.overflowed:
                return
        self._idle = not (self._partial or self._data or self._name or self._first or self._after_cr)

    def _line(self, line: bytes, out: list[Frame]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if len(line) > self._max:
            self.overflowed = True
        elif not line:
            self._dispatch(out)
        elif line[:5] == b"data:":
            self._add(line[6:] if line[5:6] == b" " else line[5:])
        elif line[0] == _COLON:
            return
        elif line[:6] == b"event:":
            self._name = line[6:].strip().decode("utf-8", "replace")
        elif line[:6] == b"error:":
            self._name = "error"
            self._add(line[6:])
        elif line.lstrip()[:1] in _JSON_STARTS:
            self._add(line)

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1
        self.overflowed = self._size > self._max + 1
        self._data.append(value)

    def _dispatch(self, out: list[Frame]) -> None:
        if self._data:
            value = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data = []
            self._size = 0
            if value and not value.isspace():
                out.append((self._name, value))
        self._name = ""

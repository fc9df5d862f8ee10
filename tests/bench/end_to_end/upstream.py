"""The bench's upstream: a bare protocol, so that it costs little. `python -m tests.bench.end_to_end.upstream PORT`

The model's name says what to do: `n200-i20` streams 200 pieces, one every 20 ms (`i0`: as fast as they are taken, one write a piece). A piece is
20 characters and holds `T<monotonic nanoseconds>`, so that a client can tell how long it took. Anything not streamed gets one whole answer at once.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import uvloop

from tests.bench.end_to_end.bodies import FIRST, LAST, OPENING, chat_answer, chunk

_MODEL = re.compile(rb'"model":\s*"[^"]*?n(\d+)-i([\d.]+)')
_STREAM = re.compile(rb'"stream":\s*true')
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_ANSWER = chat_answer()
_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_ANSWER) + _ANSWER
_MODELS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n" + b'{"object":"list","data":[]}'
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_BEFORE, _AFTER = chunk({"content": "@"}).split(b"@")


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One connection, one answer at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held = b""
        self._timer: asyncio.Handle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._held[:end]
        found = _LENGTH.search(head)
        whole = end + 4 + (int(found[1]) if found else 0)
        if len(self._held) < whole:
            return
        body, self._held = self._held[end + 4 : whole], self._held[whole:]
        assert self._transport is not None
        if head.startswith(b"GET"):
            self._transport.write(_MODELS)
        elif _STREAM.search(body):
            asked = _MODEL.search(body)
            self._left, self._gap = (int(asked[1]), float(asked[2]) / 1000) if asked else (200, 0.02)
            self._transport.write(_HEAD + framed(FIRST))
            self._next = self._loop.time()
            self._opening = True
            self._schedule()
        else:
            self._transport.write(_WHOLE)

    def _schedule(self) -> None:
        if self._gap:
            self._next += self._gap
            self._timer = self._loop.call_at(self._next, self._tick)
        else:
            self._timer = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if not self._left:
            transport.write(framed(LAST) + b"0\r\n\r\n")
            return
        if not self._gap and transport.get_write_buffer_size() > 65536:
            self._timer = self._loop.call_later(0.001, self._tick)
            return
        self._left -= 1
        words = OPENING.encode() if self._opening else b""
        self._opening = False
        transport.write(framed(b"%b%bT%d riv %b" % (_BEFORE, words, time.monotonic_ns(), _AFTER)))
        self._schedule()


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(loop), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))

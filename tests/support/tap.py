"""A wire tap: a relay of raw bytes on loopback that writes down what passes, so that any client's traffic can be judged afterwards.

In: the port of a server. Out: a port of its own, and every HTTP exchange that went over it. Bytes, ends and resets are carried through as
they are, in both directions, with the reader's pace; nothing is parsed before the exchanges are asked for.

    with Tap(port) as tap:
        ... a client talks to tap.port
    tap.exchanges()
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Exchange:
    """One request and its answer. `writes` are the pieces in which a chunked body was written."""

    method: str
    path: str
    query: str
    request_headers: dict[str, str]
    request_body: bytes
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)
    complete: bool = False
    client_left: bool = False
    """The client closed its side before the answer was complete."""

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    @property
    def request(self) -> Any:
        """The request's JSON, or None where it is none."""
        try:
            return json.loads(self.request_body)
        except ValueError:
            return None

    @property
    def streamed(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")


class _Side(asyncio.Protocol):
    """One half of a relayed connection."""

    def __init__(self, kept: bytearray) -> None:
        self.kept = kept
        self.other: _Side | None = None
        self.transport: asyncio.Transport | None = None
        self.waiting: list[bytes] = []
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        for data in self.waiting:
            transport.write(data)
        self.waiting.clear()

    def data_received(self, data: bytes) -> None:
        self.kept += data
        assert self.other is not None
        self.other.send(data)

    def send(self, data: bytes) -> None:
        if self.transport is None:
            self.waiting.append(data)
        elif not self.transport.is_closing():
            self.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        other = self.other
        if other is None or other.lost:
            return
        if other.transport is not None:
            if exc is None:
                other.transport.close()
            else:
                other.transport.abort()


@dataclass
class _Wire:
    """What passed over one connection. `client_first`: the client's side ended before the server's did."""

    sent: bytearray = field(default_factory=bytearray)
    got: bytearray = field(default_factory=bytearray)
    client_first: bool = False


class _Client(_Side):
    def __init__(self, tap: Tap) -> None:
        self.wire = _Wire()
        super().__init__(self.wire.sent)
        self.tap = tap

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.tap.wires.append(self.wire)
        self.other = server = _Side(self.wire.got)
        server.other = self
        self.tap.sides |= {self, server}
        task = asyncio.get_running_loop().create_task(self._connect(server))
        self.tap.tasks.add(task)
        task.add_done_callback(self.tap.tasks.discard)

    async def _connect(self, server: _Side) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: server, "127.0.0.1", self.tap.target)
        except OSError:
            assert self.transport is not None
            self.transport.abort()
            return
        if self.lost and server.transport is not None:
            server.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and not self.other.lost:
            self.wire.client_first = True
        super().connection_lost(exc)
        self.tap.sides.discard(self)
        if self.other is not None:
            self.tap.sides.discard(self.other)


class Tap:
    """The relay, in a thread with an event loop of its own."""

    def __init__(self, target: int, port: int = 0) -> None:
        """`target` is a port on 127.0.0.1; `port` 0 takes a free one."""
        self.target = target
        self.port = port
        self.wires: list[_Wire] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.sides: set[_Side] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(lambda: _Client(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for side in tuple(self.sides):
            if side.transport is not None:
                side.transport.abort()
        await asyncio.sleep(0)

    def exchanges(self) -> list[Exchange]:
        """Everything that passed so far, in the order of the connections. An answer that never began has status 0."""
        return [one for wire in tuple(self.wires) for one in _exchanges(wire)]


def _exchanges(wire: _Wire) -> list[Exchange]:
    found: list[Exchange] = []
    sent, got = bytes(wire.sent), bytes(wire.got)
    while (head := _head(sent)) is not None:
        line, headers, rest = head
        body, sent, _ = _framed(headers, rest, empty=True)
        method, target, _ = line.split(" ", 2)
        path, _, query = target.partition("?")
        found.append(Exchange(method, path, query, headers, b"".join(body)))
    for one in found:
        while (head := _head(got)) is not None and head[0].split(" ", 2)[1].startswith("1"):
            got = head[2]
        if head is None:
            one.client_left = wire.client_first
            break
        line, one.headers, rest = head
        one.status = int(line.split(" ", 2)[1])
        empty = one.method == "HEAD" or one.status in (204, 304)
        one.writes, got, one.complete = ([], rest, True) if empty else _framed(one.headers, rest)
        one.client_left = wire.client_first and not one.complete
    return found


def _head(data: bytes) -> tuple[str, dict[str, str], bytes] | None:
    """The first line, the headers by lower-case name, and what follows; None where no head is whole."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    line, *fields = head.decode("latin-1").split("\r\n")
    pairs = (one.partition(":") for one in fields)
    return line, {name.strip().lower(): value.strip() for name, _, value in pairs}, rest


def _framed(headers: dict[str, str], data: bytes, *, empty: bool = False) -> tuple[list[bytes], bytes, bool]:
    """A body's pieces, what stands behind it, and whether it is complete. `empty`: without framing there is no body."""
    if "chunked" in headers.get("transfer-encoding", ""):
        pieces: list[bytes] = []
        while True:
            size, mark, rest = data.partition(b"\r\n")
            if not mark:
                return pieces, b"", False
            length = int(size.split(b";")[0], 16)
            if length == 0:
                return pieces, rest.removeprefix(b"\r\n"), rest.startswith(b"\r\n")
            if len(rest) < length + 2:
                return [*pieces, rest[:length]], b"", False
            pieces.append(rest[:length])
            data = rest[length + 2 :]
    if "content-length" in headers:
        length = int(headers["content-length"])
        return [data[:length]], data[length:], len(data) >= length
    return ([], data, True) if empty else ([data], b"", True)

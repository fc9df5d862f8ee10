"""A TCP relay on loopback that does to a connection what networks do: latency, tiny segments, little bandwidth, silence, resets, cuts, garbage.

In: the port of a server, and toxics for each direction: `up` for what the client sends, `down` for what the server answers. Out: a port of its own.
Offsets count the bytes of one connection in one direction. What one side ends, in order or by a reset, the other side sees so too.

    async with Relay(port, down=[Slice(1), CutAfter(300)]) as relay:
        ... a client talks to relay.port
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

_READ = 65536
_EVER = 3600.0


class Reset(Exception):
    """Raised by a toxic: end both sides with a RST."""


class Cut(Exception):
    """Raised by a toxic: end both sides with a FIN."""


class Toxic(Protocol):
    """What becomes of a piece whose first byte has the offset `seen`."""

    def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True)
class Latency:
    """Each read comes this much later, plus or minus a jitter that a seed decides."""

    seconds: float
    jitter: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(7), repr=False, compare=False)

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        await asyncio.sleep(max(0.0, self.seconds + self.dice.uniform(-self.jitter, self.jitter)))
        yield data


@dataclass(frozen=True)
class Slice:
    """Segments of this size, each in a write of its own."""

    size: int
    pause: float = 0.0

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        for at in range(0, len(data), self.size):
            yield data[at : at + self.size]
            await asyncio.sleep(self.pause)


@dataclass(frozen=True)
class Bandwidth:
    """So many bytes a second."""

    bytes_per_s: float

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        step = max(1, int(self.bytes_per_s / 50))
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            yield piece
            await asyncio.sleep(len(piece) / self.bytes_per_s)


@dataclass(frozen=True)
class Stall:
    """So many bytes, then silence: nothing more is passed on, and nothing more is read."""

    after: int = 0

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        if self.after > seen:
            yield data[: self.after - seen]
        if seen + len(data) > self.after:
            await asyncio.sleep(_EVER)


@dataclass(frozen=True)
class ResetAfter:
    """So many bytes, then a RST on both sides."""

    after: int = 0

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        if self.after > seen:
            yield data[: self.after - seen]
        if seen + len(data) > self.after:
            raise Reset


@dataclass(frozen=True)
class CutAfter:
    """So many bytes, then a FIN on both sides."""

    after: int = 0

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        if self.after > seen:
            yield data[: self.after - seen]
        if seen + len(data) > self.after:
            raise Cut


@dataclass(frozen=True)
class Garble:
    """Every so-manieth byte has all its bits turned, from an offset on."""

    every: int
    start: int = 0

    async def __call__(self, data: bytes, seen: int) -> AsyncIterator[bytes]:
        turned = bytearray(data)
        for at in range(len(turned)):
            offset = seen + at - self.start
            if offset >= 0 and offset % self.every == self.every - 1:
                turned[at] ^= 0xFF
        yield bytes(turned)


class _Line:
    """Toxics of one direction of one connection, each with a count of what came to it."""

    def __init__(self, toxics: Sequence[Toxic]) -> None:
        self._toxics = toxics
        self._seen = [0] * len(toxics)

    async def through(self, data: bytes, at: int = 0) -> AsyncIterator[bytes]:
        if at == len(self._toxics):
            yield data
            return
        seen = self._seen[at]
        self._seen[at] += len(data)
        async for piece in self._toxics[at](data, seen):
            async for out in self.through(piece, at + 1):
                yield out


class Relay:
    """The relay. `connections` counts all that were made, `open` those that are. Toxics are looked at when a connection is made."""

    def __init__(self, target: int, *, up: Sequence[Toxic] = (), down: Sequence[Toxic] = ()) -> None:
        """`target` is a port on 127.0.0.1."""
        self.target = target
        self.up = tuple(up)
        self.down = tuple(down)
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        return len(self._serving)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_READ, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and reset whatever is open."""
        assert self._server is not None
        self._server.close()
        await self.drop()

    async def drop(self) -> None:
        """Reset every connection that is open: one that a `Stall` has fallen upon would stay so for ever."""
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target, limit=_READ)
        except OSError:
            reset(writer)
            return
        pumps = [
            asyncio.create_task(_pump(reader, up_writer, _Line(self.up))),
            asyncio.create_task(_pump(up_reader, writer, _Line(self.down))),
        ]
        abrupt = True
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            abrupt = any(pump.done() and isinstance(pump.exception(), Reset | OSError) for pump in pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in (writer, up_writer):
                reset(end) if abrupt else end.close()
            await asyncio.gather(writer.wait_closed(), up_writer.wait_closed(), return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
    while data := await reader.read(_READ):
        async for piece in line.through(data):
            writer.write(piece)
            await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()

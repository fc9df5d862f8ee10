"""Writing one answer to a client: open, whole wire events, end. What is written was made by the engine; this file knows HTTP alone.

In: Head and bytes. Out: a response on the wire. Promise: nothing raises because a client left or does not read, `gone` says so instead; a
client that leaves its answer unread for `write_stall_s` is cut; an answer that must not look complete ends without its final chunk (E8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict

from pipeline.commands import Head
from proxy.errors import SERVER_NAME
from proxy.headers import SSE_HEADERS

_UNREAD_BYTES = 64 << 10
"""What the connection takes without waiting for the client."""
EVENT_STREAM = "text/event-stream"


class Client:
    """One request's answer. `waited_s` is the time spent waiting for the client to read, `sent` bytes of the body, `tee` hears the body too."""

    __slots__ = (
        "_closing",
        "_head",
        "_headers",
        "_request",
        "_response",
        "_stall_s",
        "_writer",
        "finished",
        "gone",
        "sent",
        "tee",
        "waited_s",
    )

    def __init__(
        self, request: web.BaseRequest, headers: Iterable[tuple[str, str]], write_stall_s: float, closing: Callable[[], bool]
    ) -> None:
        """`headers` stand on the answer whatever it is; `closing` says whether this connection should be the client's last."""
        self._request = request
        self._headers = tuple(headers)
        self._stall_s = write_stall_s
        self._closing = closing
        self._head: Head | None = None
        self._response: web.StreamResponse | None = None
        self._writer: AbstractStreamWriter | None = None
        self.finished = False
        self.gone = False
        self.sent = 0
        self.tee: Callable[[bytes], None] | None = None
        self.waited_s = 0.0

    @property
    def opened(self) -> bool:
        """Whether a status line may have left."""
        return self._response is not None

    async def open(self, head: Head, extra: Iterable[tuple[str, str]] = ()) -> None:
        """Begin the answer. A whole one leaves with its body, in one write."""
        fields = CIMultiDict((*self._headers, ("server", SERVER_NAME)))
        fields.extend(extra)
        for name, value in head.headers:
            fields[name] = value
        self._headers = tuple(fields.items())
        self._head = head
        if not head.stream:
            return
        if fields.get("content-type", "").startswith(EVENT_STREAM):
            fields.extend(SSE_HEADERS)
        response = web.StreamResponse(status=head.status, headers=fields)
        if self._closing():
            response.force_close()
        self._response = response
        try:
            self._writer = await response.prepare(self._request)
        except ConnectionError:
            self.gone = True

    async def write(self, data: bytes) -> None:
        """Send whole wire events in one write."""
        if self.gone:
            return
        self.sent += len(data)
        if self.tee is not None:
            self.tee(data)
        if self._writer is None:
            await self._whole(data)
            return
        try:
            if isinstance(self._writer, StreamWriter):
                await self._writer.write(data, drain=False)
            else:
                await self._writer.write(data)
            if self._request.protocol.writing_paused:
                await self._drain()
        except ConnectionError:
            self.gone = True

    async def _whole(self, body: bytes) -> None:
        assert self._head is not None  # noqa: S101 - the engine opens before it emits
        response = web.Response(status=self._head.status, headers=CIMultiDict(self._headers), body=body)
        if self._closing():
            response.force_close()
        self._response = response
        try:
            await response.prepare(self._request)
        except ConnectionError:
            self.gone = True
            return
        await self._finish(response, len(body))

    async def end(self, *, clean: bool) -> web.StreamResponse | None:
        """End the answer. Returns the response for aiohttp, or None when there was none.

        A connection whose head went out without `Connection: close` stays open, whatever began since: a proxy in front would take it for one
        that can be used again, and lose the next request on it.
        """
        response = self._response
        if response is None:
            return None
        if clean and not self.gone:
            await self._finish(response)
        elif not clean:
            self._cut()
        return response

    async def _finish(self, response: web.StreamResponse, size: int = 0) -> None:
        begun = monotonic()
        try:
            async with asyncio.timeout(self._stall_s):
                await response.write_eof()
            self.finished = True
        except TimeoutError:
            self._stalled()
        except ConnectionError:
            self.gone = True
        if size > _UNREAD_BYTES:
            self.waited_s += monotonic() - begun

    async def _drain(self) -> None:
        """Wait until the client has read enough of what was written, for so long at the most."""
        begun = monotonic()
        try:
            async with asyncio.timeout(self._stall_s):
                await self._request.writer.drain()
        except TimeoutError:
            self._stalled()
        finally:
            self.waited_s += monotonic() - begun

    def _stalled(self) -> None:
        self.gone = True
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    def _cut(self) -> None:
        """Close after what was written, without the final chunk; a client that does not even read that is reset later."""
        transport = self._request.transport
        if transport is None:
            return
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(self._stall_s, transport.abort)

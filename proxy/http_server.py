"""aiohttp's low-level server, with errors in JSON and without its habit of writing a peer's bytes to the log.

The low-level server and not an Application: two dozen paths need no router, and each layer less is felt on every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import http_parser, web

from proxy.errors import INTERNAL, NOT_HTTP, api_of_path, refusal
from proxy.headers import request_id

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Unexpected = Callable[..., None]
"""Hears of a fault: place, exception, and the ids it is known by."""
NotHttp = Callable[[str, str], None]
"""Hears of bytes that were no HTTP and got a 400: the protocol of the path, as far as there is one, and the id in the answer."""


class NoCParserError(RuntimeError):
    """aiohttp runs without its C parser; most request smuggling holes were in the other one."""


def require_c_parser() -> None:
    """Raise NoCParserError where aiohttp parses HTTP in Python."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise NoCParserError("aiohttp's C extension is not installed: serving with its Python parser is refused")


class _Connection(web.RequestHandler):
    """One client connection. Has a deadline for the head of a request, which aiohttp has not."""

    __slots__ = ("_head_timer",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first head is due from now on."""
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_begins()

    def data_received(self, data: bytes) -> None:
        """Bytes that complete no request while none is being answered are the beginning of a head."""
        super().data_received(data)
        if self._waiter is None or self._waiter.done() or self._messages:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:
            self._head_begins()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the deadline."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().connection_lost(exc)

    def _head_begins(self) -> None:
        if isinstance(self._manager, HttpServer):
            self._head_timer = self._loop.call_later(self._manager.header_s, self._head_is_late)

    def _head_is_late(self) -> None:
        """Nobody is told: what has not said what it wants cannot be answered in its protocol."""
        self._head_timer = None
        if not self._request_in_progress and not self._messages:
            self.force_close()

    def handle_error(  # the signature is aiohttp's
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """What is no HTTP gets a 400, what went wrong here a 500, both as JSON; the text of an exception stays here."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        rid, api = request_id(request.headers.get("X-Request-ID")), api_of_path(request.path, request.headers)
        if isinstance(self._manager, HttpServer):
            if status < 500:
                self._manager.not_http(api, rid)
            elif exc is not None:
                self._manager.unexpected("http_server", exc, rid=rid)
        response = refusal(api, INTERNAL if status >= 500 else NOT_HTTP, rid)
        response.force_close()
        return response


class HttpServer(web.Server):
    """A factory of connections that all call one handler. Cancels the handler when its client leaves."""

    def __init__(
        self,
        handle: Handle,
        unexpected: Unexpected,
        *,
        keepalive_s: float,
        header_s: float = 15.0,
        not_http: NotHttp = lambda *_: None,
    ) -> None:
        """`unexpected` hears of faults, `not_http` of what was no request; `keepalive_s` is for connections between requests, `header_s` for those within a request's head."""
        super().__init__(handle, handler_cancellation=True)
        self.unexpected = unexpected
        self.not_http = not_http
        self.header_s = header_s
        self._keepalive_s = keepalive_s

    def __call__(self) -> web.RequestHandler:
        """A connection. Bodies are unpacked by `proxy/body.py`, with a bound; lingering is short, and there is no access log."""
        return _Connection(
            self,
            loop=self._loop,
            keepalive_timeout=self._keepalive_s,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            lingering_time=2.0,
        )

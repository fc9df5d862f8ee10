"""aiohttp's low-level server, with errors in JSON and without its habit of writing a peer's bytes to the log.

The low-level server and not an Application: two dozen paths need no router, and each layer less is felt on every request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import http_parser, web

from proxy.errors import INTERNAL, NOT_HTTP, api_of_path, refusal
from proxy.headers import request_id

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Unexpected = Callable[[str, BaseException], None]


class NoCParserError(RuntimeError):
    """aiohttp runs without its C parser; most request smuggling holes were in the other one."""


def require_c_parser() -> None:
    """Raise NoCParserError where aiohttp parses HTTP in Python."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise NoCParserError("aiohttp's C extension is not installed: serving with its Python parser is refused")


class _Connection(web.RequestHandler):
    """One client connection."""

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
        if status >= 500 and exc is not None and isinstance(self._manager, HttpServer):
            self._manager.unexpected("http_server", exc)
        path = request.path
        response = refusal(api_of_path(path), INTERNAL if status >= 500 else NOT_HTTP, request_id(None))
        response.force_close()
        return response


class HttpServer(web.Server):
    """A factory of connections that all call one handler. Cancels the handler when its client leaves."""

    def __init__(self, handle: Handle, unexpected: Unexpected, *, keepalive_s: float) -> None:
        """`unexpected` hears of faults; `keepalive_s` is also the deadline for request headers, aiohttp has no other."""
        super().__init__(handle, handler_cancellation=True)
        self.unexpected = unexpected
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

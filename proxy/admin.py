"""The operator's side: `/metrics`, `/healthz`, `/readyz`, on a listener of its own. Never on the public port.

In: scrapes and probes. Out: text. Promise: probes are silent (no log line, no series), and rendering metrics never stalls a stream.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from multidict import CIMultiDict

from proxy.telemetry.metrics import Metrics

_TEXT = "text/plain; charset=utf-8"


class AdminApp:
    """`not_ready` says why no new work should come here, or None."""

    def __init__(self, metrics: Metrics, not_ready: Callable[[], str | None]) -> None:
        """Take what is asked about."""
        self._metrics = metrics
        self._not_ready = not_ready

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only GET\n")
        if request.path == "/metrics":
            body, content_type = await self._metrics.render_off_loop(request.headers.get("Accept", ""))
            return web.Response(body=body, headers=CIMultiDict({"content-type": content_type}))
        if request.path == "/healthz":
            return _text(200, "ok\n")
        if request.path == "/readyz":
            why = self._not_ready()
            return _text(200, "ready\n") if why is None else _text(503, f"{why}\n")
        return _text(404, "/metrics, /healthz, /readyz\n")


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, body=text.encode(), headers=CIMultiDict({"content-type": _TEXT}))

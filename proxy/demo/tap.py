"""A pass-through between the proxy and the model that keeps what went by, so that the demo can show it.

In: chat requests of the proxy. Out: the same requests to the model and its answers back, unchanged; `exchanges` in order.
Only the demo runs it, on loopback.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from pipeline import json_values
from pipeline.protocols.sse import SseReader


@dataclass
class TappedExchange:
    """One request that the model got, and the raw text that it wrote."""

    request: dict[str, object]
    body: bytearray = field(default_factory=bytearray)
    status: int = 0

    def messages(self) -> list[dict[str, object]]:
        """The messages the model was shown."""
        found = self.request.get("messages")
        return found if isinstance(found, list) else []

    def text(self) -> str:
        """All text of the answer, joined."""
        data = bytes(self.body)
        if data.lstrip()[:1] == b"{":
            return _piece(data, "message")
        return "".join(_piece(one, "delta") for one in _events(data))


class Tap:
    """A recording pass-through in front of `base_url`."""

    def __init__(self, base_url: str, headers: dict[str, str] | None = None) -> None:
        """Stand in front of an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8080/v1."""
        self.base_url = base_url.rstrip("/")
        self.exchanges: list[TappedExchange] = []
        self._headers = headers or {}
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen on a free loopback port; returns the base URL."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar())
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post("/v1/chat/completions", self._pass)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Close both sides."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None  # noqa: S101 - set in start
        body = await request.read()
        parsed = json_values.loads(body)
        exchange = TappedExchange(parsed if isinstance(parsed, dict) else {})
        self.exchanges.append(exchange)
        headers = {**self._headers, "content-type": "application/json"}
        if "authorization" in request.headers and not self._headers:
            headers["authorization"] = request.headers["authorization"]
        try:
            answer = await self._session.post(f"{self.base_url}/chat/completions", data=body, headers=headers, allow_redirects=False)
        except aiohttp.ClientError as exc:
            return web.json_response({"error": {"message": f"{type(exc).__name__}: the endpoint cannot be reached"}}, status=502)
        async with answer:
            exchange.status = answer.status
            response = web.StreamResponse(status=answer.status, headers={"content-type": answer.headers.get("content-type", "")})
            try:
                await response.prepare(request)
                async for data in answer.content.iter_any():
                    exchange.body += data
                    await response.write(data)
                await response.write_eof()
            except ConnectionError:  # the proxy had what it wanted and closed
                pass
            return response


def _events(data: bytes) -> list[bytes]:
    return [data for _, data in SseReader().feed(data + b"\n\n")]


def _piece(data: bytes, where: str) -> str:
    try:
        value = json_values.loads(data)
    except json_values.NotJsonError:
        return ""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    holder = choices[0].get(where)
    content = holder.get("content") if isinstance(holder, dict) else None
    return content if isinstance(content, str) else ""

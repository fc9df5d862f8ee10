"""An upstream that writes when it is told to: for tests about the order of events.

In: `write`, `end` from the test. Out: a Chat Completions stream; `left` is set when its client goes away before the end.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from aiohttp import web


class SteppedUpstream:
    """Serves one streamed answer at a time."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.written = 0
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def write(self, text: str) -> None:
        """Write one delta."""
        self._steps.put_nowait(_chunk({"content": text}, None))

    def end(self) -> None:
        """Finish the answer."""
        self._steps.put_nowait(_chunk({}, "stop") + b"data: [DONE]\n\n")
        self._steps.put_nowait(None)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.asked.set()
        try:
            while (piece := await self._steps.get()) is not None:
                await response.write(piece)
                self.written += 1
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        return response


def _chunk(delta: dict[str, Any], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"

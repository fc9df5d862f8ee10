"""The yardstick: what any aiohttp proxy pays before it does anything useful. `python -m tests.bench.end_to_end.baseline PORT UPSTREAM`

A minimal pass-through on aiohttp and uvloop: no parsing, no checks, no log.
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}


async def main(port: int, upstream: str) -> None:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
    )

    async def pass_on(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
        async with session.post(upstream + request.path[3:], data=body, headers=headers) as answer:
            if answer.content_type != "text/event-stream":
                return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", pass_on)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))

"""A turn is freed when it is over: nothing of it waits for the cycle collector, with the request and the answer in its hands.

With the collector's thresholds raised (`proxy/server.py`) such garbage was 70 objects a turn: a tenth of a turn's CPU, pauses of 40 to 70 ms, and
hundreds of megabytes between two collections when requests are large.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter

import aiohttp
import pytest

from proxy.config import from_upstream_url
from proxy.server import Server
from proxy.telemetry.sink import LogSink
from tests.support.scripted_upstream import ScriptedUpstream

WORDS = "The tide turns twice a day, as it does along the whole of this coast."
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}}
HOME = ("pipeline.", "proxy.")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [False, True])
async def test_no_turn_is_left_to_the_collector(stream, tools):
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}], **({"tools": [TOOL]} if tools else {})}
    ports = {"TOOLGRAFT_LISTEN__PORT": "0", "TOOLGRAFT_ADMIN__PORT": "0"}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    sink = LogSink(nowhere)
    async with ScriptedUpstream(WORDS, chunk=4) as upstream:
        server = Server(from_upstream_url(upstream.url, ports), {}, sink)
        addresses = await server.start()
        try:
            async with aiohttp.ClientSession() as session:

                async def ask() -> None:
                    url = f"http://127.0.0.1:{addresses.public[1]}/v1/chat/completions"
                    async with session.post(url, json=body) as answer:
                        assert answer.status == 200
                        await answer.read()
                    await asyncio.sleep(0.05)

                await ask()
                gc.collect()
                gc.set_debug(gc.DEBUG_SAVEALL)
                try:
                    await ask()
                    gc.collect()
                    left = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
                finally:
                    gc.set_debug(0)
                    gc.garbage.clear()
        finally:
            await server.drain(at_once=True)
            sink.close()
            os.close(nowhere)
            gc.unfreeze()
            gc.set_threshold(700, 10, 10)
    assert not {name: count for name, count in left.items() if name.startswith(HOME)}

"""Connections below the level of requests: the deadline for a request's head, and what is no HTTP."""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from proxy.http_server import HttpServer
from tests.support.raw_http import converse

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def server(header_s=0.2, keepalive_s=30.0):
    """Answers `/slow` after the head's deadline has passed, everything else at once."""

    async def handle(request):
        if request.path == "/slow":
            await asyncio.sleep(2 * header_s)
        return web.Response(text=f"{request.method} {await request.text()}")

    runner = web.ServerRunner(HttpServer(handle, lambda *_: None, keepalive_s=keepalive_s, header_s=header_s), shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "begun",
    [b"", b"\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nX-Long: aaaa", GET[:-2], b"P"],
    ids=["nothing", "a blank line", "a field", "all but the end", "a letter"],
)
async def test_a_head_that_does_not_come_costs_a_connection_for_so_long(begun):
    async with server() as port:
        assert await converse(port, begun) == b""  # closed by the server: `converse` itself would have raised TimeoutError


async def test_a_head_that_drips_is_not_given_more_time_by_each_drop():
    async with server(header_s=0.4) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def drip():
            for at in range(len(GET)):
                writer.write(GET[at : at + 1])
                await asyncio.sleep(0.1)

        dripping = asyncio.create_task(drip())
        assert await asyncio.wait_for(reader.read(), 10) == b""
        assert not dripping.done()
        dripping.cancel()
        writer.close()


async def test_a_second_head_has_a_deadline_of_its_own_and_idleness_has_none_of_it():
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(GET)
            assert b"GET" in await asyncio.wait_for(reader.readuntil(b"GET "), 5)
            await asyncio.sleep(0.5)  # idle for longer than a head may take: that is what keepalive_s is for
        writer.write(GET[:10])
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_an_answer_and_a_body_may_take_longer_than_the_head():
    async with server() as port:
        assert b"200 OK" in await converse(port, SLOW, until=b"GET ")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
        await asyncio.sleep(0.5)
        writer.write(b"dy")
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"POST body"), 5)
        writer.close()


async def test_a_pipelined_request_is_answered_after_the_deadline_of_the_first():
    async with server() as port:
        answer = await converse(port, SLOW + GET[:9] + GET[9:] + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.count(b"200 OK") == 3


async def test_the_deadline_keeps_no_connection_alive():
    async with server(header_s=30.0) as port:
        await converse(port, GET, until=b"GET ")
        for _ in range(100):
            await asyncio.sleep(0.01)
            gc.collect()
            if not [one for one in gc.get_objects() if type(one).__name__ == "_Connection"]:
                break
        else:
            raise AssertionError("a connection outlives its socket")


@pytest.mark.parametrize(
    "bytes_sent",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", GET.replace(b"Host: x\r\n", b"Host: x\r\nHost: y\r\n")],
)
async def test_what_is_no_http_is_refused_in_json(bytes_sent):
    async with server() as port:
        answer = await converse(port, bytes_sent)
        assert b" 400 " in answer.partition(b"\r\n")[0]
        assert b'{"error":{"message":' in answer

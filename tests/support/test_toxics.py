"""Every toxic on a real connection, and that the relay leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.support import toxics
from tests.support.raw_http import converse
from tests.support.toxics import Bandwidth, CutAfter, Garble, Latency, Relay, ResetAfter, Slice, Stall

EVENT = b"data: 0123456789\n\n"
BODY = EVENT * 20


@asynccontextmanager
async def origin():
    """A server: GET streams events, POST says what it read. Gives its port and how many requests were left."""
    left = []

    async def handle(request):
        if request.method == "POST":
            return web.Response(body=await request.read())
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(20):
                await response.write(EVENT)
            if request.path == "/open":
                await asyncio.sleep(100)
        except (asyncio.CancelledError, ConnectionError):
            left.append(request.path)
            raise
        return response

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], left
    finally:
        await runner.cleanup()


async def get(relay, path="/", **timeout):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20, **timeout)) as session:
        async with session.get(relay.url + path) as answer:
            return await answer.read()


async def gone(relay):
    async with asyncio.timeout(5):
        while relay.open:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("down", [[], [Slice(1)], [Latency(0.01, 0.005)], [Bandwidth(20_000)], [Slice(7), Slice(3)], [Stall(10_000)]])
async def test_what_only_delays_changes_nothing(down):
    async with origin() as (port, _), Relay(port, down=down) as relay:
        assert await get(relay) == BODY
        await gone(relay)
        assert relay.connections == 1


async def test_a_slice_is_what_is_read_at_once():
    async with origin() as (port, _), Relay(port, down=[Slice(1, pause=0.002)]) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [await reader.read(100) for _ in range(8)] == [bytes([byte]) for byte in b"HTTP/1.1"]
        writer.close()


async def test_latency_and_bandwidth_wait_for_as_long_as_they_say(monkeypatch):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(toxics.asyncio, "sleep", sleep)
    assert [piece async for piece in Latency(0.3)(b"x", 0)] == [b"x"]
    assert waited == [0.3]
    assert b"".join([piece async for piece in Bandwidth(1000)(b"x" * 100, 0)]) == b"x" * 100
    assert sum(waited[1:]) == pytest.approx(0.1)
    assert max(waited[1:]) <= 0.02


@pytest.mark.parametrize(("toxic", "error"), [(ResetAfter(300), aiohttp.ClientError), (CutAfter(300), aiohttp.ClientPayloadError)])
async def test_an_answer_breaks_off_where_it_says(toxic, error):
    async with origin() as (port, _), Relay(port, down=[toxic]) as relay:
        with pytest.raises(error):
            await get(relay)
        await gone(relay)


async def test_exactly_so_many_bytes_come_before_the_cut_also_behind_a_slicer():
    for down in ([CutAfter(100)], [Slice(7), CutAfter(100)], [Slice(1), CutAfter(100)]):
        async with origin() as (port, _), Relay(port, down=down) as relay:
            assert len(await converse(relay.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")) == 100


async def test_silence_is_silence():
    async with origin() as (port, _), Relay(port, down=[Stall(300)]) as relay:
        with pytest.raises(aiohttp.SocketTimeoutError):
            await get(relay, sock_read=0.3)


async def test_garbage_turns_the_bytes_it_says_and_no_others():
    async with origin() as (port, _), Relay(port, up=[Garble(10, start=60)]) as relay:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n"
        body = b"a" * 30
        expected = bytearray(body)
        for at in range(69 - len(head), 30, 10):
            expected[at] ^= 0xFF
        answer = await converse(relay.port, head + body, until=bytes(expected))
        assert bytes(expected) != body
        assert answer.endswith(expected)


async def test_nobody_behind_it_is_a_reset():
    async with Relay(9) as relay:
        with pytest.raises(aiohttp.ClientError):
            await get(relay)
        await gone(relay)


@pytest.mark.parametrize("abruptly", [True, False])
async def test_a_client_that_leaves_is_felt_behind_it(abruptly):
    async with origin() as (port, left), Relay(port, down=[Slice(50)]) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"GET /open HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(EVENT), 5)
        if abruptly:
            toxics.reset(writer)
        else:
            writer.close()
        async with asyncio.timeout(5):
            while not left:
                await asyncio.sleep(0.01)
        await gone(relay)


async def test_a_body_goes_up_in_slices_and_the_connection_can_be_used_again():
    async with origin() as (port, _), Relay(port, up=[Slice(1)]) as relay, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(relay.url, data=b"hello") as answer:
                assert await answer.read() == b"hello"
        assert relay.connections == 1


async def test_the_end_leaves_no_task_behind():
    before = asyncio.all_tasks()
    async with origin() as (port, _), Relay(port, down=[Stall(0)]) as relay:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.05)
        assert relay.open == 1
    writer.close()
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() - before if "Relay" in repr(task) or "_pump" in repr(task)} == set()

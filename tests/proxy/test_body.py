"""Bodies over a real connection: whole, packed, too large, broken, late."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import Api, ErrorKind
from proxy.body import BIG_BYTES, read_body
from proxy.config.tree import Limits
from proxy.errors import refusal
from proxy.http_server import HttpServer
from tests.support.raw_http import converse

LIMITS = Limits(max_body_bytes=100_000, body_s=0.3)


async def at_once():
    """Nobody waits for a place."""


@asynccontextmanager
async def echo(limits=LIMITS, admit=at_once):
    """A server that answers with the body it read, or with the refusal."""

    async def handle(request):
        try:
            return web.Response(body=await read_body(request, limits, admit))
        except StageError as exc:
            return refusal(Api.OPENAI_CHAT, exc.failed, "req_1")

    runner = web.ServerRunner(HttpServer(handle, lambda *_: None, keepalive_s=5.0))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def post(port, data, **headers):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/", data=data, headers=headers, skip_auto_headers=["Content-Type"]) as answer,
    ):
        return answer.status, await answer.read()


def raw_deflate(data):
    squeeze = zlib.compressobj(wbits=-15)
    return squeeze.compress(data) + squeeze.flush()


TEXT = b'{"text": "' + b"abc" * 20_000 + b'"}'


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("gzip", lambda data: gzip.compress(data[:1000], mtime=0) + gzip.compress(data[1000:], mtime=0)),
    ],
)
@pytest.mark.parametrize("data", [b"", b"{}", TEXT])
async def test_a_body_comes_out_as_it_was(encoding, pack, data):
    async with echo() as port:
        headers = {"Content-Encoding": encoding} if encoding else {}
        assert await post(port, pack(data), **headers) == (200, data)


async def test_a_chunked_body_comes_out_as_it_was():
    async def pieces():
        for at in range(0, len(TEXT), 7000):
            yield TEXT[at : at + 7000]

    async with echo() as port:
        assert await post(port, pieces()) == (200, TEXT)


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"x" * 100_001, {}, 413),
        (gzip.compress(b"\0" * 50_000_000, mtime=0), {"Content-Encoding": "gzip"}, 413),
        (gzip.compress(b"\0" * 60_000, mtime=0) * 2, {"Content-Encoding": "gzip"}, 413),
        (zlib.compress(b"\0" * 100_001), {"Content-Encoding": "deflate"}, 413),
        (b"x", {"Content-Encoding": "br"}, 415),
        (b"x", {"Content-Encoding": "gzip, gzip"}, 415),
        (b"not gzip", {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(TEXT, mtime=0)[:-20], {"Content-Encoding": "gzip"}, 400),
        (b"x", {"Expect": "tea"}, 417),
    ],
)
async def test_what_cannot_be_taken_is_refused_in_json(data, headers, status):
    async with echo() as port:
        got, body = await post(port, data, **headers)
        assert got == status
        assert body.startswith(b'{"error":{"message":')


async def test_a_chunked_body_that_never_ends_is_refused_at_the_limit():
    async def pieces():
        for _ in range(100):
            yield b"x" * 10_000

    async with echo() as port:
        assert (await post(port, pieces()))[0] == 413


async def test_a_length_above_the_limit_is_refused_before_the_body_comes():
    async with echo() as port:
        answer = await converse(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n", until=b"}}")
        assert answer.startswith(b"HTTP/1.1 413")


async def test_a_body_that_drips_is_refused_in_time():
    async with echo() as port:
        answer = await converse(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", until=b"}}")
        assert answer.startswith(b"HTTP/1.1 408")


async def test_expect_is_answered_before_the_body():
    async with echo() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert await reader.readline() == b"\r\n"
        writer.write(b"{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


# --- bodies of those who wait -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "asked"), [(BIG_BYTES, False), (3 * BIG_BYTES, True)])
async def test_a_big_body_is_read_with_its_place_alone(size, asked, chunked):
    place, came = asyncio.Event(), asyncio.Event()

    async def admit():
        came.set()
        await place.wait()

    async def pieces():
        for at in range(0, size, 1 << 16):
            yield b"x" * min(1 << 16, size - at)

    async with echo(Limits(), admit) as port:
        posted = asyncio.create_task(post(port, pieces() if chunked else io.BytesIO(b"x" * size)))
        if asked:
            await asyncio.wait_for(came.wait(), 5)
            await asyncio.sleep(0.05)
            assert not posted.done()
            place.set()
        status, body = await asyncio.wait_for(posted, 5)
    assert (status, len(body), came.is_set()) == (200, size, asked)


async def test_what_is_packed_unfolds_with_its_place_alone():
    asked = []

    async def admit():
        asked.append(True)

    async with echo(admit=admit) as port:
        assert (await post(port, gzip.compress(TEXT), **{"Content-Encoding": "gzip"}))[1] == TEXT
    assert asked


async def test_without_a_place_a_big_body_is_refused_unread():
    async def admit():
        raise StageError(Failed(ErrorKind.RATE_LIMIT, "full", retry_after="5"))

    async with echo(Limits(), admit) as port:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {2 * BIG_BYTES}\r\nExpect: 100-continue\r\n\r\n"
        raw = await converse(port, head.encode())
    assert raw.startswith(b"HTTP/1.1 429")

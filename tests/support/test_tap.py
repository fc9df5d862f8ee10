"""The tap carries bytes and ends through unchanged, and reads exchanges out of what passed."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.conformance import wire
from tests.support.raw_http import converse
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.tap import Exchange, Tap

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("stream", [True, False])
async def test_several_exchanges_of_one_connection(stream):
    async with ScriptedUpstream("alpha beta", chunk=3) as upstream:
        with Tap(upstream.port) as tap:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
                bodies = []
                for _ in range(3):
                    async with session.post(f"{tap.url}/v1/chat/completions?beta=true", json={**ASK, "stream": stream}) as answer:
                        bodies.append(await answer.read())
            found = tap.exchanges()
    assert [one.body for one in found] == bodies
    for one in found:
        assert (one.method, one.path, one.query, one.status) == ("POST", "/v1/chat/completions", "beta=true", 200)
        assert one.request == {**ASK, "stream": stream}
        assert (one.streamed, one.complete, one.client_left) == (stream, True, False)
    assert len({seen.client for seen in upstream.seen}) == 1


@pytest.mark.parametrize(
    ("ending", "error"), [("cut", aiohttp.ClientPayloadError), ("reset", (aiohttp.ClientPayloadError, aiohttp.ClientOSError))]
)
async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(ending, error):
    async with ScriptedUpstream(Script("alpha", ending=ending, chunk=1)) as upstream:
        with Tap(upstream.port) as tap:
            async with aiohttp.ClientSession() as session:
                with pytest.raises(error):
                    async with session.post(f"{tap.url}/v1/chat/completions", json={**ASK, "stream": True}) as answer:
                        await answer.read()
            (one,) = tap.exchanges()
    assert not one.complete
    assert not one.client_left


async def test_a_client_that_leaves_is_carried_on():
    async with ScriptedUpstream(Script("alpha", ending="open")) as upstream:
        with Tap(upstream.port) as tap:
            async with aiohttp.ClientSession() as session:
                answer = await session.post(f"{tap.url}/v1/chat/completions", json={**ASK, "stream": True})
                await answer.content.readany()
                answer.close()
            assert await upstream.seen[0].left(5)
            (one,) = tap.exchanges()
    assert one.client_left
    assert not one.complete


async def test_bodies_without_framing_and_interim_answers():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        with Tap(server.sockets[0].getsockname()[1]) as tap:
            await converse(tap.port, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            (one,) = tap.exchanges()
    assert (one.status, one.body, one.complete) == (200, b"to the end", True)


def test_nothing_listens():
    with Tap(1) as tap:
        raw = asyncio.run(_try(tap.port))
    assert raw == b""


async def _try(port):
    try:
        return await converse(port, b"GET / HTTP/1.1\r\n\r\n")
    except ConnectionError:
        return b""


# --- the judge finds what it is for -----------------------------------------------------------------------------------------------

IDS = {"x-request-id": "req_1", "request-id": "req_1"}
SSE = {**IDS, "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
ERROR = b'data: {"error":{"message":"m","type":"server_error","param":null,"code":null}}\n\n'


def exchange(path="/v1/chat/completions", **fields):
    return Exchange("POST", path, "", {}, b'{"stream":true}', **{"status": 200, "headers": SSE, "complete": True, **fields})


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (exchange(status=0, headers={}), "W1"),
        (exchange(headers={**SSE, "request-id": "other"}, writes=[b"data: [DONE]\n\n"]), "X13"),
        (exchange(headers={**SSE, "cache-control": ""}, writes=[b"data: [DONE]\n\n"]), "X01"),
        (exchange(writes=[b"data: [DO", b"NE]\n\n"]), "S9"),
        (exchange(writes=[ERROR], complete=True), "E8 a stream that failed"),
        (exchange(writes=[], complete=False), "E8 a stream was cut"),
        (exchange(status=429, headers={**IDS, "content-type": "application/json"}, writes=[b"{}"]), "E8 429"),
        (exchange(status=500, headers={**IDS, "content-type": "text/plain"}, writes=[b"500 Internal Server Error"]), "X21"),
        (
            exchange(
                "/v1/messages",
                status=400,
                headers={**IDS, "content-type": "application/json"},
                writes=[b'{"error":{"message":"m","type":"t"}}'],
            ),
            "X20",
        ),
        (exchange(headers={**IDS, "content-type": "application/json"}, writes=[b'{"object":"x"}']), "W5"),
    ],
)
def test_each_rule_can_be_broken(one, rule):
    assert [found for found in wire.judge(one) if found.startswith(rule)]


def test_a_stream_that_was_cut_after_its_error_event_is_legal():
    assert wire.judge(exchange(writes=[ERROR], complete=False)) == []

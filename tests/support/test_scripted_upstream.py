"""The scripted upstream says what its scripts say, and notices who asked and who left."""

from __future__ import annotations

import asyncio
import json
import urllib.request

import aiohttp
import pytest

from tests.support.scripted_upstream import Script, ScriptedUpstream

CHAT = {"model": "demo-chat", "messages": [{"role": "user", "content": "hi"}]}


async def ask(upstream: ScriptedUpstream, path: str = "/chat/completions", **fields: object) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(upstream.url + path, json=CHAT | fields) as response:
        return response.status, await response.read()


def frames(body: bytes) -> list[dict]:
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("chunk", [0, 1, 3])
async def test_streams_the_text_in_deltas_of_the_given_size(chunk: int):
    async with ScriptedUpstream("Hello 世界", chunk=chunk) as upstream:
        status, body = await ask(upstream, stream=True, stream_options={"include_usage": True})
    deltas = [choice["delta"].get("content", "") for frame in frames(body) for choice in frame["choices"]]
    assert status == 200 and "".join(deltas) == "Hello 世界" and body.endswith(b"data: [DONE]\n\n")
    assert max(map(len, deltas)) == (chunk or 8) and frames(body)[-1]["usage"]["prompt_tokens"] == 11


async def test_speaks_messages_streamed_and_whole():
    async with ScriptedUpstream({"text": "ab", "reasoning": "hm", "chunk": 1}) as upstream:
        _, streamed = await ask(upstream, "/messages", stream=True)
        _, whole = await ask(upstream, "/messages")
    kinds = [frame["type"] for frame in frames(streamed)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and kinds.count("content_block_stop") == 2
    assert [block["type"] for block in json.loads(whole)["content"]] == ["thinking", "text"]


async def test_successive_answers_and_the_last_one_repeats():
    async with ScriptedUpstream({"texts": ["one", "two"]}) as upstream:
        said = [json.loads((await ask(upstream))[1])["choices"][0]["message"]["content"] for _ in range(3)]
    assert said == ["one", "two", "two"] and len(upstream.seen) == 3 and upstream.seen[0].json["model"] == "demo-chat"


async def test_statuses_headers_and_bodies():
    async with ScriptedUpstream({"status": 429, "headers": {"retry-after": "17"}, "body": {"error": {"message": "quota"}}}) as upstream:
        assert await ask(upstream) == (429, b'{"error": {"message": "quota"}}')


@pytest.mark.parametrize("ending", ["cut", "reset"])
async def test_broken_endings_are_seen_as_broken(ending: str):
    async with ScriptedUpstream({"raw": "data: x\n\n", "ending": ending}) as upstream:
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
            await ask(upstream)
    assert not upstream.seen[0].completed


async def test_notices_a_client_that_leaves():
    async with ScriptedUpstream({"text": "x", "ending": "open"}) as upstream:
        task = asyncio.create_task(ask(upstream, stream=True))
        while not upstream.seen:
            await asyncio.sleep(0.005)
        task.cancel()
        assert await upstream.seen[0].left(2.0)


async def test_squeezes_although_not_asked():
    async with ScriptedUpstream({"text": "ok", "content_encoding": "gzip"}) as upstream:
        _, body = await ask(upstream, stream=True)
    assert b'"ok"' in body


def test_serves_from_a_thread_and_a_chooser_sees_the_request():
    with ScriptedUpstream(lambda seen: Script(text=seen.text.upper())).in_thread() as upstream:
        request = urllib.request.Request(
            upstream.url + "/chat/completions", json.dumps(CHAT).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert json.loads(response.read())["choices"][0]["message"]["content"] == "HI"

"""Through a real nginx with the shipped configuration: order of events, not a clock.

The upstream writes a delta only after the client has read the one before it: were anything buffered on the way, the test would stand still.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.nginx import configure, nginx, nginx_binary
from tests.support.running import toolgraft
from tests.support.stepped_upstream import SteppedUpstream

pytestmark = pytest.mark.skipif(nginx_binary() is None, reason="nginx is not installed")

TOOL = {
    "type": "function",
    "function": {"name": "lookup_tide", "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}},
}
PARAGRAPH = "The tide at Vigo turns twice a day, as it does along the whole of this coast. " * 8
WORDS = [f"word{at} " for at in range(12)]


@asynccontextmanager
async def through_nginx(tmp_path):
    """Upstream, toolgraft and nginx; gives the upstream and nginx's URL."""
    async with SteppedUpstream() as upstream:
        with running(tmp_path, upstream.url) as url:
            yield upstream, url


@contextmanager
def running(tmp_path, upstream_url):
    with toolgraft(tmp_path, upstream_url) as service, nginx(tmp_path, [int(service.direct.rpartition(":")[2])]) as url:
        yield url


class Reader:
    """Reads the text deltas of a stream as they come."""

    def __init__(self, answer):
        self._lines = answer.content
        self.text = ""

    async def until(self, text):
        """Read until the text so far ends with this; white space at its end may be held back (S12)."""
        async with asyncio.timeout(10):
            while not self.text.rstrip().endswith(text.rstrip()):
                line = await self._lines.readline()
                assert line, f"the stream ended after {self.text!r}"
                if line.startswith(b"data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        self.text += choice["delta"].get("content") or ""


def request_of(tools):
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "tell me about the tide"}]}
    return {**body, "tools": [TOOL]} if tools else body


@pytest.mark.parametrize("tools", [False, True])
async def test_deltas_reach_the_client_one_by_one_while_the_upstream_is_still_writing(tmp_path, tools):
    async with through_nginx(tmp_path) as (upstream, url), aiohttp.ClientSession() as session:
        upstream.write(PARAGRAPH)  # more than may ever be held back as a possible refusal
        async with session.post(f"{url}/v1/chat/completions", json=request_of(tools)) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            reader = Reader(answer)
            await reader.until(PARAGRAPH)
            for word in WORDS:
                upstream.write(word)
                await reader.until(word)
            upstream.end()
            rest = await asyncio.wait_for(answer.read(), 10)
            assert rest.endswith(b"data: [DONE]\n\n")
        assert not upstream.left.is_set()


@pytest.mark.parametrize("tools", [False, True])
async def test_a_client_that_leaves_closes_the_upstream_before_it_writes_again(tmp_path, tools):
    async with through_nginx(tmp_path) as (upstream, url):
        upstream.write(PARAGRAPH)
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{url}/v1/chat/completions", json=request_of(tools))
            await Reader(answer).until(PARAGRAPH)
            answer.close()
        await asyncio.wait_for(upstream.left.wait(), 10)
        assert upstream.written == 1


async def test_a_client_that_leaves_before_anything_came_closes_the_upstream(tmp_path):
    async with through_nginx(tmp_path) as (upstream, url), aiohttp.ClientSession() as session:
        asking = asyncio.create_task(session.post(f"{url}/v1/chat/completions", json={**request_of(True), "stream": False}))
        await asyncio.wait_for(upstream.asked.wait(), 10)
        asking.cancel()
        await asyncio.wait_for(upstream.left.wait(), 10)
        assert upstream.written == 0


async def test_operators_endpoints_are_not_there(tmp_path):
    async with through_nginx(tmp_path) as (_, url), aiohttp.ClientSession() as session:
        for path in ("/metrics", "/healthz", "/readyz"):
            async with session.get(f"{url}{path}") as answer:
                assert answer.status == 404


def test_nginx_accepts_the_shipped_configuration(tmp_path):
    main, _ = configure(tmp_path, [8790, 8791])
    binary = nginx_binary()
    assert binary is not None
    done = subprocess.run(
        [binary, "-t", "-e", str(tmp_path / "start.log"), "-p", str(tmp_path), "-c", str(main)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


def test_gixy_finds_no_weakness(tmp_path):
    gixy = shutil.which("gixy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if gixy is None:
        pytest.skip("gixy-ng is not installed")
    main, _ = configure(tmp_path, [8790])
    done = subprocess.run([gixy, str(main)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "No issues found." in done.stdout

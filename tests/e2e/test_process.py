"""A real process: what it writes, how it ends, what it shows to operators and to nobody else."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time

import aiohttp
import pytest

from tests.support.running import free_port, toolgraft
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.stepped_upstream import SteppedUpstream

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def status_of(session, url):
    try:
        async with session.get(url) as answer:
            return answer.status
    except aiohttp.ClientConnectorError:
        return None


async def until(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if (found := await condition()) is not None:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to pass")


def drain(lame_duck_s, timeout_s):
    return {"TOOLGRAFT_DRAIN__LAME_DUCK_S": str(lame_duck_s), "TOOLGRAFT_DRAIN__TIMEOUT_S": str(timeout_s)}


async def test_a_drain_is_lame_first_then_waits_for_streams_and_ends_well(tmp_path):
    async with SteppedUpstream() as upstream, aiohttp.ClientSession() as session:
        with toolgraft(tmp_path, upstream.url, environment=drain(1.0, 20)) as running:
            upstream.write("one ")
            async with session.post(f"{running.direct}/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
                assert b"one" in await answer.content.readline()
                running.process.send_signal(signal.SIGTERM)

                async def not_ready():
                    return True if await status_of(session, f"{running.admin}/readyz") == 503 else None

                await until(not_ready)
                async with session.head(f"{running.direct}/") as other:  # a lame duck still answers, for the last time
                    assert (other.status, other.headers["connection"]) == (200, "close")
                assert await status_of(session, f"{running.admin}/healthz") == 200

                async def refused():
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", int(running.direct.rpartition(":")[2]))
                    except OSError:
                        return True
                    writer.close()
                    return None

                await until(refused)
                upstream.write("two ")
                upstream.end()
                rest = await answer.read()
                assert b"two" in rest
                assert rest.endswith(b"data: [DONE]\n\n")
            assert await asyncio.to_thread(running.process.wait, 10) == 0
            events = [line["event"] for line in running.lines()]
            assert events[0] == "listening"
            assert events[-3:] == ["draining", "turn", "stopped"]


async def test_a_stream_that_outlives_the_drain_ends_with_the_protocols_error(tmp_path):
    async with SteppedUpstream() as upstream, aiohttp.ClientSession() as session:
        with toolgraft(tmp_path, upstream.url, environment=drain(0, 0.3)) as running:
            upstream.write("one ")
            body = {**CHAT, "max_tokens": 9, "stream": True}
            async with session.post(f"{running.direct}/v1/messages", json=body) as answer:
                assert answer.status == 200
                await answer.content.readline()
                running.process.send_signal(signal.SIGTERM)
                with pytest.raises(aiohttp.ClientPayloadError):  # no final chunk: nothing looks complete
                    await answer.read()
            assert await asyncio.to_thread(running.process.wait, 10) == 0
            await asyncio.wait_for(upstream.left.wait(), 5)
            turn = running.turns(1)[0]
            assert turn["error_kind"] == "shutting_down"


async def test_a_second_signal_ends_at_once(tmp_path):
    async with SteppedUpstream() as upstream, aiohttp.ClientSession() as session:
        with toolgraft(tmp_path, upstream.url, environment=drain(60, 60)) as running:
            upstream.write("one ")
            async with session.post(f"{running.direct}/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
                await answer.content.readline()
                running.process.send_signal(signal.SIGTERM)

                async def not_ready():
                    return True if await status_of(session, f"{running.admin}/readyz") == 503 else None

                await until(not_ready)
                running.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(running.process.wait, 10) == 0


def test_every_line_is_one_json_object_and_probes_are_silent(tmp_path):
    import urllib.request

    with ScriptedUpstream("hello").in_thread() as upstream, toolgraft(tmp_path, upstream.url) as running:
        before = len(running.lines())
        for path in ("/healthz", "/readyz", "/metrics"):
            with urllib.request.urlopen(running.admin + path, timeout=5) as answer:
                assert answer.status == 200
        request = urllib.request.Request(f"{running.direct}/v1/chat/completions", json.dumps(CHAT).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"] == "hello"
        assert len(running.turns(1)) == 1
        lines = running.lines()
        assert len(lines) == before + 1
        assert all(isinstance(line, dict) and {"ts", "level", "event", "worker", "build"} <= set(line) for line in lines)
        assert running.total("toolgraft_requests_total") == 1
        assert running.total("toolgraft_turns_total", verdict="passed") == 1
        assert running.total("toolgraft_turns_started_total") - running.total("toolgraft_turns_total") == 0
        assert running.total("toolgraft_requests_in_flight") == 0
        assert running.total("toolgraft_loop_lag_seconds_count") >= 0
        assert running.total("toolgraft_admission_limit") == 2000
    assert (tmp_path / "stderr.txt").read_text() == ""


def test_operators_paths_are_not_public_and_public_paths_not_the_operators(tmp_path):
    import urllib.error
    import urllib.request

    with ScriptedUpstream("hello").in_thread() as upstream, toolgraft(tmp_path, upstream.url) as running:
        for url in (f"{running.direct}/metrics", f"{running.direct}/readyz", f"{running.admin}/v1/models"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url, timeout=5)


def test_an_address_that_is_taken_is_said_in_one_line(tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "proxy", "serve", "--upstream", "http://127.0.0.1:9", "--admin-port", str(free_port())]
        done = subprocess.run([*command, "--port", str(taken.getsockname()[1])], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == []


def test_a_stuck_capture_disk_does_not_keep_the_process_from_ending(tmp_path):
    program = (
        "import threading\n"
        "from proxy.telemetry.capture import CaptureFolder\n"
        "CaptureFolder._write = lambda *_: threading.Event().wait()\n"
        "from proxy.__main__ import main\n"
        "main()\n"
    )
    port, admin = free_port(), free_port()
    with ScriptedUpstream("hello").in_thread() as upstream, (tmp_path / "log.jsonl").open("wb") as log:
        command = [sys.executable, "-c", program, "serve", "--upstream", upstream.url, "--port", str(port), "--admin-port", str(admin)]
        environment = {"PATH": "/usr/bin:/bin", "TOOLGRAFT_CAPTURE__DIR": str(tmp_path / "captures"), **drain(0, 1)}
        process = subprocess.Popen(command, stdout=log, env=environment)
        try:
            asyncio.run(asked_once(f"http://127.0.0.1:{port}"))
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
    events = [(line["event"], line.get("count")) for line in map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())]
    assert events[-2:] == [("captures_dropped", 1), ("stopped", None)]


async def asked_once(url):
    async with aiohttp.ClientSession() as session:

        async def answered():
            try:
                async with session.post(f"{url}/v1/chat/completions", json=CHAT) as answer:
                    await answer.read()
                    return answer.status
            except aiohttp.ClientConnectorError:
                return None

        assert await until(answered, 30) == 200

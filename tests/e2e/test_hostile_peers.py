"""Clients and upstreams that mean harm: each meets a clear refusal or a bounded cost, and everybody else is served meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import re
import shutil
import socket
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.load import Load, answer
from tests.support.raw_http import converse
from tests.support.running import free_port, toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.served import until
from tests.support.tools import tool

SHORT = "[limits]\nheader_s = 1\nbody_s = 1\nwrite_stall_s = 1\n"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
MIB = 1 << 20


@asynccontextmanager
async def besieged(tmp_path, toml=SHORT, script=answer, clients=3):
    """The service as a process, with well-behaved clients at it all the time; none of them may notice anything."""
    async with ScriptedUpstream(script) as upstream:
        with toolgraft(tmp_path, upstream.url, toml, judged=False) as running:
            port = int(running.direct.rpartition(":")[2])
            async with Load(running.direct, count=clients) as load:
                await load.more(clients)
                yield running, port, load, upstream
                await load.more(2 * clients)
            assert load.tally.failed == []
            await until(lambda: running.total("toolgraft_requests_in_flight") == 0)
            assert [line for line in running.lines() if line["event"] in ("unexpected", "library")] == []


def resident(running):
    """MiB of memory that the process holds."""
    line = next(one for one in Path(f"/proc/{running.process.pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def descriptors(running):
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


async def post(port, data, path="/v1/chat/completions", **headers):
    if isinstance(data, bytes):
        data = io.BytesIO(data)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        async with session.post(f"http://127.0.0.1:{port}{path}", data=data, headers=headers) as got:
            return got.status, await got.read()


# --- slow and stuck ------------------------------------------------------------------------------------------------------------


async def test_heads_and_bodies_that_drip_are_cut_off(tmp_path):
    async with besieged(tmp_path) as (running, port, load, _):
        before = descriptors(running)

        async def drip(begun):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            got = b""
            while piece := await asyncio.wait_for(_either(reader, writer), 30):
                got += piece
            writer.close()
            return got

        heads = [drip(b"GET / HTTP/1.1\r\nHost: x\r\n") for _ in range(60)]
        bodies = [drip(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{") for _ in range(60)]
        ends = await asyncio.gather(*heads, *bodies)
        assert set(ends[:60]) == {b""}
        assert {end.partition(b"\r\n")[0] for end in ends[60:]} == {b"HTTP/1.1 408 Request Timeout"}
        assert all(b'"type":"error"' in end for end in ends[60:])
        await load.more(3)
        await until(lambda: descriptors(running) <= before + 6)


async def _either(reader, writer):
    """The next bytes from the server; a drop towards it for each moment that none come."""
    while True:
        try:
            return await asyncio.wait_for(reader.read(65536), 0.2)
        except TimeoutError:
            writer.write(b"X-Drop: y\r\n")
        except ConnectionError:
            return b""


@pytest.mark.parametrize("mode", [["-H"], ["-B", "-s", "8192"]], ids=["headers", "bodies"])
async def test_slowhttptest_does_not_keep_the_service_from_its_clients(tmp_path, mode):
    async with besieged(tmp_path) as (running, port, load, _):
        command = [tool("slowhttptest"), *mode, "-c", "100", "-r", "100", "-i", "1", "-l", "20", "-p", "3", "-x", "10"]
        command += ["-t", "POST", "-u", f"http://127.0.0.1:{port}/v1/chat/completions"]
        attack = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        report, _ = await asyncio.wait_for(attack.communicate(), 60)
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", report.decode(errors="replace"))
        assert re.search(r"service available:\s+YES", text), text
        assert not re.search(r"service available:\s+NO", text), text
        assert "No open connections left" in text  # cut off one by one, long before the attacker wanted to stop
        await load.more(3)
        await until(lambda: descriptors(running) < 60)


async def stuck_reader(port, body):
    """A client that asks and never reads. Its kernel must hold little for it: the proxy's own buffers, and the upstream's, are tens of MB as it is."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    await asyncio.get_running_loop().sock_sendall(sock, head + body)
    return sock


async def test_readers_that_are_stuck_cost_little_and_are_cut(tmp_path):
    flood = Script(text="A long answer, in many words. " * 2_000_000, chunk=6000)  # 60 MB

    def script(seen):
        return flood if "flood" in seen.text else answer(seen)

    async with besieged(tmp_path, SHORT, script) as (running, port, _, upstream):
        before = resident(running)
        body = json.dumps({**CHAT, "messages": [{"role": "user", "content": "flood"}], "tools": [TOOL], "stream": True}).encode()
        stuck = []
        try:
            for _ in range(8):
                stuck.append(await stuck_reader(port, body))  # noqa: PERF401 - what is open must be closed
            floods = await until(lambda: len(found := [one for one in upstream.seen if "flood" in one.text]) == 8 and found)
            for one in floods:
                assert await one.left(30)  # a stuck client slows its upstream down, and when it is cut the upstream is closed
            assert not any(one.completed for one in floods)
            assert resident(running) < before + 60
            await until(lambda: [line["verdict"] for line in running.lines() if line["event"] == "turn"].count("client_gone") == 8)
            assert running.total("toolgraft_disconnects_total", phase="mid_stream") == 8
        finally:
            for sock in stuck:
                sock.close()


async def test_standard_output_that_nobody_reads_costs_lines_and_nothing_else(tmp_path):
    reader, writer = os.pipe()
    port, admin = free_port(), free_port()
    async with ScriptedUpstream("hello") as upstream:
        config = tmp_path / "toolgraft.toml"
        config.write_text(
            f"[listen]\nport = {port}\n[admin]\nport = {admin}\n[drain]\nlame_duck_s = 0\ntimeout_s = 1\n"
            f'[log]\nbuffer_bytes = 8192\n[upstreams.m]\nurl = "{upstream.url}"\n'
        )
        process = subprocess.Popen(
            [shutil.which("python3") and os.sys.executable, "-m", "proxy", "serve", "--config", str(config)],
            stdout=writer,
            stderr=subprocess.PIPE,
        )
        os.close(writer)
        try:
            async with aiohttp.ClientSession() as session:

                async def metric(name):
                    async with session.get(f"http://127.0.0.1:{admin}/metrics") as got:
                        return next((float(line.split()[-1]) for line in (await got.text()).splitlines() if line.startswith(name)), 0.0)

                async def is_up():
                    try:
                        async with session.get(f"http://127.0.0.1:{admin}/readyz") as got:
                            return got.status == 200
                    except aiohttp.ClientError:
                        return False

                async with asyncio.timeout(60):
                    while not await is_up():
                        await asyncio.sleep(0.05)
                    asked = 0
                    while not await metric("toolgraft_log_lines_dropped_total"):
                        for _ in range(20):
                            asked += 1
                            async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=CHAT) as got:
                                assert got.status == 200
                    for _ in range(20):
                        asked += 1
                        async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=CHAT) as got:
                            assert got.status == 200
                    assert await metric("toolgraft_turns_total") >= 0
                    dropped = await metric("toolgraft_log_lines_dropped_total")
            process.terminate()
            assert await asyncio.to_thread(process.wait, 30) == 0  # even now it ends
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
        text = os.read(reader, MIB)
        os.close(reader)
        whole = [json.loads(line) for line in text.split(b"\n")[:-1]]
        assert whole[0]["event"] == "listening"
        assert 0 < dropped < asked
        assert len(upstream.seen) == asked


# --- too much ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["with a length", "in chunks", "gzip bomb", "deflate bomb in chunks"])
async def test_a_body_that_is_too_large_is_refused_without_being_kept(tmp_path, form):
    import zlib

    async def in_chunks(data):
        for at in range(0, len(data), 65536):
            yield data[at : at + 65536]

    big = b" " * (50 * MIB)
    data, headers = {
        "with a length": (big, {}),
        "in chunks": (in_chunks(big), {}),
        "gzip bomb": (gzip.compress(b"\0" * (200 * MIB), 9), {"Content-Encoding": "gzip"}),
        "deflate bomb in chunks": (in_chunks(zlib.compress(b"\0" * (200 * MIB), 9)), {"Content-Encoding": "deflate"}),
    }[form]
    async with besieged(tmp_path) as (running, port, _, upstream):
        before, asked = resident(running), len(upstream.seen)
        try:
            status, body = await post(port, data, "/v1/messages", **headers)
        except aiohttp.ClientError:  # it closed while this client was still sending: a refusal as well
            assert form == "with a length"
        else:
            assert status == 413
            error = json.loads(body)
            assert (error["type"], error["error"]["type"]) == ("error", "request_too_large")
        assert resident(running) < before + 80
        assert not [one for one in upstream.seen[asked:] if b"\0" in one.body or len(one.body) > MIB]


DEEP = 300


def nested(depth, inner='"x"'):
    return "[" * depth + inner + "]" * depth


def deep_requests():
    message = '{"role": "user", "content": "hello"}'
    tool = '{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"enum": %s}}}}}'
    yield "a tool's schema", "/v1/chat/completions", f'{{"model": "m", "messages": [{message}], "tools": [{tool % nested(DEEP)}]}}'
    yield "a message", "/v1/messages", f'{{"model": "m", "max_tokens": 9, "messages": [{{"role": "user", "content": {nested(DEEP)}}}]}}'
    yield "a field nobody knows", "/v1/responses", f'{{"model": "m", "input": "hello", "what": {nested(DEEP)}}}'
    yield "nothing else", "/v1/chat/completions", nested(100_000)
    yield "objects", "/v1/messages", '{"a":' * 100_000 + "1" + "}" * 100_000
    yield "no end", "/v1/responses", "[" * 1_000_000


async def test_json_that_nests_too_deep_is_refused_in_words(tmp_path):
    async with besieged(tmp_path) as (_, port, _, _):
        for name, path, data in deep_requests():
            status, body = await post(port, data.encode(), path, **{"Content-Type": "application/json"})
            assert status == 400, name
            assert json.loads(body)["error"]["type"] == "invalid_request_error", name


async def test_arguments_that_nest_too_deep_break_nothing_on_either_way(tmp_path):
    """In a call of the history they are text inside JSON, in a model's answer they are the model's own: neither may become a 500."""
    call = f'```json action\n{{"tool": "look", "parameters": {{"at": {nested(DEEP)}}}}}\n```'

    def script(seen):
        return Script(text=call) if "dig" in seen.text else answer(seen)

    arguments = f'{{"at": {nested(DEEP)}}}'
    history = [
        {"role": "user", "content": "dig"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "deep"},
    ]
    async with besieged(tmp_path, script=script) as (running, port, _, _):
        for messages in (history[:1], history):
            for stream in (False, True):
                data = json.dumps({"model": "m", "messages": messages, "tools": [TOOL], "stream": stream})
                status, body = await post(port, data.encode())
                assert status == 200, body[:300]
                assert b'"error"' not in body
        assert running.total("toolgraft_stage_errors_total") == 0


async def test_limits_on_counts_are_said_with_their_field(tmp_path):
    toml = "[limits]\nmax_tools = 2\nmax_messages = 3\nmax_depth = 9\n"
    message = {"role": "user", "content": "hello"}
    async with besieged(tmp_path, toml) as (_, port, _, _):
        for path, body, field in (
            ("/v1/chat/completions", {**CHAT, "tools": [TOOL] * 3}, "tools"),
            ("/v1/chat/completions", {**CHAT, "messages": [message] * 4}, "messages"),
            ("/v1/messages", {**CHAT, "max_tokens": 9, "messages": [message] * 4}, "messages"),
            ("/v1/responses", {"model": "m", "input": [message] * 4}, "input"),
            ("/v1/chat/completions", {**CHAT, "metadata": json.loads(nested(9))}, "9 levels"),
        ):
            status, answered = await post(port, json.dumps(body).encode(), path)
            assert status == 400
            assert field in json.loads(answered)["error"]["message"]


# --- smuggling -----------------------------------------------------------------------------------------------------------------

INNER = json.dumps({"model": "m", "messages": [{"role": "user", "content": "smuggled"}]})
SMUGGLED = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(INNER)}\r\n\r\n{INNER}"
HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
PROBES = {
    "both framings": f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "both framings, the other way round": f"{HEAD}Transfer-Encoding: chunked\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two lengths": f"{HEAD}Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "a list of lengths": f"{HEAD}Content-Length: 0, {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "a signed length": f"{HEAD}Content-Length: +0\r\n\r\n{SMUGGLED}",
    "a negative length": f"{HEAD}Content-Length: -1\r\n\r\n{SMUGGLED}",
    "a length in hexadecimal": f"{HEAD}Content-Length: 0x0\r\n\r\n{SMUGGLED}",
    "a length with an underscore": f"{HEAD}Content-Length: 0_0\r\n\r\n{SMUGGLED}",
    "an unknown encoding": f"{HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunked, but not last": f"{HEAD}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunked twice": f"{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a space before the colon": f"{HEAD}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a folded field": f"{HEAD}Transfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "a bare line feed": f"{HEAD}X: y\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "a bare carriage return": f"{HEAD}X: y\rContent-Length: 0\r\n\r\n{SMUGGLED}",
    "a zero byte": f"{HEAD}X: \0\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "two hosts": f"{HEAD}Host: y\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "no host": f"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n{SMUGGLED}",
    "a chunk size with a sign": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n{SMUGGLED}",
    "a chunk size beyond all bounds": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{'f' * 32}\r\n{SMUGGLED}",
    "a chunk without its end": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n{SMUGGLED}",
    "HTTP/2": f"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{SMUGGLED}",
    "a head without end": f"{HEAD}X: {'y' * 20_000}\r\n\r\n{SMUGGLED}",
    "fields without end": HEAD + "".join(f"X-{at}: y\r\n" for at in range(1000)) + "\r\n" + SMUGGLED,
}


async def test_smuggling_probes_are_refused_and_nothing_behind_them_is_heard(tmp_path):
    async with besieged(tmp_path) as (running, port, _, upstream):
        heard = {}
        told = []
        for name, probe in PROBES.items():
            answered = await converse(port, probe.encode("latin-1"), within_s=20)
            heard[name] = answered.partition(b"\r\n")[0].decode()
            assert answered.count(b"HTTP/1.") == 1, (name, answered)
            assert b'{"error":{' in answered, name
            told.append(re.search(rb"(?i)x-request-id: (\S+)", answered)[1].decode())
        assert {name: line for name, line in heard.items() if line.split(" ")[1] != "400"} == {}
        assert not [one for one in upstream.seen if "smuggled" in one.text]
        logged = {line["rid"] for line in running.lines() if line["event"] in ("bad_request", "turn")}
        assert not set(told) - logged, "whoever quotes the id of a refusal can be told what it was"


async def test_many_requests_at_once_on_one_connection_are_answered_in_order(tmp_path):
    async with besieged(tmp_path) as (_, port, _, _):
        count = 300
        head = "GET /nowhere/{at} HTTP/1.1\r\nHost: x\r\nX-Request-ID: pipelined-{at}\r\n{last}\r\n"
        data = "".join(head.format(at=at, last="Connection: close\r\n" if at == count - 1 else "") for at in range(count))
        answered = (await converse(port, data.encode(), within_s=30)).decode()
        rids = [line.partition(": ")[2] for line in answered.split("\r\n") if line.lower().startswith("x-request-id:")]
        assert rids == [f"pipelined-{at}" for at in range(count)]


# --- upstreams -----------------------------------------------------------------------------------------------------------------


async def test_an_upstream_that_sends_its_callers_elsewhere_is_not_followed(tmp_path):
    async with ScriptedUpstream("you should not be here") as elsewhere:

        def script(seen):
            if "redirect" not in seen.text:
                return answer(seen)
            status = int(re.search(r"redirect (\d+)", seen.text)[1])
            return Script(status=status, headers={"location": f"{elsewhere.url}/chat/completions", "set-cookie": "tenant=a"}, body={})

        async with besieged(tmp_path, script=script) as (_, port, _, upstream):
            for status in (301, 302, 303, 307, 308):
                for tools in ({}, {"tools": [TOOL]}):
                    body = {"model": "m", "messages": [{"role": "user", "content": f"redirect {status}"}], **tools}
                    got, said = await post(port, json.dumps(body).encode(), authorization="Bearer canary")
                    assert got == 502, (status, got, said)
                    assert elsewhere.url.encode() not in said
            assert elsewhere.seen == []
            assert not [one for one in upstream.seen if "cookie" in one.headers]


async def test_an_upstreams_cookies_and_headers_reach_nobody(tmp_path):
    tricks = {
        "set-cookie": "tenant=a; Path=/",
        "x-powered-by": "somebody",
        "connection": "x-hop",
        "x-hop": "y",
        "x-toolgraft-outcome": "forged",
    }

    def script(seen):
        return Script(text="hello", headers=tricks) if "trick" in seen.text else answer(seen)

    async with besieged(tmp_path, script=script) as (_, port, _, upstream):
        body = {"model": "m", "messages": [{"role": "user", "content": "trick"}]}
        async with aiohttp.ClientSession() as session:
            for stream in (False, True):
                for tools in ({}, {"tools": [TOOL]}):
                    async with session.post(
                        f"http://127.0.0.1:{port}/v1/chat/completions", json={**body, "stream": stream, **tools}
                    ) as got:
                        assert got.status == 200
                        assert {name.lower() for name in got.headers} & set(tricks) == set()
                        await got.read()
        assert not [one for one in upstream.seen if "cookie" in one.headers]


async def test_an_upstreams_own_bombs_are_bounded(tmp_path):
    """Compressed although it was asked not to: unpacked piece by piece, and cut where an answer is larger than any answer."""
    bomb = Script(raw='{"choices": [{"message": {"content": "' + "a" * (100 * MIB), content_encoding="gzip")
    line = Script(raw='data: {"choices": [{"delta": {"content": "' + "a" * (100 * MIB))

    def script(seen):
        return bomb if "bomb" in seen.text else line if "line" in seen.text else answer(seen)

    async with besieged(tmp_path, SHORT + "[retry]\nmax_retries = 0\n", script) as (running, port, _, _):
        before = resident(running)
        for said in ("bomb", "line"):
            body = {"model": "m", "messages": [{"role": "user", "content": said}], "tools": [TOOL], "stream": said == "line"}
            status, answered = await post(port, json.dumps(body).encode())
            assert status == 502, (status, answered[:200])
        assert resident(running) < before + 250

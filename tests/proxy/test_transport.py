"""The upstream connection: keys, headers, what is never done, how it ends. Against a real server on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from pipeline.settings import UpstreamTraits
from pipeline.stage import UpstreamRequest
from pipeline.verdicts import Api, UpstreamOutcome
from proxy.masking import KeyMask, key_mask
from proxy.transport import Transport, TransportError, UpstreamConfig
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.tools import tool

BODY = b'{"model":"demo-chat","messages":[],"stream":true}'
STREAM = UpstreamRequest("/chat/completions", BODY, stream=True)
WHOLE = UpstreamRequest("/chat/completions", b'{"model":"demo-chat","messages":[]}', stream=False)
MESSAGES = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)


@asynccontextmanager
async def transport(*configs: UpstreamConfig) -> AsyncIterator[Transport]:
    made = Transport(configs)
    try:
        yield made
    finally:
        await made.close()


async def whole(response) -> bytes:
    return b"".join([data async for data in response])


@asynccontextmanager
async def both(script, **fields):
    async with ScriptedUpstream(script) as upstream, transport(UpstreamConfig("up", upstream.url, **fields)) as made:
        yield upstream, made


async def test_sends_the_bytes_and_gives_the_answer_as_it_arrives():
    async with both({"text": "abc", "chunk": 1}) as (upstream, made):
        response = await made.send("up", STREAM, headers={"traceparent": "00-x"})
        body = await whole(response)
    seen = upstream.seen[0]
    assert (response.status, response.content_type) == (200, "text/event-stream; charset=utf-8")
    assert body.endswith(b"data: [DONE]\n\n") and all(name == name.lower() for name in response.headers)
    assert (seen.path, seen.body, seen.headers["content-type"]) == ("/v1/chat/completions", BODY, "application/json")
    assert (seen.headers["accept-encoding"], seen.headers["accept"], seen.headers["traceparent"]) == (
        "identity",
        "text/event-stream",
        "00-x",
    )
    assert set(seen.headers) == {"host", "accept", "accept-encoding", "user-agent", "content-type", "content-length", "traceparent"}


@pytest.mark.parametrize(
    ("config", "client_key", "expected"),
    [
        ({}, None, {}),
        ({}, "theirs", {"authorization": "Bearer theirs"}),
        ({"key": "ours"}, "theirs", {"authorization": "Bearer ours"}),
        ({"key": "ours"}, None, {"authorization": "Bearer ours"}),
        ({"key": "", "key_header": "api-key"}, "theirs", {}),
        ({"key_header": "x-api-key"}, "theirs", {"x-api-key": "theirs"}),
        ({"key_header": "api-key", "key": "ours"}, None, {"api-key": "ours"}),
        ({"traits": MESSAGES}, "theirs", {"x-api-key": "theirs"}),
        ({"traits": MESSAGES, "key_header": "bearer", "key": "ours"}, None, {"authorization": "Bearer ours"}),
        ({}, "the\r\nirs", {}),
        ({}, "thé", {}),
    ],
)
async def test_keys_go_where_they_are_meant_to(config: dict, client_key: str | None, expected: dict):
    async with both("ok", **config) as (upstream, made):
        await whole(await made.send("up", WHOLE, client_key=client_key))
    sent = {name: value for name, value in upstream.seen[0].headers.items() if name in ("authorization", "x-api-key", "api-key")}
    assert sent == expected
    assert ("anthropic-version" in upstream.seen[0].headers) == ("traits" in config)


async def test_the_requests_own_headers_win():
    request = UpstreamRequest("/messages", BODY, stream=True, headers=(("anthropic-version", "2026-10-21"), ("anthropic-beta", "a,b")))
    async with both("ok", traits=MESSAGES) as (upstream, made):
        await whole(await made.send("up", request))
    assert (upstream.seen[0].headers["anthropic-version"], upstream.seen[0].headers["anthropic-beta"]) == ("2026-10-21", "a,b")


def test_nothing_printed_holds_a_secret():
    config = UpstreamConfig("up", "https://host/v1?sig=pw-canary", key="key-canary", proxy="http://u:px-canary@proxy:1")
    assert "canary" not in f"{config!r} {config} {TransportError(UpstreamOutcome.CUT)!r}"
    assert config.traits.own_key and config.traits.name == "up" and not UpstreamConfig("up", "http://h").traits.own_key


@pytest.mark.parametrize(
    "url", ["", "host/v1", "ftp://host", "http://", "//host", "http://host:x", "http://host:99999", "http://host:0", "http://[::1"]
)
def test_urls_that_cannot_work_are_refused_by_name(url: str):
    with pytest.raises(msgspec.ValidationError, match="url: an http"):
        msgspec.convert({"name": "up", "url": url}, UpstreamConfig)
    with pytest.raises(ValueError, match="proxy: an http"):
        UpstreamConfig("up", "http://host", proxy=url)


@pytest.mark.parametrize("url", ["http://user:pw-canary@host/v1", "http://pw-canary@host", "http://:pw-canary@host"])
def test_a_url_with_credentials_is_refused_without_repeating_them(url: str):
    with pytest.raises(ValueError, match="key_env or key_file") as caught:
        UpstreamConfig("up", url)
    assert "canary" not in str(caught.value)
    assert UpstreamConfig("up", "http://host/v1/@me").url.endswith("@me")


async def test_a_fault_of_our_own_is_no_cut():
    async with both("ok") as (_, made):
        with pytest.raises(ValueError, match="header"):
            await made.send("up", STREAM, headers={"x-odd": "a\r\nb"})


KEY = "sk-canary/0123456789"


@pytest.mark.parametrize("size", [1, 3, 7, 19, 20, 21, 1000])
def test_a_key_is_masked_wherever_reads_are_cut(size):
    said = f"no such key: {KEY}, not {KEY[:9]}, nor sk-sk-{KEY[3:]} but sk-{KEY}{KEY}; {KEY[:-1]}".encode()
    mask = KeyMask(KEY)
    got = b"".join([mask.feed(said[at : at + size]) for at in range(0, len(said), size)] + [mask.close()])
    assert got == said.replace(KEY.encode(), b"***")


def test_a_key_is_masked_as_json_may_write_it_and_short_words_are_none():
    assert KeyMask(KEY).feed(json.dumps({"message": KEY}).replace("/", "\\/").encode()) == b'{"message": "***"}'
    assert key_mask("ours") is None
    assert key_mask(None) is None


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_an_upstream_that_quotes_its_key_does_not_tell_it_on(status):
    async def quote(request: web.BaseRequest) -> web.Response:
        return web.json_response({"error": {"message": f"bad: {request.headers['authorization']}"}}, status=status)

    runner = web.ServerRunner(web.Server(quote))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with transport(UpstreamConfig("up", f"http://127.0.0.1:{runner.addresses[0][1]}", key=KEY)) as made:
            assert await whole(await made.send("up", WHOLE)) == b'{"error": {"message": "bad: Bearer ***"}}'
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("base", "full"),
    [
        ("http://h", "http://h/v1/chat/completions"),
        ("http://h/", "http://h/v1/chat/completions"),
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/api/v3/", "http://h/api/v3/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/messages/", "http://h/v1/chat/completions"),
        ("https://h:8443/a%2Fb?api-version=1&x=y", "https://h:8443/a%2Fb/chat/completions?api-version=1&x=y"),
    ],
)
def test_endpoints_below_the_base(base: str, full: str):
    assert str(UpstreamConfig("up", base).endpoint("/chat/completions")) == full


async def test_redirects_are_not_followed():
    async with (
        ScriptedUpstream("stolen") as other,
        both({"status": 307, "headers": {"location": other.url + "/chat/completions"}}) as (_, made),
    ):
        response = await made.send("up", WHOLE, client_key="secret")
        await whole(response)
        assert (response.status, other.seen) == (307, [])


async def test_cookies_are_not_kept():
    async with both({"text": "ok", "headers": {"set-cookie": "tenant=a; Path=/"}}) as (upstream, made):
        for _ in range(2):
            await whole(await made.send("up", WHOLE))
    assert "cookie" not in upstream.seen[1].headers


async def test_the_environment_is_not_read(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with both("ok") as (upstream, made):
        assert b"ok" in await whole(await made.send("up", WHOLE)) and len(upstream.seen) == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_answers_squeezed_without_being_asked_are_read(encoding: str):
    async with both({"text": "a plain word", "content_encoding": encoding, "chunk": 1}) as (_, made):
        response = await made.send("up", STREAM)
        body = await whole(response)
    assert b"[DONE]" in body and not {"content-encoding", "content-length"} & set(response.headers)


async def test_a_connection_is_used_again_after_an_answer_that_ended():
    async with both({"text": "ok"}) as (upstream, made):
        for _ in range(2):
            await whole(await made.send("up", STREAM))
        for _ in range(2):  # the reader knows the end before the connection does
            response = await made.send("up", STREAM)
            async for data in response:
                if b"[DONE]" in data:
                    break
            response.abort()
            await asyncio.gather(*made._lingering)
    assert len({seen.client for seen in upstream.seen}) == 1


async def test_an_upstream_that_stays_open_behind_its_end_is_closed_after_a_grace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proxy.transport._GRACE_S", 0.05)
    async with both({"raw": "data: {}\n\ndata: [DONE]\n\n", "ending": "open"}) as (upstream, made):
        response = await made.send("up", STREAM)
        assert b"[DONE]" in await response.read()
        response.abort()
        assert await upstream.seen[0].left(5)


@pytest.mark.parametrize("read_first", [True, False])
async def test_abort_closes_at_once(read_first: bool):
    async with both({"text": "x" * 50, "chunk": 1, "delay_before_end_s": 600}) as (upstream, made):
        response = await made.send("up", STREAM)
        if read_first:
            await response.read()
        response.abort()
        response.abort()
        assert await upstream.seen[0].left(5) and not made._lingering


async def test_cancelling_a_request_that_waits_closes_it():
    async with both({"text": "x", "delay_before_first_s": 600}) as (upstream, made):
        task = asyncio.create_task(made.send("up", STREAM))
        while not upstream.seen:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await upstream.seen[0].left(5)


@pytest.mark.parametrize("ending", ["cut", "reset"])
async def test_a_body_that_breaks_off_is_cut(ending: str):
    async with both({"raw": "data: {}\n\n", "ending": ending}) as (_, made):
        response = await made.send("up", STREAM)
        with pytest.raises(TransportError) as caught:
            await whole(response)
        assert caught.value.outcome is UpstreamOutcome.CUT


async def test_no_connection(unused_tcp_port: int):
    configs = [
        UpstreamConfig("closed", f"http://127.0.0.1:{unused_tcp_port}"),
        UpstreamConfig("nameless", "http://no-such-host.invalid"),
        UpstreamConfig("proxied", "http://127.0.0.1:9", proxy=f"http://127.0.0.1:{unused_tcp_port}"),
        UpstreamConfig("not-tls", f"https://127.0.0.1:{unused_tcp_port}"),
    ]
    async with transport(*configs) as made:
        for config in configs:
            with pytest.raises(TransportError) as caught:
                await made.send(config.name, WHOLE)
            assert caught.value.outcome is UpstreamOutcome.CONNECT


async def test_an_upstream_that_speaks_no_http_is_cut():
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, transport(UpstreamConfig("up", f"http://127.0.0.1:{port}")) as made:
        with pytest.raises(TransportError) as caught:
            await made.send("up", WHOLE)
        assert caught.value.outcome is UpstreamOutcome.CUT


async def test_after_a_cut_the_next_connection_is_fresh():
    async with both([Script("one"), Script("two", ending="cut"), Script("three")]) as (_, made):
        await whole(await made.send("up", WHOLE))
        with pytest.raises(TransportError):
            await whole(await made.send("up", WHOLE))
        assert b"three" in await whole(await made.send("up", WHOLE))


async def test_a_kept_connection_that_went_stale_is_cut_not_sent_twice():
    asked = 0

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(WHOLE.body))
            asked += 1
            if _ == 0:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, transport(UpstreamConfig("up", f"http://127.0.0.1:{port}")) as made:
        assert await whole(await made.send("up", WHOLE)) == b"{}"
        with pytest.raises(TransportError) as caught:
            await made.send("up", WHOLE)
        assert (caught.value.outcome, asked) == (UpstreamOutcome.CUT, 2)


async def test_no_connection_limit_of_its_own():
    async with both({"text": "ok", "ending": "open"}) as (_, made):
        responses = await asyncio.gather(*(made.send("up", STREAM) for _ in range(130)))
        assert len(responses) == 130
        for response in responses:
            response.abort()


async def test_big_bodies_go_without_a_warning():
    body = b'{"messages":[],"pad":"' + b"x" * (3 << 20) + b'"}'
    async with both("ok") as (upstream, made):
        await whole(await made.send("up", UpstreamRequest("/chat/completions", body, stream=False)))
    assert upstream.seen[0].body == body and upstream.seen[0].headers["content-length"] == str(len(body))


async def test_egress_goes_through_the_proxy_with_its_credentials():
    asked: list[tuple[str, str]] = []

    async def forward(request: web.BaseRequest) -> web.Response:
        asked.append((str(request.url), request.headers.get("proxy-authorization", "")))
        return web.json_response({})

    server = web.Server(forward)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with transport(UpstreamConfig("up", "http://upstream.invalid/v1", proxy=f"http://me:pw@127.0.0.1:{port}")) as made:
            await whole(await made.send("up", WHOLE))
    finally:
        await runner.cleanup()
    assert asked == [("http://upstream.invalid/v1/chat/completions", "Basic bWU6cHc=")]


async def test_a_ca_bundle_is_trusted_for_its_upstream_alone(tmp_path: Path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    asked = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *asked], check=True, capture_output=True
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with transport(UpstreamConfig("trusted", url, ca_file=str(certificate)), UpstreamConfig("unknown", url)) as made:
            assert await whole(await made.send("trusted", WHOLE)) == b"{}"
            with pytest.raises(TransportError) as caught:
                await made.send("unknown", WHOLE)
            assert caught.value.outcome is UpstreamOutcome.CONNECT
    finally:
        await runner.cleanup()


def test_a_ca_bundle_that_cannot_be_read_is_said_at_once(tmp_path):
    with pytest.raises(OSError):
        Transport([UpstreamConfig("up", "https://h", ca_file=str(tmp_path / "none.pem"))])
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        Transport([UpstreamConfig("up", "https://h", ca_file=str(tmp_path / "bad.pem"))])


async def test_models():
    async with ScriptedUpstream("ok", models=("a", "b")) as upstream:
        configs = [
            UpstreamConfig("up", upstream.url),
            UpstreamConfig("down", "http://127.0.0.1:1"),
            UpstreamConfig("odd", upstream.url + "/x"),
        ]
        async with transport(*configs) as made:
            assert await made.models("up") == ["a", "b"] and await made.models("down") == []


async def test_models_of_an_upstream_that_answers_something_else():
    answers = [
        web.Response(status=500),
        web.Response(text="{"),
        web.json_response([1]),
        web.json_response({"data": [1, {"id": 2}, {"id": "x"}]}),
    ]

    async def answer(_: web.BaseRequest) -> web.Response:
        return answers.pop(0)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with transport(UpstreamConfig("up", f"http://127.0.0.1:{runner.addresses[0][1]}")) as made:
            assert [await made.models("up") for _ in range(4)] == [[], [], [], ["x"]]
    finally:
        await runner.cleanup()

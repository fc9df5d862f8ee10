"""Paths, methods, keys, limits: the frame around every request, in the dialect of its path."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from pipeline.stages.normalize import Normalize
from proxy.config.tree import Limits
from tests.support.body_bench import HandAnswer, HandTransport, service
from tests.support.engine_fakes import FakeEncoding, FakeJudge, FakeNormalize, FakeUpstream
from tests.support.raw_http import converse


def answers(count=1):
    made = [HandAnswer() for _ in range(count)]
    for answer in made:
        answer.give(b"t hi\n", b"f\n", None)
    return HandTransport(made)


class RealNormalize(Normalize):
    """The real first stage, for tests about what it refuses."""

    def __init__(self):
        from pipeline.settings import Settings

        super().__init__(Settings())


def real_stages():
    return [RealNormalize(), FakeUpstream(), FakeJudge(), FakeEncoding()]


async def ask(running, method, path, **options):
    async with aiohttp.ClientSession() as session, session.request(method, running.url + path, **options) as answer:
        return answer.status, answer.headers, await answer.read()


@pytest.mark.parametrize(
    "path",
    ["/v1/chat/completions", "/chat/completions", "/v1/messages", "/v1/messages?beta=true", "/messages", "/v1/responses", "/v1/responses/"],
)
async def test_turns_are_served_with_and_without_version(path):
    async with service(answers()) as running:
        status, _, body = await ask(running, "POST", path, json={"model": "m"})
        assert (status, body) == (200, b"hi\n[finish]\n")


OPENAI_KEYS = {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "status", "anthropic"),
    [
        ("POST", "/v1/nothing", 404, False),
        ("GET", "/metrics", 404, False),
        ("GET", "/healthz", 404, False),
        ("GET", "/v1/chat/completions", 405, False),
        ("DELETE", "/v1/messages", 405, True),
        ("POST", "/v1/messages/batches", 404, True),
        ("GET", "/v1/responses/resp_1", 404, False),
        ("GET", "/v1/messages/count_tokens", 405, True),
        ("POST", "/v1/models", 405, False),
        ("PUT", "/", 405, False),
        ("GET", "/v1/modelsx", 404, False),
        ("GET", "/v1/complete", 404, True),
        ("POST", "/v1/complete", 404, True),
        ("POST", "/v1/completions", 404, False),
        ("GET", "/v1/files", 404, False),
        ("DELETE", "/v1/responses/resp_1", 404, False),
        ("POST", "/v1/responses/resp_1/cancel", 404, False),
        ("GET", "/v1/responses/resp_1/input_items", 404, False),
        ("POST", "/v1/responses/compact", 404, False),
        ("GET", "/v1/responses", 405, False),
        ("POST", "/v1/alpha/search", 404, False),
        ("OPTIONS", "/v1/chat/completions", 405, False),
    ],
)
async def test_every_other_path_and_method_is_refused_in_the_dialect_of_the_path(method, path, status, anthropic):
    async with service(answers()) as running:
        got, headers, body = await ask(running, method, path)
        assert got == status
        assert headers["x-request-id"] == headers["request-id"]
        assert headers["content-type"] == "application/json"
        assert ("allow" in headers) == (status == 405)
        parsed = json.loads(body)
        if anthropic:
            assert (parsed["type"], parsed["request_id"]) == ("error", headers["request-id"])
        else:
            assert set(parsed["error"]) == OPENAI_KEYS


@pytest.mark.parametrize(
    ("path", "anthropic"),
    [
        ("/v1/files", True),
        ("/v1/models/no/messages", True),
        ("/v1/nothing", True),
        ("/v1/chat/nothing", False),
        ("/v1/responses/resp_1", False),
        ("/v1/messages/batches", True),
    ],
)
async def test_a_path_that_both_vendors_have_or_none_follows_the_version_header(path, anthropic):
    async with service(answers(), models=["only"]) as running:
        status, headers, body = await ask(running, "GET", path, headers={"anthropic-version": "2023-06-01"})
        parsed = json.loads(body)
        assert (status, parsed.get("type")) == (404, "error" if anthropic else None)
        assert parsed.get("request_id") == (headers["request-id"] if anthropic else None)


async def test_an_answer_says_how_long_it_took_to_begin_where_the_api_does():
    async with service(answers(3)) as running:
        for path, told in (("/v1/chat/completions", True), ("/v1/responses", True), ("/v1/messages", False)):
            _, headers, _ = await ask(running, "POST", path, json={"model": "m"})
            assert headers.get("openai-processing-ms", "").isdigit() is told


async def test_the_root_answers():
    async with service(answers()) as running:
        status, headers, body = await ask(running, "HEAD", "/")
        assert (status, body) == (200, b"")
        assert headers["x-request-id"]
        assert (await ask(running, "GET", "/"))[2].startswith(b'{"service":"toolgraft"')


async def test_below_a_base_path_and_nowhere_else():
    async with service(answers(2), base_path="/llm") as running:
        assert (await ask(running, "POST", "/llm/v1/chat/completions", json={"model": "m"}))[0] == 200
        assert (await ask(running, "HEAD", "/llm"))[0] == 200
        for path in ("/v1/chat/completions", "/llmx/v1/chat/completions", "/"):
            assert (await ask(running, "POST", path, json={"model": "m"}))[0] == 404


async def test_a_request_id_is_echoed_and_goes_into_every_line():
    async with service(answers()) as running:
        _, headers, _ = await ask(running, "POST", "/v1/messages", json={"model": "m"}, headers={"x-request-id": "abc-1"})
        assert headers["x-request-id"] == headers["request-id"] == "abc-1"
        await running.settled()
        assert {line["rid"] for line in running.lines.all} == {"abc-1"}


async def test_a_trace_goes_upstream_with_a_parent_of_its_own_and_the_request_id():
    transport = answers()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with service(transport) as running:
        await ask(running, "POST", "/v1/messages", json={"model": "m"}, headers={"traceparent": parent, "x-request-id": "abc-1"})
        assert (await running.turn())["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    sent = transport.sent[0][3]
    assert set(sent) == {"traceparent", "x-request-id"}
    assert sent["x-request-id"] == "abc-1"
    assert sent["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert "b7ad6b7169203331" not in sent["traceparent"]


# --- keys ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/messages/count_tokens"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/m"),
    ],
)
async def test_without_a_key_of_ours_everything_is_a_401(method, path):
    async with service(answers(), keys=["k1"]) as running:
        for headers in ({}, {"authorization": "Bearer nope"}, {"x-api-key": ""}):
            status, _, body = await ask(running, method, path, headers=headers)
            assert status == 401, body
        assert running.value("auth_failures_total") == 3
        assert (await ask(running, "HEAD", "/"))[0] == 200


@pytest.mark.parametrize("headers", [{"authorization": "Bearer k1"}, {"x-api-key": "k1"}, {"api-key": "k1"}])
async def test_a_key_of_ours_opens_in_every_form(headers):
    async with service(answers(), keys=["k1"]) as running:
        assert (await ask(running, "POST", "/v1/messages", json={"model": "m"}, headers=headers))[0] == 200


async def test_a_refused_turn_has_its_line_and_its_verdict():
    async with service(answers(), keys=["k1"]) as running:
        await ask(running, "POST", "/v1/messages", json={"model": "m"}, headers={"x-api-key": "canary"})
        turn = await running.turn()
        assert (turn["verdict"], turn["status"], turn["error_kind"]) == ("rejected", 401, "authentication")
        assert "key" not in turn
        assert running.value("turns_started_total", api="anthropic_messages") == 1
        assert running.value("turns_total", model="other", verdict="rejected") == 1


# --- what is no request -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b'{"model": NaN}', b'{"model":"m","messages":' + b"[" * 300 + b"]" * 300 + b"}"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_what_is_no_json_object_is_a_400(path, body):
    async with service(answers(), stages=real_stages()) as running:
        status, _, answer = await ask(running, "POST", path, data=body)
        assert status == 400, answer
        assert json.loads(answer)["error"]["message"]
        assert (await running.turn())["verdict"] == "rejected"


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ({"model": "m", "messages": [{"role": "user", "content": "x"}] * 4}, Limits(max_messages=3)),
        ({"model": "m", "messages": [], "tools": [{}] * 4}, Limits(max_tools=3)),
        ({"model": "m", "messages": [[[[[[]]]]]]}, Limits(max_depth=5)),
    ],
)
async def test_limits_of_the_door(body, limits):
    async with service(answers(), limits=limits) as running:
        status, _, answer = await ask(running, "POST", "/v1/chat/completions", json=body)
        assert status == 400, answer


async def test_a_body_that_is_too_large_is_a_413_in_the_dialect():
    async with service(answers(), limits=Limits(max_body_bytes=100)) as running:
        status, _, answer = await ask(running, "POST", "/v1/messages", data=b'{"model": "' + b"x" * 100 + b'"}')
        assert (status, json.loads(answer)["error"]["type"]) == (413, "request_too_large")


async def test_a_model_that_no_route_takes_is_a_404_that_names_the_field():
    async with service(answers(), models=["qwen*", "exact"]) as running:
        status, _, answer = await ask(running, "POST", "/v1/chat/completions", json={"model": "gpt-x"})
        error = json.loads(answer)["error"]
        assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
        assert (await ask(running, "POST", "/v1/chat/completions", json={"model": "qwen3:8b"}))[0] == 200
        await running.settled()
        assert [turn["model"] for turn in running.lines.turns()] == ["other", "qwen*"]


async def test_too_many_at_once_wait_and_then_are_told_when_to_come_back():
    transport = HandTransport([])
    async with service(transport, limits=Limits(max_concurrency=1, max_queue=0, retry_after_s=7)) as running:
        first = asyncio.create_task(ask(running, "POST", "/v1/messages", json={"model": "m"}))
        await asyncio.wait_for(transport.waiting.wait(), 5)
        status, headers, body = await ask(running, "POST", "/v1/messages", json={"model": "m"})
        assert (status, headers["retry-after"], json.loads(body)["error"]["type"]) == (429, "7", "rate_limit_error")
        assert running.value("admission_rejects_total", why="queue_full") == 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_a_big_body_waits_for_a_place_before_it_is_read(path):
    transport = HandTransport([])
    async with service(transport, limits=Limits(max_concurrency=1, max_queue=0)) as running:
        first = asyncio.create_task(ask(running, "POST", "/v1/messages", json={"model": "m"}))
        await asyncio.wait_for(transport.waiting.wait(), 5)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {16 << 20}\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 429")
        writer.close()
        first.cancel()
        await asyncio.gather(first, writer.wait_closed(), return_exceptions=True)
        await running.settled()
        assert running.shared.admission.running == 0


# --- the small answers --------------------------------------------------------------------------------------------------------


async def test_models_of_their_own_name_and_those_that_a_pattern_lets_through():
    transport = HandTransport([])
    transport.listed = {"one": ["qwen3", "llama", "qwen2"], "two": ["qwen9"]}
    async with service(transport, models=["exact", "qwen*"], targets=("one", "two")) as running:
        _, _, body = await ask(running, "GET", "/v1/models")
        assert [model["id"] for model in json.loads(body)["data"]] == ["exact", "qwen3", "qwen2", "qwen9"]
        _, _, body = await ask(running, "GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})
        assert json.loads(body)["first_id"] == "exact"
        assert (await ask(running, "GET", "/v1/models/qwen7"))[0] == 200
        assert json.loads((await ask(running, "GET", "/models/org/name"))[2])["error"]["code"] == "model_not_found"


async def test_a_count_needs_no_route():
    async with service(HandTransport([]), models=["other"], stages=real_stages()) as running:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        status, _, answer = await ask(running, "POST", "/v1/messages/count_tokens", json=body)
        assert (status, json.loads(answer)["input_tokens"] > 0) == (200, True)
        assert (await ask(running, "POST", "/v1/messages", json={**body, "max_tokens": 5}))[0] == 404


async def test_models_behind_a_rewritten_name_are_listed_as_they_are_asked_for():
    transport = HandTransport([])
    transport.listed = {"one": ["qwen3", "org/llama"]}
    async with service(transport, models=[("local/*", "*"), ("org-*", "org/*"), ("fixed-*", "qwen3"), "*"]) as running:
        _, _, body = await ask(running, "GET", "/v1/models")
        assert [model["id"] for model in json.loads(body)["data"]] == ["local/qwen3", "local/org/llama", "org-llama", "qwen3", "org/llama"]


async def test_tokens_are_counted_without_an_upstream():
    transport = HandTransport([])
    async with service(transport, stages=real_stages()) as running:
        body = {"model": "m", "system": "be brief", "messages": [{"role": "user", "content": "what is the tide at Vigo?"}]}
        status, _, answer = await ask(running, "POST", "/v1/messages/count_tokens?beta=true", json=body)
        few = json.loads(answer)["input_tokens"]
        assert status == 200
        body["tools"] = [{"name": "lookup_tide", "description": "tides " * 50, "input_schema": {"type": "object"}}]
        _, _, answer = await ask(running, "POST", "/v1/messages/count_tokens", json=body)
        assert json.loads(answer)["input_tokens"] > few > 5
        status, _, answer = await ask(running, "POST", "/v1/responses/input_tokens", json={"model": "m", "input": "what is the tide?"})
        assert (status, json.loads(answer)["object"]) == (200, "response.input_tokens")
        assert (await ask(running, "POST", "/v1/messages/count_tokens", json={"model": "m"}))[0] == 400
        assert running.lines.turns() == []
        assert running.value("requests_total", api="anthropic_messages", code="200") == 2
    assert transport.sent == []


# --- the wire -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"BREW /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"canary" * 3000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 400 + b"\r\n",
    ],
)
async def test_what_is_no_http_gets_json_and_leaves_no_trace_of_its_words(data):
    async with service(answers()) as running:
        raw = await converse(running.port, data)
        head, _, body = raw.partition(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0]
        assert set(json.loads(body)["error"]) == OPENAI_KEYS
        assert b"canary" not in raw
        assert "canary" not in str(running.lines.all)


async def test_two_requests_in_one_packet_are_answered_in_order():
    async with service(answers(2)) as running:
        one = b'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{"model":"m"}'
        raw = await converse(running.port, one + one.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        assert raw.count(b"[finish]") == 2


async def test_a_fault_of_ours_is_a_500_in_json_and_a_line_without_words(monkeypatch):
    async with service(answers()) as running:

        def broken(*_):
            raise RuntimeError("canary")

        monkeypatch.setattr(running.shared.intake, "turn", broken)
        status, _, body = await ask(running, "POST", "/v1/messages", json={"model": "m"})
        assert (status, json.loads(body)["error"]["type"]) == (500, "api_error")
        turn = await running.turn()
        assert (turn["level"], turn["verdict"], turn["error_kind"]) == ("error", "rejected", "internal")
        assert "canary" not in str(running.lines.all)
        assert [line["place"] for line in running.lines.all if line["event"] == "unexpected"] == ["turn"]
        assert len({(line["rid"], line["trace_id"]) for line in running.lines.all}) == 1


async def test_a_stage_that_breaks_while_it_reads_says_what_and_where():
    class Broken(FakeNormalize):
        name = "broken"

        def prepare(self, turn, note):
            return turn

        def open(self, turn, note):
            return self

        def feed(self, event):
            raise KeyError("canary")

        def close(self, end):
            return [end]

    async with service(answers(), extra=[Broken(stream=True)]) as running:
        assert (await ask(running, "POST", "/v1/messages", json={"model": "m"}))[2] == b"hi\n[finish]\n"
        turn = await running.turn()
        (fault,) = [line for line in running.lines.all if line["event"] == "stage_failed"]
        assert (fault["stage"], fault["mode"], fault["error"]) == ("broken", "open", "KeyError")
        assert fault["where"][-1].startswith("test_app.py:")
        assert (fault["rid"], fault["trace_id"]) == (turn["rid"], turn["trace_id"])
        assert "canary" not in str(running.lines.all)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages/count_tokens"])
async def test_a_fault_outside_of_turns_carries_the_ids_of_its_request(monkeypatch, path):
    async with service(answers()) as running:

        def broken(*_, **__):
            raise RuntimeError("canary")

        monkeypatch.setattr(running.shared.intake, "key", broken)
        headers = {"x-request-id": "abc-1", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        assert (await ask(running, "POST" if "count" in path else "GET", path, headers=headers))[0] == 500
        (line,) = running.lines.all
        assert (line["event"], line["rid"], line["trace_id"]) == ("unexpected", "abc-1", "0af7651916cd43dd8448eb211c80319c")


async def test_a_count_goes_on_without_a_stage_that_breaks_and_says_so():
    class Broken(FakeNormalize):
        name = "broken"

        def prepare(self, turn, note):
            raise ValueError("canary")

    async with service(answers(), extra=[Broken(stream=True)]) as running:
        status, headers, _ = await ask(running, "POST", "/v1/messages/count_tokens", json={"model": "m", "messages": []})
        assert status == 200
        (line,) = running.lines.all
        assert (line["event"], line["place"], line["error"], line["rid"]) == ("unexpected", "broken", "ValueError", headers["x-request-id"])


async def test_a_stage_that_breaks_is_timed_logged_and_left_out():
    class Broken(FakeNormalize):
        name = "broken"

        def prepare(self, turn, note):
            raise ValueError("canary")

    async with service(answers(), extra=[Broken(stream=True)]) as running:
        status, _, body = await ask(running, "POST", "/v1/messages", json={"model": "m"})
        assert (status, body) == (200, b"hi\n[finish]\n")
        await running.settled()
        faults = [line for line in running.lines.all if line["event"] == "stage_failed"]
        assert [(line["stage"], line["error"]) for line in faults] == [("broken", "ValueError")]
        assert faults[0]["where"][-1].startswith("test_app.py:")
        assert running.value("stage_errors_total", stage="other", mode="open") == 1
        assert running.value("stage_seconds_count", stage="normalize") == 1
        assert "canary" not in str(running.lines.all)

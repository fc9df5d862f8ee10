"""The official SDKs put our streams together, and read our bodies under their strict types, over real HTTP on the loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import anthropic
import openai
import pytest
from aiohttp import web

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.protocols.errors import error_response
from pipeline.protocols.models import models_body, token_count_body
from pipeline.settings import Settings
from pipeline.stages.re_encode import ReEncode
from pipeline.turn import Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, ErrorKind, FinishReason

USAGE = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, cache_write_tokens=3, reasoning_tokens=5)
ARGUMENTS = '{"port":"Vigo \u2028 😀","n":12345678901234567890}'
TOOLS = (Tool("look"), Tool("patch", kind=ToolKind.CUSTOM), Tool("ns.find", namespace="ns"))
ANSWERS: dict[str, tuple[Sequence[Event], Finish | Failed]] = {
    "text": ([TextDelta("Hel"), TextDelta("lo \u2028 ü")], Finish(usage=USAGE)),
    "call": ([TextDelta("I look."), CallDone(0, "look", ARGUMENTS)], Finish(usage=USAGE)),
    "calls only": ([CallDone(0, "look", "{}"), CallDone(1, "look", ARGUMENTS)], Finish(usage=USAGE)),
    "begun": (
        [CallBegun(0, "look"), ArgumentsDelta(0, ARGUMENTS[:9]), ArgumentsDelta(0, ARGUMENTS[9:]), CallDone(0, "look", ARGUMENTS)],
        Finish(usage=USAGE),
    ),
    "trailing": (
        [TextDelta("a"), CallDone(0, "look", "{}"), TextDelta("b"), CallDone(1, "look", "{}"), TextDelta("c")],
        Finish(usage=USAGE),
    ),
    "reasoning": ([ReasoningDelta("hm "), ReasoningDelta("so"), TextDelta("x")], Finish(usage=USAGE)),
    "custom": ([CallDone(0, "patch", json.dumps({"input": "raw\ntext"})), CallDone(1, "ns.find", "{}")], Finish(usage=USAGE)),
    "empty": ([], Finish()),
    "length": ([TextDelta("cut of")], Finish(FinishReason.LENGTH, USAGE)),
    "stop": ([TextDelta("before ENDafter")], Finish(usage=USAGE)),
    "broken": ([TextDelta("half an ans")], Failed(ErrorKind.UPSTREAM_CUT, "the upstream's answer was cut")),
    "limited": ([], Failed(ErrorKind.RATE_LIMIT, "slow down")),
}


async def answer(request: web.Request) -> web.StreamResponse:
    """The answer named by the model, written as the engine would: one write a group, keep-alives between."""
    api = {"chat": Api.OPENAI_CHAT, "messages": Api.ANTHROPIC_MESSAGES, "responses": Api.OPENAI_RESPONSES}[request.path.split("/")[2]]
    body = await request.json()
    events, end = ANSWERS[body["model"]]
    turn = Turn(
        api=api,
        model=body["model"],
        tools=TOOLS,
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        reasoning_wanted=True,
        stop=("END",) if api is Api.ANTHROPIC_MESSAGES else (),
        echo={"created": 1700000000},
    )
    encoder = ReEncode(Settings()).encode(turn, lambda *_, **__: None)
    if isinstance(end, Failed) and not (turn.stream and events):
        status, headers, data = error_response(api, end, "req_1")
        return web.Response(status=status, headers=[*headers, ("x-request-id", "req_1"), ("request-id", "req_1")], body=data)
    if not turn.stream:
        assert isinstance(end, Finish)
        return web.Response(body=encoder.feed(events) + encoder.finish(end), content_type=encoder.content_type)
    response = web.StreamResponse(headers={"Content-Type": encoder.content_type})
    await response.prepare(request)
    silence = 60.0 if request.headers.get("x-silent") else 12.0
    await response.write(encoder.keep_alive(silence))
    for event in events:
        data = encoder.feed([event]) + encoder.keep_alive(12.0)
        if data:
            await response.write(data)
    await response.write(encoder.finish(end) if isinstance(end, Finish) else encoder.fail(end))
    if isinstance(end, Failed):
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.close()
    return response


async def models(request: web.Request) -> web.Response:
    api = Api.ANTHROPIC_MESSAGES if "anthropic-version" in request.headers else Api.OPENAI_CHAT
    return web.Response(body=models_body(api, ["m1", "m2"], 1700000000), content_type="application/json")


async def count(request: web.Request) -> web.Response:
    api = Api.ANTHROPIC_MESSAGES if request.match_info["api"] == "messages" else Api.OPENAI_RESPONSES
    return web.Response(body=token_count_body(api, 12), content_type="application/json")


@pytest.fixture
async def base(aiohttp_server):
    app = web.Application()
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
        app.router.add_post(path, answer)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/{api}/{count}", count)
    server = await aiohttp_server(app)
    return str(server.make_url("")).rstrip("/")


@pytest.fixture
async def chat(base):
    async with openai.AsyncOpenAI(
        base_url=base + "/v1",
        api_key="k",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False, verify=False),
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
async def messages(base):
    async with anthropic.AsyncAnthropic(
        base_url=base,
        api_key="k",
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False, verify=False),
        _strict_response_validation=True,
    ) as client:
        yield client


# openai 1.68 reads all of this too, but for what its types do not know yet.
OLD = int(openai.__version__.split(".")[0]) < 2
UNKNOWN = {"custom", "reasoning"} if OLD else set()
ASK = [{"role": "user", "content": "x"}]
ANSWERED = [name for name, (_, end) in ANSWERS.items() if isinstance(end, Finish)]
# What a finished answer must come to: visible text, (name, arguments) of the calls.
EXPECTED = {
    "text": ("Hello \u2028 ü", []),
    "call": ("I look.", [("look", ARGUMENTS)]),
    "calls only": ("", [("look", "{}"), ("look", ARGUMENTS)]),
    "begun": ("", [("look", ARGUMENTS)]),
    "trailing": ("abc", [("look", "{}"), ("look", "{}")]),
    "reasoning": ("x", []),
    "custom": ("", [("patch", "raw\ntext"), ("ns.find", "{}")]),
    "empty": ("", []),
    "length": ("cut of", []),
    "stop": ("before ENDafter", []),
}


def chat_stream(client):
    return client.beta.chat.completions.stream if OLD else client.chat.completions.stream


def chat_calls(message) -> list[tuple[str, str]]:
    found = []
    for call in message.tool_calls or ():
        one = call.custom if call.type == "custom" else call.function
        found.append((one.name, one.input if call.type == "custom" else one.arguments))
    return found


@pytest.mark.parametrize("name", [name for name in ANSWERED if name not in UNKNOWN])
async def test_chat_bodies(chat, name):
    completion = await chat.chat.completions.create(model=name, messages=ASK)
    message = completion.choices[0].message
    assert ((message.content or ""), chat_calls(message)) == EXPECTED[name]
    assert completion.choices[0].finish_reason == ("tool_calls" if EXPECTED[name][1] else "length" if name == "length" else "stop")
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


# The SDK's chunk type knows no custom calls (CR03).
@pytest.mark.parametrize("name", [name for name in ANSWERED if name not in ("custom", "length")])
@pytest.mark.parametrize("usage", [False, True])
async def test_chat_streams(chat, name, usage):
    options = {"stream_options": {"include_usage": True}} if usage else {}
    async with chat_stream(chat)(model=name, messages=ASK, **options) as stream:
        completion = await stream.get_final_completion()
    message = completion.choices[0].message
    assert message.role == "assistant"
    assert ((message.content or ""), chat_calls(message)) == EXPECTED[name]
    assert completion.choices[0].finish_reason == ("tool_calls" if EXPECTED[name][1] else "stop")
    assert (completion.usage is not None) is usage
    if usage and name != "empty":
        assert (completion.usage.prompt_tokens, completion.usage.prompt_tokens_details.cached_tokens) == (100, 60)


async def test_chat_length_is_told_by_the_helper(chat):
    with pytest.raises(openai.LengthFinishReasonError):
        async with chat_stream(chat)(model="length", messages=ASK) as stream:
            await stream.get_final_completion()


@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("silent", [False, True])
async def test_messages(messages, name, stream, silent):
    if stream:
        async with messages.messages.stream(
            model=name, max_tokens=9, messages=ASK, extra_headers={"x-silent": "1"} if silent else {}
        ) as events:
            message = await events.get_final_message()
    else:
        message = await messages.messages.create(model=name, max_tokens=9, messages=ASK)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    wanted_text, wanted_calls = EXPECTED[name]
    if name == "stop":
        wanted_text = "before "
        assert message.stop_sequence == "END"
    if name == "custom":
        wanted_calls = [("patch", '{"input":"raw\\ntext"}'), ("ns.find", "{}")]
    assert (text, calls) == (wanted_text, [(call, json.loads(arguments)) for call, arguments in wanted_calls])
    reason = {"stop": "stop_sequence", "length": "max_tokens"}.get(name, "end_turn")
    assert message.stop_reason == ("tool_use" if wanted_calls else reason)
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    assert [block.thinking for block in message.content if block.type == "thinking"] == (["hm so"] if name == "reasoning" else [])
    if not silent:
        assert all(block.text for block in message.content if block.type == "text")


def response_parts(response) -> tuple[str, list[tuple[str, str]]]:
    calls = []
    for item in response.output:
        if item.type == "function_call":
            namespace = getattr(item, "namespace", None)
            calls.append((f"{namespace}.{item.name}" if namespace else item.name, item.arguments))
        elif item.type == "custom_tool_call":
            calls.append((item.name, item.input))
    return response.output_text, calls


@pytest.mark.parametrize("name", [name for name in ANSWERED if name not in UNKNOWN])
async def test_responses_bodies(chat, name):
    response = await chat.responses.create(model=name, input="x")
    assert response_parts(response) == EXPECTED[name]
    assert response.status == ("incomplete" if name == "length" else "completed")
    assert response.usage.total_tokens > 0
    assert [item.summary[0].text for item in response.output if item.type == "reasoning"] == (["hm so"] if name == "reasoning" else [])


@pytest.mark.parametrize("name", [name for name in ANSWERED if name != "length" and name not in UNKNOWN])
async def test_responses_streams(chat, name):
    async with chat.responses.stream(model=name, input="x") as stream:
        said = ""
        arguments = ""
        async for event in stream:
            said += event.delta if event.type == "response.output_text.delta" else ""
            arguments += event.delta if event.type.endswith(("arguments.delta", "input.delta")) else ""
        response = await stream.get_final_response()
    assert response_parts(response) == EXPECTED[name]
    assert (said, arguments) == (EXPECTED[name][0], "".join(text for _, text in EXPECTED[name][1]))


async def test_an_incomplete_response_is_told_as_one(chat):
    stream = await chat.responses.create(model="length", input="x", stream=True)
    last = [event async for event in stream][-1]
    assert last.type == "response.incomplete" and last.response.incomplete_details.reason == "max_output_tokens"
    assert last.response.output[-1].status == "incomplete"


async def test_a_failure_in_the_stream_raises_in_every_sdk(chat, messages):
    with pytest.raises(openai.APIError, match="answer was cut"):
        async for _ in await chat.chat.completions.create(model="broken", messages=ASK, stream=True):
            pass
    with pytest.raises(openai.APIError, match="answer was cut"):
        async for _ in await chat.responses.create(model="broken", input="x", stream=True):
            pass
    with pytest.raises(anthropic.APIError, match="answer was cut"):
        async with messages.messages.stream(model="broken", max_tokens=9, messages=ASK) as stream:
            await stream.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_stream_is_a_status(chat, messages, stream):
    for raised, ask in (
        (openai.RateLimitError, lambda: chat.chat.completions.create(model="limited", messages=ASK, stream=stream)),
        (openai.RateLimitError, lambda: chat.responses.create(model="limited", input="x", stream=stream)),
        (anthropic.RateLimitError, lambda: messages.messages.create(model="limited", max_tokens=9, messages=ASK, stream=stream)),
    ):
        with pytest.raises(raised, match="slow down") as limited:
            await ask()
        assert limited.value.request_id == "req_1"
        assert limited.value.response.headers["retry-after"]


async def test_small_answers(chat, messages):
    assert [model.id async for model in chat.models.list()] == ["m1", "m2"]
    assert [(model.id, model.type) async for model in messages.models.list()] == [("m1", "model"), ("m2", "model")]
    assert (await messages.messages.count_tokens(model="m1", messages=ASK)).input_tokens == 12
    assert OLD or (await chat.responses.input_tokens.count(model="m1", input="x")).input_tokens == 12

"""What the official SDKs must find at a running Toolgraft: one check a function. It needs no more than the two SDKs, of any version.

    python -m tests.conformance.check_sdks http://127.0.0.1:8790 [MODEL]      prints a line a check; exit status 1 when one failed

The upstream behind it must be a text-only script that calls the first tool when tools are offered and the last message is the user's.
Strict checks let the SDK validate each response against its own types. `openai` from 1.68 and `anthropic` from 0.49 will do.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anthropic
import openai

from tests.conformance import grammar

PARAMETERS = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
NAME = "lookup_stock"
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": NAME, "description": "d", "parameters": PARAMETERS}}]
MESSAGES_TOOLS: list[Any] = [{"name": NAME, "description": "d", "input_schema": PARAMETERS}]
RESPONSES_TOOLS: list[Any] = [{"type": "function", "name": NAME, "description": "d", "parameters": PARAMETERS, "strict": False}]
USER: list[Any] = [{"role": "user", "content": "how many A-7 are left?"}]
VERSION = {"anthropic-version": "2023-06-01"}


class Raw(NamedTuple):
    """An answer as it came; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Bench:
    """The SDKs' clients on one server; `strict` ones validate what they get."""

    def __init__(self, url: str, model: str = "demo-model") -> None:
        self.url = url.rstrip("/")
        self.model = model
        keys: dict[str, Any] = {"api_key": "k", "max_retries": 0}
        self.openai = openai.OpenAI(base_url=f"{self.url}/v1", **keys)
        self.strict_openai = openai.OpenAI(base_url=f"{self.url}/v1", _strict_response_validation=True, **keys)
        self.anthropic = anthropic.Anthropic(base_url=self.url, **keys)
        self.strict_anthropic = anthropic.Anthropic(base_url=self.url, _strict_response_validation=True, **keys)

    def close(self) -> None:
        for client in (self.openai, self.strict_openai, self.anthropic, self.strict_anthropic):
            client.close()

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Raw:
        """Post JSON, or bytes as they are."""
        at = urlsplit(self.url)
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=30)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, data, {"authorization": "Bearer k", "content-type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return Raw(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()


def chat_text(bench: Bench) -> None:
    made = bench.strict_openai.chat.completions.create(model=bench.model, messages=USER)
    assert made.choices[0].finish_reason == "stop"
    assert made.usage
    assert made.id.startswith("chatcmpl-")


def chat_tools(bench: Bench) -> None:
    made = bench.strict_openai.chat.completions.create(model=bench.model, messages=USER, tools=CHAT_TOOLS)
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    assert choice.message.tool_calls[0].function.name == NAME
    assert isinstance(json.loads(choice.message.tool_calls[0].function.arguments), dict)


def chat_text_stream(bench: Bench) -> None:
    chunks = list(bench.strict_openai.chat.completions.create(model=bench.model, messages=USER, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert all(chunk.usage is None for chunk in chunks)


def chat_tools_stream(bench: Bench) -> None:
    completions: Any = bench.openai.chat.completions
    completions = completions if hasattr(completions, "stream") else bench.openai.beta.chat.completions
    with completions.stream(model=bench.model, messages=USER, tools=CHAT_TOOLS) as stream:
        made = stream.get_final_completion()
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.role == "assistant"
    assert choice.message.tool_calls[0].type == "function"


def _chat_grammar(bench: Bench, *, include_usage: bool) -> None:
    body = {"model": bench.model, "messages": USER, "tools": CHAT_TOOLS, "stream": True}
    if include_usage:
        body["stream_options"] = {"include_usage": True}
    got = bench.post("/v1/chat/completions", body)
    assert got.status == 200
    assert got.headers["content-type"].startswith("text/event-stream")
    assert not (bad := grammar.check_chat(got.body, include_usage=include_usage, tools=[NAME])), bad


def chat_stream_grammar(bench: Bench) -> None:
    _chat_grammar(bench, include_usage=False)


def chat_stream_grammar_with_usage(bench: Bench) -> None:
    _chat_grammar(bench, include_usage=True)


def chat_choice_none(bench: Bench) -> None:
    made = bench.strict_openai.chat.completions.create(model=bench.model, messages=USER, tools=CHAT_TOOLS, tool_choice="none")
    assert not made.choices[0].message.tool_calls


def _refused(ask: Callable[[], object]) -> openai.BadRequestError:
    try:
        ask()
    except openai.BadRequestError as exc:
        return exc
    raise AssertionError("the request was accepted")


def _n_is_refused(bench: Bench, **more: Any) -> None:
    exc = _refused(lambda: bench.strict_openai.chat.completions.create(model=bench.model, messages=USER, n=2, **more))
    assert exc.param == "n"
    assert exc.code
    assert exc.type == "invalid_request_error"
    assert exc.request_id


def chat_n_is_refused_with_tools(bench: Bench) -> None:
    _n_is_refused(bench, tools=CHAT_TOOLS)


def chat_n_is_the_upstreams_without_tools(bench: Bench) -> None:
    """CR08: such a request passes, and so does the upstream's own refusal."""
    _n_is_refused(bench)


def chat_bad_json(bench: Bench) -> None:
    got = bench.post("/v1/chat/completions", b"{nope")
    assert got.status == 400
    assert set(got.json["error"]) >= {"message", "type", "param", "code"}
    assert "x-request-id" in got.headers


def unknown_path(bench: Bench) -> None:
    got = bench.post("/v1/nope", {})
    assert got.status == 404
    assert "error" in got.json


def models(bench: Bench) -> None:
    assert bench.strict_openai.models.list().data[0].object == "model"
    assert next(iter(bench.strict_anthropic.models.list())).type == "model"


def responses_whole(bench: Bench) -> None:
    made = bench.strict_openai.responses.create(model=bench.model, input="hi")
    assert made.status == "completed"
    assert made.output_text
    made = bench.strict_openai.responses.create(model=bench.model, input="hi", tools=RESPONSES_TOOLS)
    assert made.output[-1].type == "function_call"
    assert made.output[-1].call_id.startswith("call_")


def responses_stream(bench: Bench) -> None:
    responses: Any = bench.openai.responses
    if not hasattr(responses, "stream"):
        events = list(responses.create(model=bench.model, input="hi", tools=RESPONSES_TOOLS, stream=True))
        assert events[-1].type == "response.completed"
        return
    with responses.stream(model=bench.model, input="hi", tools=RESPONSES_TOOLS) as stream:
        made = stream.get_final_response()
    assert made.output[-1].type == "function_call"


def _responses_grammar(bench: Bench, tools: list[Any]) -> None:
    got = bench.post("/v1/responses", {"model": bench.model, "input": "hi", "stream": True, **({"tools": tools} if tools else {})})
    assert got.status == 200
    assert not (bad := grammar.check_responses(got.body, tools=[NAME])), bad


def responses_stream_grammar(bench: Bench) -> None:
    _responses_grammar(bench, [])


def responses_stream_grammar_with_tools(bench: Bench) -> None:
    _responses_grammar(bench, RESPONSES_TOOLS)


def responses_unknown_previous_id(bench: Bench) -> None:
    got = bench.post("/v1/responses", {"model": bench.model, "input": "x", "previous_response_id": "resp_none"})
    assert got.status in (400, 404)
    assert got.json["error"]["code"] == "previous_response_not_found"


def messages_whole(bench: Bench) -> None:
    made = bench.strict_anthropic.messages.create(model=bench.model, max_tokens=64, messages=USER)
    assert made.stop_reason == "end_turn"
    assert made.id.startswith("msg_")
    made = bench.strict_anthropic.messages.create(model=bench.model, max_tokens=64, messages=USER, tools=MESSAGES_TOOLS)
    assert made.stop_reason == "tool_use"
    assert made.content[-1].type == "tool_use"
    assert made.content[-1].id.startswith("toolu_")


def messages_stream(bench: Bench) -> None:
    with bench.anthropic.messages.stream(model=bench.model, max_tokens=64, messages=USER, tools=MESSAGES_TOOLS) as stream:
        made = stream.get_final_message()
    assert made.stop_reason == "tool_use"
    last = made.content[-1]
    assert last.type == "tool_use"
    assert isinstance(last.input, dict)
    assert made.usage.input_tokens > 0


def _messages_grammar(bench: Bench, tools: list[Any]) -> None:
    body = {"model": bench.model, "max_tokens": 64, "messages": USER, "stream": True, **({"tools": tools} if tools else {})}
    got = bench.post("/v1/messages?beta=true", body, VERSION)
    assert got.status == 200
    assert "request-id" in got.headers
    assert not (bad := grammar.check_messages(got.body, tools=[NAME])), bad


def messages_stream_grammar(bench: Bench) -> None:
    _messages_grammar(bench, [])


def messages_stream_grammar_with_tools(bench: Bench) -> None:
    _messages_grammar(bench, MESSAGES_TOOLS)


def messages_without_max_tokens(bench: Bench) -> None:
    got = bench.post("/v1/messages", {"model": bench.model, "messages": USER}, VERSION)
    assert got.status == 400
    assert got.json["type"] == "error"
    assert got.json["error"]["type"] == "invalid_request_error"
    assert got.json.get("request_id") == got.headers.get("request-id")


def messages_count_tokens(bench: Bench) -> None:
    assert bench.strict_anthropic.messages.count_tokens(model=bench.model, messages=USER).input_tokens > 0


CHECKS: tuple[Callable[[Bench], None], ...] = (
    chat_text,
    chat_tools,
    chat_text_stream,
    chat_tools_stream,
    chat_stream_grammar,
    chat_stream_grammar_with_usage,
    chat_choice_none,
    chat_n_is_refused_with_tools,
    chat_n_is_the_upstreams_without_tools,
    chat_bad_json,
    unknown_path,
    models,
    responses_whole,
    responses_stream,
    responses_stream_grammar,
    responses_stream_grammar_with_tools,
    responses_unknown_previous_id,
    messages_whole,
    messages_stream,
    messages_stream_grammar,
    messages_stream_grammar_with_tools,
    messages_without_max_tokens,
    messages_count_tokens,
)


def main(arguments: list[str]) -> int:
    """Run every check and say how it went."""
    bench = Bench(*arguments[:2])
    failed = 0
    for check in CHECKS:
        try:
            check(bench)
        except Exception as exc:
            failed += 1
            print(f"FAIL {check.__name__}: {type(exc).__name__}: {str(exc)[:300]}")
        else:
            print(f"PASS {check.__name__}")
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} passed (openai {openai.__version__}, anthropic {anthropic.__version__})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What upstreams really send, one row a fault, by rule of the reader (U01 to U11, E6).

A row's `raw` is the whole body; a scripted upstream plays it (`row.script()`), a reader test feeds it at every cut. `text`, `reasoning`,
`calls` (name, arguments) and `finish` are what must come of it; `failed` is the kind of error where it must fail after that text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pipeline.settings import UpstreamTraits
from pipeline.turn import Usage
from pipeline.verdicts import Api, ErrorKind, FinishReason

STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
COUNTED = Usage(input_tokens=11, output_tokens=7)
DONE = "data: [DONE]\n\n"
MESSAGES = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)


@dataclass(frozen=True)
class Fault:
    """One body and what must come of it. `skipped` counts frames that may be lost, `stream` says how the request asked."""

    id: str
    rule: str
    raw: str | bytes
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: FinishReason | None = FinishReason.STOP
    failed: ErrorKind | None = None
    usage: Usage | None = None
    skipped: int = 0
    stream: bool = True
    traits: UpstreamTraits = field(default_factory=UpstreamTraits)
    stop: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        return self.raw if isinstance(self.raw, bytes) else self.raw.encode()

    def script(self, **more: Any) -> dict[str, Any]:
        """The row as a scripted upstream plays it, in one write."""
        return {"bytes_hex": [self.body.hex()], **more}


def delta(content: Any = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    inner = ({} if content is None else {"content": content}) | fields
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": inner, "finish_reason": finish}]}


def call(index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    """An entry of `tool_calls`."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    head = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return {**head, "type": "function", "function": function}


def calls(*entries: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(entries))


def sse(*values: Any, end: str = DONE, line: str = "\n", space: str = " ") -> str:
    """Frames as an event stream."""
    frames = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values)
    return "".join(f"data:{space}{frame}{line}{line}" for frame in frames) + end.replace("\n", line)


def events(*values: dict[str, Any]) -> str:
    """Frames of Anthropic Messages."""
    return "".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values)


def whole(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> str:
    return json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}]} | more)


AB = (delta("a"), delta("b"))
LENGTH, TOOLS, FILTER = FinishReason.LENGTH, FinishReason.TOOL_CALLS, FinishReason.CONTENT_FILTER
_ERROR = {"error": {"message": "worker died", "code": 500}}

# fmt: off
U01 = [
    Fault("comments", "U01", ": OPENROUTER PROCESSING\n\n" + sse(delta("a")).replace("data: [", ": keep-alive\n\ndata: [") + ":\n\n", "a", finish=FinishReason.STOP),
    Fault("no-space", "U01", sse(*AB, STOP, space=""), "ab"),
    Fault("crlf", "U01", sse(*AB, STOP, line="\r\n"), "ab"),
    Fault("cr", "U01", sse(*AB, STOP, line="\r"), "ab"),
    Fault("bom", "U01", "\ufeff" + sse(*AB, STOP), "ab"),
    Fault("json-on-next-line", "U01", sse(*AB, STOP, space="\n"), "ab"),
    Fault("multi-line-data", "U01", sse(json.dumps(delta("a"), indent=1).replace("\n", "\ndata: "), STOP), "a"),
    Fault("event-id-retry", "U01", "event: message\nid: 4\nretry: 100\n" + sse(*AB, STOP), "ab"),
    Fault("bare-data", "U01", "data:\n\ndata: \n\n" + sse(*AB, STOP) + "data:\n\n", "ab"),
    Fault("u2028", "U01", sse(delta("a\u2028b\u2029c\x85d"), STOP), "a\u2028b\u2029c\x85d"),
    Fault("utf8", "U01", sse(delta("café 🌱 "), delta("北京"), STOP), "café 🌱 北京"),
    Fault("invalid-utf8", "U01", sse(delta("a#"), STOP).encode().replace(b"#", b"\xff"), "a\ufffd"),
    Fault("split-surrogates", "U01", sse(r'{"choices":[{"delta":{"content":"x\ud83c"}}]}', r'{"choices":[{"delta":{"content":"\udf31y"}}]}', STOP), "x🌱y"),
    Fault("lone-surrogate", "U01", sse(r'{"choices":[{"delta":{"content":"x\ud83c"}}]}', STOP), "x\ufffd"),
    Fault("nan", "U01", sse('{"choices":[{"delta":{"content":"a"},"logprobs":{"p":NaN}}]}', STOP), "a"),
    Fault("blank-lines-before-json", "U01", "\n\n\n" + whole({"content": "ab"}), "ab", stream=False),
    Fault("comments-before-json", "U01", ": keep-alive\n\n: keep-alive\n\n" + whole({"content": "ab"}), "ab", stream=False),
    Fault("no-last-blank-line", "U01", sse(*AB, STOP, end="").rstrip("\n"), "ab"),
    Fault("error-field", "U01", sse(delta("a"), end='error: {"message": "slot died"}\n\n'), "a", failed=ErrorKind.UPSTREAM_ERROR),
]
U02 = [
    Fault("glued", "U02", sse(delta("a"), '{"cho data: ' + json.dumps(delta("b")), STOP), "ab", skipped=1),
    Fault("glued-whole", "U02", sse(json.dumps(delta("a")) + "data: " + json.dumps(delta("b")), STOP), "ab"),
    Fault("glued-done", "U02", sse(delta("a"), json.dumps(STOP) + "data: [DONE]", end=""), "a"),
    Fault("torn", "U02", sse(delta("a"), '{"choices": [{"delta": {"con', delta("b"), STOP), "ab", skipped=1),
    Fault("text-frame", "U02", sse(delta("a"), "keep going", delta("b"), STOP), "ab", skipped=1),
]
U03 = [
    Fault("done-without-finish", "U03", sse(*AB), "ab"),
    Fault("no-done", "U03", sse(*AB, STOP, end=""), "ab"),
    Fault("usage-ends", "U03", sse(*AB, STOP, {"choices": [], "usage": USAGE}, delta("late"), end=""), "ab", usage=COUNTED),
    Fault("done-ends", "U03", sse(*AB, STOP) + sse(delta("late")), "ab"),
    Fault("bare-eof", "U03", sse(*AB, end=""), "ab", finish=None, failed=ErrorKind.UPSTREAM_CUT),
    Fault("bare-eof-empty", "U03", sse(delta(role="assistant"), end=""), finish=None, failed=ErrorKind.UPSTREAM_CUT),
    Fault("bare-eof-lenient", "U03", sse(*AB, end=""), "ab", traits=UpstreamTraits(lenient_end=True)),
    Fault("bare-eof-lenient-empty", "U03", sse(delta(role="assistant"), end=""), failed=ErrorKind.UPSTREAM_CUT, traits=UpstreamTraits(lenient_end=True)),
    Fault("cut-in-a-frame", "U03", sse(*AB, end="")[:-20], "a", failed=ErrorKind.UPSTREAM_CUT, skipped=1),
]
U04 = [
    Fault("finish-empty-strings", "U04", sse(delta("a", ""), delta("b", ""), STOP), "ab"),
    Fault("finish-key-absent", "U04", sse({"choices": [{"delta": {"content": "ab"}}]}, STOP), "ab"),
    Fault("eos", "U04", sse(*AB, delta(finish="eos")), "ab"),
    Fault("complete", "U04", sse(*AB, delta(finish="COMPLETE")), "ab"),
    Fault("stop-sequence", "U04", sse(*AB, delta(finish="STOP_SEQUENCE")), "ab"),
    Fault("unknown-reason", "U04", sse(*AB, delta(finish="whatever")), "ab"),
    Fault("max-tokens", "U04", sse(*AB, delta(finish="MAX_TOKENS")), "ab", finish=LENGTH),
    Fault("model-length", "U04", sse(*AB, delta(finish="model_length")), "ab", finish=LENGTH),
    Fault("content-filter", "U04", sse(*AB, delta(finish="content_filter")), "ab", finish=FILTER),
    Fault("tool-calls-without-calls", "U04", sse(*AB, delta(finish="tool_calls")), "ab"),
    Fault("no-resource", "U04", sse(*AB, delta(finish="insufficient_system_resource")), "ab", failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-reason", "U04", sse(delta("a"), {"choices": [{"delta": {"content": "b"}, "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}]}), "ab", failed=ErrorKind.RATE_LIMIT),
    Fault("two-finishes", "U04", sse(*AB, STOP, delta(finish="length")), "ab", finish=LENGTH),
    Fault("two-finishes-again", "U04", sse(*AB, delta(finish="length"), STOP), "ab", finish=LENGTH),
    Fault("stop-string", "U04", sse(*AB, {"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": "END"}]}), "ab", finish=FinishReason.STOP_SEQUENCE, stop=("END",)),
]
U05 = [
    Fault("usage-own-chunk", "U05", sse(*AB, STOP, {"choices": [], "usage": USAGE}), "ab", usage=COUNTED),
    Fault("usage-on-finish", "U05", sse(*AB, STOP | {"usage": USAGE}), "ab", usage=COUNTED),
    Fault("usage-everywhere", "U05", sse(delta("a") | {"usage": USAGE | {"completion_tokens": 1}}, delta("b") | {"usage": USAGE}, STOP | {"usage": USAGE}), "ab", usage=COUNTED),
    Fault("usage-without-choices", "U05", sse(*AB, STOP, {"usage": USAGE}), "ab", usage=COUNTED),
    Fault("usage-groq", "U05", sse(*AB, STOP | {"x_groq": {"id": "r", "usage": USAGE}}), "ab", usage=COUNTED),
    Fault("usage-null", "U05", sse(delta("a") | {"usage": None}, STOP | {"usage": None}, {"choices": [], "usage": USAGE}), "a", usage=COUNTED),
    Fault("usage-missing", "U05", sse(*AB, STOP), "ab", usage=None),
    Fault("usage-deepseek", "U05", sse(delta("a"), STOP | {"usage": USAGE | {"prompt_cache_hit_tokens": 4}}), "a", usage=Usage(11, 7, cached_tokens=4)),
    Fault("usage-xai", "U05", sse(delta("a"), STOP | {"usage": USAGE | {"total_tokens": 99, "completion_tokens_details": {"reasoning_tokens": 3}}}), "a", usage=Usage(11, 7, reasoning_tokens=3)),
]
U07 = [
    Fault("content-null-absent-empty", "U07", sse(delta(role="assistant", content=None), delta(""), delta("a"), delta(), delta("b"), STOP), "ab"),
    Fault("content-list", "U07", sse(delta([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]), delta([{"type": "text", "text": "ab"}]), STOP), "ab", "hm"),
    Fault("role-repeated", "U07", sse(delta("a", role="assistant"), delta("b", role="assistant"), delta("c", role=None), STOP), "abc"),
    Fault("reasoning-content", "U07", sse(delta(reasoning_content="h", content=None), delta(reasoning_content="m"), *AB, STOP), "ab", "hm"),
    Fault("reasoning", "U07", sse(delta("", reasoning="hm", reasoning_details=[{"type": "reasoning.text", "text": "hm"}]), *AB, STOP), "ab", "hm"),
    Fault("reasoning-details", "U07", sse(delta(reasoning_details=[{"type": "reasoning.summary", "summary": "hm"}]), *AB, STOP), "ab", "hm"),
    Fault("refusal", "U07", sse(delta(refusal="I can"), delta(refusal="not."), STOP), "I cannot."),
    Fault("tool-calls-empty", "U07", sse(delta("a", tool_calls=[]), delta("b", tool_calls=None), STOP), "ab"),
]
U08 = [
    Fault("azure-first-chunk", "U08", sse({"choices": [], "id": "", "object": "", "prompt_filter_results": [{}]}, *AB, STOP), "ab"),
    Fault("choices-empty", "U08", sse(delta("a"), {"choices": []}, delta("b"), STOP), "ab"),
    Fault("second-choice", "U08", sse(delta("a"), {"choices": [{"index": 1, "delta": {"content": "X"}}]}, delta("b"), STOP), "ab"),
    Fault("whole-message-repeated", "U08", sse(*AB, {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}), "ab"),
    Fault("ping-frame", "U08", sse({"type": "ping"}, *AB, STOP), "ab"),
]
_WHOLE = (("look", '{"q":"x"}'),)
U09 = [
    Fault("call-split", "U09", sse(calls(call(0, "c1", "look", "")), calls(call(0, None, None, '{"q"')), calls(call(0, None, None, ':"x"}')), delta(finish="tool_calls")), calls=_WHOLE, finish=TOOLS),
    Fault("call-whole", "U09", sse(calls(call(0, "c1", "look", '{"q":"x"}')), STOP), calls=_WHOLE, finish=TOOLS),
    Fault("call-from-1", "U09", sse(calls(call(1, "c1", "look", '{"q":')), calls(call(1, None, None, '"x"}')), STOP), calls=_WHOLE, finish=TOOLS),
    Fault("call-no-index", "U09", sse(calls(call(None, "c1", "look", '{"q":')), calls(call(None, None, None, '"x"}')), STOP), calls=_WHOLE, finish=TOOLS),
    Fault("call-no-index-two", "U09", sse(calls(call(None, "c1", "look", '{"q":"x"}')), calls(call(None, "c2", "look", '{"q":"y"}')), STOP), calls=(*_WHOLE, ("look", '{"q":"y"}')), finish=TOOLS),
    Fault("call-no-index-no-id", "U09", sse(calls(call(None, None, "look", '{"q":"x"}')), calls(call(None, None, "look", '{"q":"y"}')), STOP), calls=(*_WHOLE, ("look", '{"q":"y"}')), finish=TOOLS),
    Fault("call-all-index-0", "U09", sse(calls(call(0, "c1", "look", '{"q":"x"}')), calls(call(0, "c2", "read", "{}")), STOP), calls=(*_WHOLE, ("read", "{}")), finish=TOOLS),
    Fault("call-empty-id-and-name-later", "U09", sse(calls(call(0, "c1", "look", '{"q":')), calls(call(0, "", "", '"x"}')), STOP), calls=_WHOLE, finish=TOOLS),
    Fault("call-name-repeated", "U09", sse(calls(call(0, "c1", "look", '{"q":')), calls(call(0, "c1", "look", '"x"}')), STOP), calls=_WHOLE, finish=TOOLS),
    Fault("call-interleaved", "U09", sse(calls(call(0, "c1", "look", '{"q":'), call(1, "c2", "read", '{"p"')), calls(call(1, None, None, ":1}"), call(0, None, None, '"x"}')), STOP), calls=(*_WHOLE, ("read", '{"p":1}')), finish=TOOLS),
    Fault("call-arguments-object", "U09", sse(calls(call(0, "c1", "look", {"n": 12345678901234567890123})), STOP), calls=(("look", '{"n":12345678901234567890123}'),), finish=TOOLS),
    Fault("call-no-arguments", "U09", sse(calls(call(0, "c1", "look", "")), STOP), calls=(("look", "{}"),), finish=TOOLS),
    Fault("call-legacy", "U09", sse(delta(function_call={"name": "look"}), delta(function_call={"arguments": '{"q":"x"}'}), delta(finish="function_call")), calls=_WHOLE, finish=TOOLS),
    Fault("call-then-text", "U09", sse(delta("a"), calls(call(0, "c1", "look", '{"q":"x"}')), delta("b"), STOP), "ab", calls=_WHOLE, finish=TOOLS),
    Fault("call-cut", "U09", sse(calls(call(0, "c1", "look", '{"q":"x"}')), calls(call(1, "c2", "look", '{"q":')), delta(finish="length")), calls=_WHOLE, finish=LENGTH),
    Fault("call-whole-body", "U09", whole({"content": None, "tool_calls": [call(None, "c1", "look", '{"q":"x"}')]}, "tool_calls"), calls=_WHOLE, finish=TOOLS, stream=False),
    Fault("call-split-surrogates", "U09", sse(r'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":"{\"q\":\"\ud83c"}}]}}]}', r'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\udf31\"}"}}]}}]}', STOP), calls=(("look", '{"q":"🌱"}'),), finish=TOOLS),
]
U10 = [
    Fault("error-first", "U10", sse(_ERROR), failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-later", "U10", sse(*AB, _ERROR), "ab", failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-number-code", "U10", sse({"error": {"message": "slow down", "code": 429}}), failed=ErrorKind.RATE_LIMIT),
    Fault("error-vllm", "U10", sse({"object": "error", "message": "bad input", "type": "BadRequestError", "code": 400}), failed=ErrorKind.INVALID_REQUEST),
    Fault("error-twice-said", "U10", sse({"error": {"message": "model crashed"}, "message": "model crashed"}), failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-string", "U10", sse({"error": "model crashed"}), failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-event", "U10", sse(delta("a"), end='event: error\ndata: {"details": "detector failed", "code": 500}\n\n'), "a", failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-event-text", "U10", sse(delta("a"), end="event: error\ndata: it broke\n\n"), "a", failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-body", "U10", json.dumps({"error": {"message": "the model is overloaded", "type": "overloaded_error"}}), failed=ErrorKind.OVERLOADED, stream=False),
    Fault("error-body-pretty", "U10", json.dumps({"error": {"message": "no", "type": "server_error"}}, indent=2), failed=ErrorKind.UPSTREAM_ERROR, stream=False),
    Fault("error-context", "U10", json.dumps({"error": {"message": "the request exceeds the available context size", "code": 400}}), failed=ErrorKind.CONTEXT_OVERFLOW),
    Fault("error-list", "U10", json.dumps([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}]), failed=ErrorKind.OVERLOADED),
    Fault("error-detail", "U10", json.dumps({"detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "missing"}]}), failed=ErrorKind.UPSTREAM_ERROR),
    Fault("error-null-is-none", "U10", sse(delta("a") | {"error": None}, STOP | {"error": None}), "a"),
    Fault("html", "U10", "<html><title>502 Bad Gateway</title></html>", failed=ErrorKind.UPSTREAM_ERROR),
    Fault("html-doctype", "U10", "\r\n<!DOCTYPE html><html></html>", failed=ErrorKind.UPSTREAM_ERROR, stream=False),
    Fault("empty-body", "U10", "", failed=ErrorKind.UPSTREAM_CUT),
    Fault("blank-body", "U10", "\n\n \n", failed=ErrorKind.UPSTREAM_CUT, stream=False),
    Fault("plain-text", "U10", "Internal Server Error", failed=ErrorKind.UPSTREAM_CUT),
    Fault("json-without-answer", "U10", '{"status": "ok"}', failed=ErrorKind.UPSTREAM_ERROR, stream=False),
    Fault("torn-json-body", "U10", whole({"content": "ab"})[:-9], failed=ErrorKind.UPSTREAM_ERROR, stream=False, skipped=1),
]
U11 = [
    Fault("json-although-stream", "U11", whole({"role": "assistant", "content": "ab"}, usage=USAGE), "ab", usage=COUNTED),
    Fault("json-pretty-although-stream", "U11", json.dumps(json.loads(whole({"content": "ab", "reasoning_content": "hm"})), indent=2), "ab", "hm"),
    Fault("json-no-finish-reason", "U11", whole({"content": "ab"}, None), "ab", stream=False),
    Fault("sse-although-not-asked", "U11", sse(*AB, STOP), "ab", stream=False),
    Fault("whole-in-a-frame", "U11", sse(json.loads(whole({"content": "ab"}))), "ab"),
    Fault("ndjson", "U11", "".join(json.dumps(one) + "\n" for one in (*AB, STOP)), "ab"),
    Fault("ndjson-crlf", "U11", "".join(json.dumps(one) + "\r\n" for one in (*AB, STOP)), "ab"),
    Fault(
        "ndjson-ollama",
        "U11",
        "".join(json.dumps({"model": "m", "message": {"role": "assistant", "content": one}, "done": False}) + "\n" for one in "ab")
        + json.dumps({"message": {"content": ""}, "done": True, "done_reason": "length", "prompt_eval_count": 11, "eval_count": 7}),
        "ab",
        finish=LENGTH,
        usage=COUNTED,
    ),
    Fault("ndjson-torn-line", "U11", "\n".join([json.dumps(delta("a")), '{"cho', json.dumps(delta("b")), json.dumps(STOP)]), "ab", skipped=1),
]
_START = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 6, "output_tokens": 1}}}
_TEXT = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}},
    {"type": "content_block_stop", "index": 0},
)
_USE = {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {}}}
_USE_END = {"type": "content_block_stop", "index": 1}
_PIECES = tuple({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": one}} for one in ("", '{"q"', ':"x"}'))


def _end(reason: str, sequence: str | None = None) -> tuple[dict[str, Any], ...]:
    ended = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": {"output_tokens": 7}}
    return ended, {"type": "message_stop"}


_COUNTED = Usage(11, 7, cached_tokens=6)
_PING = {"type": "ping"}
ANTHROPIC = [
    Fault("a-text", "U03", events(_START, _PING, *_TEXT, *_end("end_turn")), "ab", usage=_COUNTED, traits=MESSAGES),
    Fault("a-no-event-lines", "U01", sse(_START, *_TEXT, *_end("end_turn"), end=""), "ab", usage=_COUNTED, traits=MESSAGES),
    Fault("a-no-stop-event", "U03", events(_START, *_TEXT, _end("end_turn")[0]), "ab", usage=_COUNTED, traits=MESSAGES),
    Fault("a-cut", "U03", events(_START, *_TEXT), "ab", failed=ErrorKind.UPSTREAM_CUT, traits=MESSAGES),
    Fault("a-length", "U04", events(_START, *_TEXT, *_end("max_tokens")), "ab", finish=LENGTH, usage=_COUNTED, traits=MESSAGES),
    Fault("a-refusal", "U04", events(_START, *_TEXT, *_end("refusal")), "ab", finish=FILTER, usage=_COUNTED, traits=MESSAGES),
    Fault("a-stop-sequence", "U04", events(_START, *_TEXT, *_end("stop_sequence", "END")), "ab", finish=FinishReason.STOP_SEQUENCE, usage=_COUNTED, traits=MESSAGES),
    Fault("a-call", "U09", events(_START, *_TEXT, _USE, *_PIECES, _USE_END, *_end("tool_use")), "ab", calls=_WHOLE, finish=TOOLS, usage=_COUNTED, traits=MESSAGES),
    Fault("a-call-empty", "U09", events(_START, _USE, _USE_END, *_end("tool_use")), calls=(("look", "{}"),), finish=TOOLS, usage=_COUNTED, traits=MESSAGES),
    Fault("a-call-at-start", "U09", events(_START, _USE | {"content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {"q": "x"}}}, _USE_END, *_end("tool_use")), calls=_WHOLE, finish=TOOLS, usage=_COUNTED, traits=MESSAGES),
    Fault("a-call-at-start-and-again", "U09", events(_START, _USE | {"content_block": {"type": "tool_use", "id": "t", "name": "look", "input": {"q": "no"}}}, *_PIECES, _USE_END, *_end("tool_use")), calls=_WHOLE, finish=TOOLS, usage=_COUNTED, traits=MESSAGES),
    Fault("a-thinking", "U07", events({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}, {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}}, *_TEXT, *_end("end_turn")), "ab", "hm", usage=Usage(0, 7), traits=MESSAGES),
    Fault("a-error", "U10", events(_START, *_TEXT[:2], {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "ab", failed=ErrorKind.OVERLOADED, traits=MESSAGES),
    Fault("a-error-body", "U10", json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}), failed=ErrorKind.RATE_LIMIT, traits=MESSAGES, stream=False),
    Fault("a-whole", "U11", json.dumps({"type": "message", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "ab"}, {"type": "tool_use", "id": "t", "name": "look", "input": {"n": 12345678901234567890123}}], "stop_reason": "tool_use", "usage": {"input_tokens": 11, "output_tokens": 7}}), "ab", "hm", (("look", '{"n":12345678901234567890123}'),), TOOLS, usage=COUNTED, traits=MESSAGES),
    Fault("a-html", "U10", "<html></html>", failed=ErrorKind.UPSTREAM_ERROR, traits=MESSAGES),
]
# fmt: on

FAULTS: list[Fault] = [*U01, *U02, *U03, *U04, *U05, *U07, *U08, *U09, *U10, *U11, *ANTHROPIC]
CHAT_FAULTS: list[Fault] = [fault for fault in FAULTS if fault.traits.protocol is Api.OPENAI_CHAT]

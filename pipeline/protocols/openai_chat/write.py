"""Answers in OpenAI Chat Completions: `ChatStream` writes chunks, `ChatBody` one completion.

In: events of the attempt that is delivered. Out: `chat.completion.chunk` events (CS01 to CS14), or a `chat.completion` (CN01 to CN07).
Promise: id, created and model are the same everywhere; the role comes once, in the first chunk; a call's id, type and name come once,
indices count from 0; exactly one finish chunk. The text path writes a ready prefix, the quoted text and a ready suffix, no dict.
"""

from __future__ import annotations

from pipeline import json_values
from pipeline.events import Failed, Finish
from pipeline.protocols import ids
from pipeline.protocols.errors import openai_error
from pipeline.protocols.writing import COMMENT, DEFAULT_OPTIONS, STREAM_TYPE, BodyWriter, CallOut, TextPart, Writer, WriterOptions, quote
from pipeline.turn import Turn, Usage
from pipeline.verdicts import FinishReason

_FINISH = {
    FinishReason.STOP: b"stop",
    FinishReason.STOP_SEQUENCE: b"stop",
    FinishReason.LENGTH: b"length",
    FinishReason.CONTEXT_WINDOW: b"length",
    FinishReason.CONTENT_FILTER: b"content_filter",
    FinishReason.TOOL_CALLS: b"tool_calls",
}


class ChatStream(Writer):
    """A streamed completion. Keep-alives are comments, so the role chunk waits for the first content (CS02)."""

    content_type = STREAM_TYPE

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Make the templates; the id comes with the first chunk (X29)."""
        super().__init__(turn, options)
        self._shows_reasoning = True  # E-think: an extra key that breaks nobody (CS13)
        self._one_call = turn.legacy_functions  # CR07
        self._custom_tools = not turn.legacy_functions
        self._legacy = turn.legacy_functions
        # CS08, CS10: a null on every chunk when usage was asked for, else no key at all.
        self._tail = b',"usage":null}\n\n' if turn.include_usage else b"}\n\n"
        self._suffix = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self._text_suffix = b"}" + self._suffix
        self._head = b""
        self._prefix = b""
        self._text_prefix = b""
        self._has_content = False

    def keep_alive(self, silence_s: float) -> bytes:  # noqa: ARG002
        """A comment (X06)."""
        return b"" if self._over else COMMENT

    def _start(self, content: bytes) -> None:
        self._head = b'data: {"id":"%b","object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            ids.mint(ids.COMPLETION).encode(),
            self._created,
            quote(self._turn.model),
        )
        self._prefix = self._head + b'{"index":0,"delta":'
        self._text_prefix = self._prefix + b'{"content":'
        self._has_content = content != b"null"
        self._out.append(self._prefix + b'{"role":"assistant","content":' + content + b',"refusal":null}' + self._suffix)

    def _delta(self, delta: bytes) -> None:
        self._out.append(self._prefix + delta + self._suffix)

    def _text(self, text: str) -> None:
        if not self._prefix:
            self._start(b'""')
        self._has_content = True
        self._out.append(self._text_prefix + quote(text) + self._text_suffix)

    def _reasoning(self, text: str) -> None:
        if not self._prefix:
            self._start(b"null")
        quoted = quote(text)
        self._delta(b"{" + b",".join(b'"%b":%b' % (key.encode(), quoted) for key in self._options.reasoning_keys) + b"}")

    def _begin(self, call: CallOut) -> None:
        if not self._prefix:
            self._start(b"null")
        name = quote(call.name)
        if self._legacy:
            self._delta(b'{"function_call":{"name":' + name + b',"arguments":""}}')
            return
        call.id = ids.mint(ids.CALL)
        # CR03: streamed custom calls have this shape at OpenAI; only who declared a custom tool ever sees it.
        body = b'"custom","custom":{"name":%b,"input":""}' if call.custom else b'"function","function":{"name":%b,"arguments":""}'
        self._delta(b'{"tool_calls":[{"index":%d,"id":"%b","type":%b%b}]}' % (call.index, call.id.encode(), body % name, _extra(call)))

    def _arguments(self, call: CallOut, text: str) -> None:
        if self._legacy:
            self._delta(b'{"function_call":{"arguments":' + quote(text) + b"}}")
            return
        body = b'"custom":{"input":%b}' if call.custom else b'"function":{"arguments":%b}'
        self._delta(b'{"tool_calls":[{"index":%d,%b}]}' % (call.index, body % quote(text)))

    def _done(self, call: CallOut) -> None:
        """A call has no end of its own in this protocol; what came late with it is still told."""
        late = b"" if self._legacy else _extra(call)
        if late:
            self._delta(b'{"tool_calls":[{"index":%d,"function":{"arguments":""}%b}]}' % (call.index, late))

    def _end(self, finish: Finish) -> None:
        if not self._prefix:
            self._start(b'""')
        elif not self._calls and not self._has_content:
            self._text("")  # E-empty: content is "", not null, as in the body
        reason = _finish_reason(self._reason(finish), legacy=self._legacy)
        self._out.append(self._prefix + b'{},"logprobs":null,"finish_reason":"' + reason + b'"}]' + self._tail)
        if self._turn.include_usage:
            self._out.append(self._head + b'],"usage":' + _usage(self._usage(finish)) + b"}\n\n")
        self._out.append(b"data: [DONE]\n\n")

    def _error(self, failed: Failed) -> None:
        # CS12, but without [DONE] behind it: several clients take a clean end as the whole answer (E8).
        self._out.append(b'data: {"error":' + json_values.dumps_bytes(openai_error(failed)) + b"}\n\n")


class ChatBody(BodyWriter):
    """A completion in one body."""

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Show what the stream shows."""
        super().__init__(turn, options)
        self._shows_reasoning = True
        self._one_call = turn.legacy_functions
        self._custom_tools = not turn.legacy_functions

    def _body(self, finish: Finish) -> bytes:
        text = "".join(part.text for part in self._parts if isinstance(part, TextPart) and not part.reasoning)
        reasoning = "".join(part.text for part in self._parts if isinstance(part, TextPart) and part.reasoning)
        calls = [part for part in self._parts if isinstance(part, CallOut)]
        legacy = self._turn.legacy_functions
        message: dict[str, object] = {"role": "assistant", "content": None if calls and not text else text, "refusal": None}
        if reasoning:
            message.update(dict.fromkeys(self._options.reasoning_keys, reasoning))
        if calls and legacy:
            message["function_call"] = {"name": calls[0].name, "arguments": calls[0].text}
        elif calls:
            message["tool_calls"] = [_call(call) for call in calls]
        reason = _finish_reason(self._reason(finish), legacy=legacy)
        return b'{"id":"%b","object":"chat.completion","created":%d,"model":%b,"choices":[%b],"usage":%b}' % (
            ids.mint(ids.COMPLETION).encode(),
            self._created,
            quote(self._turn.model),
            b'{"index":0,"message":%b,"logprobs":null,"finish_reason":"%b"}' % (json_values.dumps_bytes(message), reason),
            _usage(self._usage(finish)),
        )

    def _error(self, failed: Failed) -> None:
        self._out.append(json_values.dumps_bytes({"error": openai_error(failed)}))


def _call(call: CallOut) -> dict[str, object]:
    if call.custom:
        return {"id": ids.mint(ids.CALL), "type": "custom", "custom": {"name": call.name, "input": call.text}}
    out: dict[str, object] = {"id": ids.mint(ids.CALL), "type": "function", "function": {"name": call.name, "arguments": call.text}}
    return out if call.extra is None else {**out, "extra_content": json_values.loads(call.extra)}


def _extra(call: CallOut) -> bytes:
    """What the upstream wants back with this call (U09), once."""
    if call.extra is None or call.extra_sent:
        return b""
    call.extra_sent = True
    return b',"extra_content":' + call.extra.encode()


def _finish_reason(reason: FinishReason, *, legacy: bool) -> bytes:
    return b"function_call" if legacy and reason is FinishReason.TOOL_CALLS else _FINISH[reason]


def _usage(usage: Usage) -> bytes:
    """Input includes what was cached; the total is the sum, whatever an upstream said (X41)."""
    read: dict[str, int] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        read["cache_write_tokens"] = usage.cache_write_tokens
    return json_values.dumps_bytes(
        {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": read,
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }
    )

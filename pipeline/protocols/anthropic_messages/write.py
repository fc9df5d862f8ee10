"""Answers in Anthropic Messages: `MessagesStream` writes events, `MessagesBody` one message.

In: events of the attempt that is delivered. Out: the event sequence of AS01 to AS12, or a message (AN01 to AN05). Promise: blocks come
one after another, each started and stopped, indices without a gap; a text block is opened by its first character only, or by a minute
of silence (E7), and then later text continues in it; one `message_delta`, with both token counts.
"""

from __future__ import annotations

from typing import Literal

from pipeline import json_values
from pipeline.events import Failed, Finish
from pipeline.protocols import ids
from pipeline.protocols.errors import anthropic_error
from pipeline.protocols.writing import DEFAULT_OPTIONS, STREAM_TYPE, BodyWriter, CallOut, TextPart, Writer, WriterOptions, quote
from pipeline.turn import Turn, Usage
from pipeline.verdicts import FinishReason

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":'
_TEXT_DELTA = b',"delta":{"type":"text_delta","text":'
_CLOSE = b"}}\n\n"
_EMPTY_DELTA = {
    "text": _TEXT_DELTA + b'""' + _CLOSE,
    "thinking": b',"delta":{"type":"thinking_delta","thinking":""}}\n\n',
    "tool_use": b',"delta":{"type":"input_json_delta","partial_json":""}}\n\n',
}
_STOP_REASON = {
    FinishReason.STOP: b"end_turn",
    FinishReason.STOP_SEQUENCE: b"stop_sequence",
    FinishReason.LENGTH: b"max_tokens",
    FinishReason.CONTEXT_WINDOW: b"model_context_window_exceeded",
    FinishReason.CONTENT_FILTER: b"refusal",
    FinishReason.TOOL_CALLS: b"tool_use",
}


class MessagesStream(Writer):
    """A streamed message."""

    content_type = STREAM_TYPE
    _custom_tools = False

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Begin without a block."""
        super().__init__(turn, options)
        self._started = False
        self._index = -1
        self._block: Literal["text", "thinking", "tool_use"] | None = None
        self._text_prefix = b""

    def keep_alive(self, silence_s: float) -> bytes:
        """A ping, which may stand before `message_start` (AS03); after long silence an empty delta in a block."""
        if self._over:
            return b""
        if silence_s < self._options.silence_block_s:
            return _PING
        if self._block is None:
            self._open_block("text", b'{"type":"text","text":""}')
        self._out.append(_DELTA + b"%d" % self._index + _EMPTY_DELTA[self._block or "text"])
        return self._flush()

    def _start(self) -> None:
        self._started = True
        usage = _usage(Usage(input_tokens=self._input_estimate(), output_tokens=0))
        self._out.append(
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"%b","type":"message","role":"assistant","model":%b,'
            b'"content":[],"stop_reason":null,"stop_sequence":null,"usage":%b}}\n\n'
            % (ids.mint(ids.MESSAGE_ANTHROPIC).encode(), quote(self._turn.model), usage)
        )

    def _open_block(self, kind: Literal["text", "thinking", "tool_use"], block: bytes) -> None:
        if not self._started:
            self._start()
        self._close_block()
        self._block = kind
        self._index += 1
        self._out.append(
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n' % (self._index, block)
        )
        self._text_prefix = _DELTA + b"%d" % self._index + _TEXT_DELTA

    def _close_block(self) -> None:
        if self._block is None:
            return
        if self._block == "thinking":
            # AS08: nobody signed it, but strict clients want the delta.
            self._out.append(_DELTA + b'%d,"delta":{"type":"signature_delta","signature":""}}\n\n' % self._index)
        self._out.append(b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index)
        self._block = None

    def _text(self, text: str) -> None:
        if self._block != "text":
            self._open_block("text", b'{"type":"text","text":""}')
        self._out.append(self._text_prefix + quote(text) + _CLOSE)

    def _reasoning(self, text: str) -> None:
        if self._block != "thinking":
            self._open_block("thinking", b'{"type":"thinking","thinking":"","signature":""}')
        self._out.append(_DELTA + b'%d,"delta":{"type":"thinking_delta","thinking":%b}}\n\n' % (self._index, quote(text)))

    def _begin(self, call: CallOut) -> None:
        call.id = ids.mint(ids.TOOL_USE)
        self._open_block("tool_use", b'{"type":"tool_use","id":"%b","name":%b,"input":{}}' % (call.id.encode(), quote(call.name)))

    def _arguments(self, call: CallOut, text: str) -> None:  # noqa: ARG002
        self._out.append(_DELTA + b'%d,"delta":{"type":"input_json_delta","partial_json":%b}}\n\n' % (self._index, quote(text)))

    def _done(self, call: CallOut) -> None:  # noqa: ARG002
        self._close_block()

    def _end(self, finish: Finish) -> None:
        if not self._started:
            self._start()
        self._close_block()
        reason, sequence = _stop(self._reason(finish), finish, self._turn.stop)
        self._out.append(
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"%b","stop_sequence":%b%b},"usage":%b}\n\n'
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
            % (reason, sequence, _details(reason, finish), _usage(self._usage(finish)))
        )

    def _error(self, failed: Failed) -> None:
        self._out.append(b'event: error\ndata: {"type":"error","error":' + json_values.dumps_bytes(anthropic_error(failed)) + b"}\n\n")


class MessagesBody(BodyWriter):
    """A message in one body."""

    _custom_tools = False

    def _body(self, finish: Finish) -> bytes:
        reason, sequence = _stop(self._reason(finish), finish, self._turn.stop)
        return (
            b'{"id":"%b","type":"message","role":"assistant","model":%b,"content":[%b],"stop_reason":"%b","stop_sequence":%b%b,"usage":%b}'
            % (
                ids.mint(ids.MESSAGE_ANTHROPIC).encode(),
                quote(self._turn.model),
                b",".join(map(_block, self._parts)),
                reason,
                sequence,
                _details(reason, finish),
                _usage(self._usage(finish)),
            )
        )

    def _error(self, failed: Failed) -> None:
        request_id = self._turn.request_id or None
        self._out.append(json_values.dumps_bytes({"type": "error", "error": anthropic_error(failed), "request_id": request_id}))


def _block(part: TextPart | CallOut) -> bytes:
    if isinstance(part, CallOut):
        # The input is the arguments' own JSON text: nothing is parsed, so nothing is lost.
        return b'{"type":"tool_use","id":"%b","name":%b,"input":%b}' % (
            ids.mint(ids.TOOL_USE).encode(),
            quote(part.name),
            json_values.well_formed(part.text).encode(),
        )
    text = quote(part.text)
    return b'{"type":"thinking","thinking":%b,"signature":""}' % text if part.reasoning else b'{"type":"text","text":%b}' % text


def _stop(reason: FinishReason, finish: Finish, stops: tuple[str, ...]) -> tuple[bytes, bytes]:
    sequence = finish.stop_sequence if reason is FinishReason.STOP_SEQUENCE else None
    if sequence is None and reason is FinishReason.STOP_SEQUENCE and len(stops) == 1:
        sequence = stops[0]  # an upstream that does not say which one it was
    return _STOP_REASON[reason], b"null" if sequence is None else quote(sequence)


def _details(reason: bytes, finish: Finish) -> bytes:
    """What is known of a refusal (AN05); other ends have nothing to tell, and then there is no key: older clients do not know it."""
    if reason != _STOP_REASON[FinishReason.CONTENT_FILTER]:
        return b""
    known = finish.stop_details or {}
    category, explanation = (known.get(key) for key in ("category", "explanation"))
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return b',"stop_details":' + json_values.dumps_bytes(details)


def _usage(usage: Usage) -> bytes:
    """Here input excludes what was read from or written to a cache (X40)."""
    return b'{"input_tokens":%d,"output_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d}' % (
        max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        usage.output_tokens,
        usage.cache_write_tokens,
        usage.cached_tokens,
    )

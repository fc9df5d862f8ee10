"""Answers in OpenAI Responses: `ResponsesStream` writes events, `ResponsesBody` one response object.

In: events of the attempt that is delivered. Out: the event sequence of RS01 to RS12, or a response (RN01 to RN05). Promise: sequence
numbers count from 0 without a gap, output indices too; one item at a time, each added and done with the same id; the last event carries
every item that was done; custom and namespaced tools come back as they were declared (RQ03).
"""

from __future__ import annotations

from typing import Literal

from pipeline import json_values
from pipeline.events import Failed, Finish
from pipeline.protocols import ids
from pipeline.protocols.errors import openai_error, responses_failure_code
from pipeline.protocols.writing import DEFAULT_OPTIONS, STREAM_TYPE, BodyWriter, CallOut, TextPart, Writer, WriterOptions, quote
from pipeline.turn import Turn, Usage
from pipeline.verdicts import FinishReason

_INCOMPLETE = {
    FinishReason.LENGTH: b"max_output_tokens",
    FinishReason.CONTEXT_WINDOW: b"max_output_tokens",
    FinishReason.CONTENT_FILTER: b"content_filter",
}

# RN01: what a response object repeats of its request, for requests that said nothing. Reading normalises what they did say (RN02).
_DEFAULTS: dict[str, object] = {
    "previous_response_id": None,
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "reasoning": {"effort": None, "summary": None},
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": False,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}


class _Response:
    """The response object around its output. What a request repeats in it is written once."""

    def __init__(self, turn: Turn, created: int) -> None:
        self.id = ids.mint(ids.RESPONSE)
        # A time of completion would need a clock; null is what the field says where none is known.
        self._head = b'{"id":"%b","object":"response","created_at":%d,"completed_at":null,"model":%b,' % (
            self.id.encode(),
            created,
            quote(turn.model),
        )
        repeated = {**_DEFAULTS, **{key: value for key, value in turn.echo.items() if key in _DEFAULTS or key == "user"}}
        self._tail = b"," + json_values.dumps_bytes(repeated)[1:]

    def write(
        self,
        status: bytes,
        output: bytes = b"",
        usage: bytes = b"null",
        incomplete: bytes = b"null",
        error: bytes = b"null",
    ) -> bytes:
        return self._head + (
            b'"status":"%b","incomplete_details":%b,"error":%b,"output":[%b],"usage":%b' % (status, incomplete, error, output, usage)
            + self._tail
        )

    def ended(self, reason: FinishReason, output: bytes, usage: Usage) -> tuple[bytes, bytes]:
        """Status and object of an answer that ended in order."""
        why = _INCOMPLETE.get(reason)
        if why is None:
            return b"completed", self.write(b"completed", output, _usage(usage))
        return b"incomplete", self.write(b"incomplete", output, _usage(usage), b'{"reason":"%b"}' % why)


class ResponsesStream(Writer):
    """A streamed response."""

    content_type = STREAM_TYPE
    _namespaces = True

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Begin without an item; ids come with the first event (X29)."""
        super().__init__(turn, options)
        self._number = 0
        self._response: _Response | None = None
        self._items: list[bytes] = []
        self._item: Literal["message", "reasoning"] | None = None
        self._item_id = b""
        self._pieces: list[str] = []
        self._place = b""
        self._text_prefix = b""
        self._answered = False

    def keep_alive(self, silence_s: float) -> bytes:  # noqa: ARG002
        """`response.in_progress`, once more: comments do not keep Codex alive (E7)."""
        if self._over:
            return b""
        if self._response is None:
            self._start()
        else:
            self._event(b"response.in_progress", b'"response":' + self._response.write(b"in_progress"))
        return self._flush()

    # --- events ---------------------------------------------------------------------------------------------------------------

    def _event(self, kind: bytes, fields: bytes) -> None:
        self._out.append(b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (kind, kind, self._number, fields))
        self._number += 1

    def _start(self) -> _Response:
        response = self._response
        if response is None:
            response = self._response = _Response(self._turn, self._created)
            pending = b'"response":' + response.write(b"in_progress")
            self._event(b"response.created", pending)
            self._event(b"response.in_progress", pending)
        return response

    def _add(self, item_id: bytes, item: bytes) -> None:
        self._item_id = item_id
        self._place = b'"item_id":"%b","output_index":%d' % (item_id, len(self._items))
        self._event(b"response.output_item.added", b'"output_index":%d,"item":%b' % (len(self._items), item))

    def _finish_item(self, item: bytes) -> None:
        self._event(b"response.output_item.done", b'"output_index":%d,"item":%b' % (len(self._items), item))
        self._items.append(item)

    # --- text and reasoning ---------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        if self._item != "message":
            self._open_message()
        self._pieces.append(text)
        self._out.append(self._text_prefix + quote(text) + b',"sequence_number":%d}\n\n' % self._number)
        self._number += 1

    def _open_message(self) -> None:
        self._start()
        self._close()
        self._item = "message"
        self._answered = True
        item_id = ids.mint(ids.MESSAGE).encode()
        self._add(item_id, _message(item_id, b"in_progress", b""))
        self._event(b"response.content_part.added", self._place + b',"content_index":0,"part":' + _output_text(b'""'))
        self._text_prefix = (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
            + self._place
            + b',"content_index":0,"logprobs":[],"delta":'
        )

    def _reasoning(self, text: str) -> None:
        if self._item != "reasoning":
            self._start()
            self._close()
            self._item = "reasoning"
            item_id = ids.mint(ids.REASONING).encode()
            self._add(item_id, _reasoning(item_id, b"in_progress", b""))
            self._event(b"response.reasoning_summary_part.added", self._place + b',"summary_index":0,"part":' + _summary(b'""'))
        self._pieces.append(text)
        self._event(b"response.reasoning_summary_text.delta", self._place + b',"summary_index":0,"delta":' + quote(text))

    def _close(self, status: bytes = b"completed") -> None:
        item, self._item = self._item, None
        if item is None:
            return
        text = quote("".join(self._pieces))
        self._pieces.clear()
        if item == "message":
            part = _output_text(text)
            self._event(b"response.output_text.done", self._place + b',"content_index":0,"logprobs":[],"text":' + text)
            self._event(b"response.content_part.done", self._place + b',"content_index":0,"part":' + part)
            self._finish_item(_message(self._item_id, status, part))
        else:
            part = _summary(text)
            self._event(b"response.reasoning_summary_text.done", self._place + b',"summary_index":0,"text":' + text)
            self._event(b"response.reasoning_summary_part.done", self._place + b',"summary_index":0,"part":' + part)
            self._finish_item(_reasoning(self._item_id, status, part))

    # --- calls ----------------------------------------------------------------------------------------------------------------

    def _begin(self, call: CallOut) -> None:
        self._start()
        self._close()
        self._answered = True
        call.id = ids.mint(ids.CALL)
        item_id = _call_item_id(call)
        self._add(item_id, _call(item_id, b"in_progress", call, ""))

    def _arguments(self, call: CallOut, text: str) -> None:
        kind = b"response.custom_tool_call_input.delta" if call.custom else b"response.function_call_arguments.delta"
        self._event(kind, self._place + b',"delta":' + quote(text))

    def _done(self, call: CallOut) -> None:
        if call.custom:
            self._event(b"response.custom_tool_call_input.done", self._place + b',"input":' + quote(call.text))
        else:
            fields = b',"name":%b,"arguments":%b' % (quote(call.name), quote(call.text))
            self._event(b"response.function_call_arguments.done", self._place + fields)
        self._finish_item(_call(self._item_id, b"completed", call, call.text))

    # --- the end --------------------------------------------------------------------------------------------------------------

    def _end(self, finish: Finish) -> None:
        response = self._start()
        reason = self._reason(finish)
        if not self._answered:
            self._open_message()  # clients look for an item to read, an empty list is no answer to them
        self._close(b"incomplete" if reason in _INCOMPLETE else b"completed")
        status, body = response.ended(reason, b",".join(self._items), self._usage(finish))
        self._event(b"response." + status, b'"response":' + body)
        self._out.append(b"data: [DONE]\n\n")

    def _error(self, failed: Failed) -> None:
        # RS10: the hybrid form that every SDK raises on, then the one that Codex shows. No [DONE] behind it (E8).
        response = self._start()
        error = openai_error(failed)
        flat = json_values.dumps_bytes({"code": error["code"], "message": error["message"], "param": error["param"], "error": error})
        self._event(b"error", flat[1:-1])
        told = json_values.dumps_bytes({"code": responses_failure_code(failed), "message": error["message"]})
        self._event(b"response.failed", b'"response":' + response.write(b"failed", b",".join(self._items), error=told))


class ResponsesBody(BodyWriter):
    """A response in one body."""

    _namespaces = True

    def _body(self, finish: Finish) -> bytes:
        reason = self._reason(finish)
        parts = self._parts
        if all(isinstance(part, TextPart) and part.reasoning for part in parts):
            parts = [*parts, TextPart(reasoning=False)]  # as in the stream: an empty list is no answer
        items: list[bytes] = []
        for at, part in enumerate(parts):
            status = b"incomplete" if at + 1 == len(parts) and reason in _INCOMPLETE else b"completed"
            if isinstance(part, CallOut):
                part.id = ids.mint(ids.CALL)
                items.append(_call(_call_item_id(part), status, part, part.text))
            elif part.reasoning:
                items.append(_reasoning(ids.mint(ids.REASONING).encode(), status, _summary(quote(part.text))))
            else:
                items.append(_message(ids.mint(ids.MESSAGE).encode(), status, _output_text(quote(part.text))))
        _, body = _Response(self._turn, self._created).ended(reason, b",".join(items), self._usage(finish))
        return body

    def _error(self, failed: Failed) -> None:
        self._out.append(json_values.dumps_bytes({"error": openai_error(failed)}))


# --- items, RN04 ------------------------------------------------------------------------------------------------------------------


def _message(item_id: bytes, status: bytes, content: bytes) -> bytes:
    return b'{"type":"message","id":"%b","status":"%b","role":"assistant","content":[%b]}' % (item_id, status, content)


def _output_text(text: bytes) -> bytes:
    return b'{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}' % text


def _reasoning(item_id: bytes, status: bytes, summary: bytes) -> bytes:
    return b'{"type":"reasoning","id":"%b","status":"%b","summary":[%b]}' % (item_id, status, summary)


def _summary(text: bytes) -> bytes:
    return b'{"type":"summary_text","text":%b}' % text


def _call_item_id(call: CallOut) -> bytes:
    return ids.mint(ids.CUSTOM_CALL if call.custom else ids.FUNCTION_CALL).encode()


def _call(item_id: bytes, status: bytes, call: CallOut, text: str) -> bytes:
    kind, field = (b"custom_tool_call", b"input") if call.custom else (b"function_call", b"arguments")
    namespace = b',"namespace":' + quote(call.namespace) if call.namespace is not None else b""
    return b'{"type":"%b","id":"%b","status":"%b","call_id":"%b","name":%b,"%b":%b%b}' % (
        kind,
        item_id,
        status,
        call.id.encode(),
        quote(call.name),
        field,
        quote(text),
        namespace,
    )


def _usage(usage: Usage) -> bytes:
    """All details are there, always: strict clients need them (X40)."""
    return (
        b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
        b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
    ) % (
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.input_tokens + usage.output_tokens,
    )

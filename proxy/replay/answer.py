"""The bytes a client got, put together as a client does: text, thoughts, calls, why it ended. Ids and times are left out: every answer has its own.

In: the protocol and the bytes of a stream, a whole body or an error. Out: an Answer. Never raises: what is not understood becomes `unread`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pipeline import json_values
from pipeline.protocols.sse import SseReader
from pipeline.verdicts import Api


class Call(msgspec.Struct):
    """A call as it came, arguments as text."""

    name: str = ""
    arguments: str = ""


class Answer(msgspec.Struct):
    """What a client ends up with. `error` is the message of an error, `unread` counts events that were not understood."""

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = []
    finish: str | None = None
    error: str | None = None
    unread: int = 0


def answer_of(api: Api, raw: bytes) -> Answer:
    """Put an answer together, streamed or not."""
    found = Answer()
    if raw.lstrip()[:1] == b"{":
        _take(_WHOLE[api], raw, found)
        return found
    reader = SseReader()
    for _, data in [*reader.feed(raw), *reader.close()]:
        if data != b"[DONE]":
            _take(_STREAMED[api], data, found)
    return found


def _take(read: Callable[[dict[str, Any], Answer], None], data: bytes, found: Answer) -> None:
    try:
        value: Any = json_values.loads(data)
        error = value.get("error")
        if isinstance(error, dict):
            found.error = str(error.get("message"))
        else:
            read(value, found)
    except (json_values.NotJsonError, AttributeError, KeyError, IndexError, TypeError, ValueError):
        found.unread += 1


def _chat(value: dict[str, Any], found: Answer) -> None:
    for choice in value.get("choices", ()):
        delta = choice.get("delta") or choice.get("message") or {}
        found.text += delta.get("content") or ""
        found.reasoning += delta.get("reasoning_content") or ""
        legacy = delta.get("function_call")
        for at, call in enumerate([*(delta.get("tool_calls") or ()), *([{"function": legacy}] if legacy else ())]):
            spoken = call.get("function") or call.get("custom") or {}
            one = _call(found, call.get("index", at))
            one.name += spoken.get("name") or ""
            one.arguments += spoken.get("arguments") or spoken.get("input") or ""
        found.finish = choice.get("finish_reason") or found.finish


def _call(found: Answer, index: int) -> Call:
    while len(found.calls) <= index:
        found.calls.append(Call())
    return found.calls[index]


def _messages_whole(value: dict[str, Any], found: Answer) -> None:
    for block in value.get("content", ()):
        _messages_block(block, found)
        if block["type"] == "tool_use":
            found.calls[-1].arguments = json_values.dumps(block.get("input"))
    found.finish = value.get("stop_reason")


def _messages_block(block: dict[str, Any], found: Answer) -> None:
    found.text += block.get("text") or ""
    found.reasoning += block.get("thinking") or ""
    if block["type"] == "tool_use":
        found.calls.append(Call(block.get("name") or ""))


def _messages(value: dict[str, Any], found: Answer) -> None:
    if value["type"] == "content_block_start":
        _messages_block(value["content_block"], found)
    elif value["type"] == "content_block_delta":
        delta = value["delta"]
        found.text += delta.get("text") or ""
        found.reasoning += delta.get("thinking") or ""
        if delta["type"] == "input_json_delta":
            found.calls[-1].arguments += delta.get("partial_json") or ""
    elif value["type"] == "message_delta":
        found.finish = value["delta"].get("stop_reason")


def _responses_whole(value: dict[str, Any], found: Answer) -> None:
    for item in value.get("output", ()):
        if item["type"] in ("function_call", "custom_tool_call"):
            found.calls.append(Call(item.get("name") or "", item.get("arguments") or item.get("input") or ""))
        for part in (*(item.get("content") or ()), *(item.get("summary") or ())):
            if item["type"] == "reasoning":
                found.reasoning += part.get("text") or ""
            else:
                found.text += part.get("text") or part.get("refusal") or ""
    found.finish = (value.get("incomplete_details") or {}).get("reason") or value.get("status")


def _responses(value: dict[str, Any], found: Answer) -> None:
    if value["type"] in ("response.completed", "response.incomplete"):
        _responses_whole(value["response"], found)
    elif value["type"] == "response.failed":
        found.error = str(((value["response"].get("error")) or {}).get("message"))
    elif value["type"] == "error":
        found.error = str(value.get("message"))


_STREAMED = {Api.OPENAI_CHAT: _chat, Api.ANTHROPIC_MESSAGES: _messages, Api.OPENAI_RESPONSES: _responses}
_WHOLE = {Api.OPENAI_CHAT: _chat, Api.ANTHROPIC_MESSAGES: _messages_whole, Api.OPENAI_RESPONSES: _responses_whole}

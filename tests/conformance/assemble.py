"""What a client puts together from a stream, and the same reading of a whole body, so that the two can be compared (E5).

In: raw bytes. Out: an `Answer`. Ids are left out, since every answer has its own; empty text blocks too, since only silence makes them (E7).
"""

from __future__ import annotations

import json
from typing import NamedTuple

from tests.conformance.grammar import events


class Answer(NamedTuple):
    """`parts` in the order they stand in, neighbours of one kind joined only where the protocol has no parts at all (Chat)."""

    parts: tuple[tuple[str, ...], ...]
    finish: object
    usage: object

    @property
    def text(self) -> str:
        return "".join(part[1] for part in self.parts if part[0] == "text")

    @property
    def calls(self) -> list[tuple[str, ...]]:
        return [part for part in self.parts if part[0] not in ("text", "reasoning")]


def _objects(raw: bytes) -> list[dict]:
    return [json.loads(data) for _, data in events(raw)[0] if data != "[DONE]"]


def chat_stream(raw: bytes) -> Answer:
    content: str | None = None
    reasoning = ""
    calls: list[list[str]] = []
    finish = usage = None
    for chunk in _objects(raw):
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if delta.get("content") is not None:
                content = (content or "") + delta["content"]
            reasoning += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", ()):
                if "type" in call:
                    calls.append([call["type"], call[call["type"]]["name"], ""])
                kind = calls[call["index"]][0]
                calls[call["index"]][2] += call[kind]["input" if kind == "custom" else "arguments"]
            if "function_call" in delta:
                if "name" in delta["function_call"]:
                    calls.append(["function_call", delta["function_call"]["name"], ""])
                calls[0][2] += delta["function_call"]["arguments"]
            finish = choice["finish_reason"] or finish
    return _chat(content, reasoning, calls, finish, usage)


def chat_body(raw: bytes) -> Answer:
    body = json.loads(raw)
    choice = body["choices"][0]
    message = choice["message"]
    calls = [
        [call["type"], call[call["type"]]["name"], call[call["type"]]["input" if call["type"] == "custom" else "arguments"]]
        for call in message.get("tool_calls", ())
    ]
    if "function_call" in message:
        calls = [["function_call", message["function_call"]["name"], message["function_call"]["arguments"]]]
    return _chat(message["content"], message.get("reasoning_content", ""), calls, choice["finish_reason"], body["usage"])


def _chat(content: str | None, reasoning: str, calls: list[list[str]], finish: object, usage: object) -> Answer:
    parts: list[tuple[str, ...]] = [("reasoning", reasoning)] if reasoning else []
    if content is not None:
        parts.append(("text", content))
    return Answer((*parts, *map(tuple, calls)), finish, usage)


def messages_stream(raw: bytes) -> Answer:
    blocks: list[dict] = []
    finish = usage = None
    for event in _objects(raw):
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "said": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]]["said"] += delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
        elif event["type"] == "message_delta":
            finish = (event["delta"]["stop_reason"], event["delta"]["stop_sequence"])
            usage = event["usage"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["said"])
        else:
            block["text" if block["type"] == "text" else "thinking"] = block["said"]
    return Answer(_blocks(blocks), finish, usage)


def messages_body(raw: bytes) -> Answer:
    body = json.loads(raw)
    return Answer(_blocks(body["content"]), (body["stop_reason"], body["stop_sequence"]), body["usage"])


def _blocks(blocks: list[dict]) -> tuple[tuple[str, ...], ...]:
    parts: list[tuple[str, ...]] = []
    for block in blocks:
        if block["type"] == "tool_use":
            parts.append(("function", block["name"], json.dumps(block["input"])))
        elif block["type"] == "thinking":
            parts.append(("reasoning", block["thinking"]))
        elif block["text"]:
            parts.append(("text", block["text"]))
    return tuple(parts)


def responses_stream(raw: bytes) -> Answer:
    items = []
    response: dict = {}
    for event in _objects(raw):
        if event["type"] == "response.output_item.done":
            items.append(event["item"])
        response = event.get("response", response)
    return _response(items, response)


def responses_body(raw: bytes) -> Answer:
    body = json.loads(raw)
    return _response(body["output"], body)


def _response(items: list[dict], response: dict) -> Answer:
    parts: list[tuple[str, ...]] = []
    for item in items:
        if item["type"] == "message":
            parts.append(("text", "".join(part["text"] for part in item["content"]), item["status"]))
        elif item["type"] == "reasoning":
            parts.append(("reasoning", "".join(part["text"] for part in item["summary"]), item["status"]))
        else:
            text = item["input"] if item["type"] == "custom_tool_call" else item["arguments"]
            parts.append((item["type"], item.get("namespace", ""), item["name"], text, item["status"]))
    return Answer(tuple(parts), (response["status"], response["incomplete_details"]), response["usage"])

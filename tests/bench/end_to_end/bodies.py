"""Requests and answers of the bench: the same bytes for every target."""

from __future__ import annotations

import json
from typing import Any

WORDS = [
    "river",
    "lantern",
    "copper",
    "meadow",
    "signal",
    "orbit",
    "violet",
    "timber",
    "harbor",
    "saffron",
    "glacier",
    "pocket",
    "marble",
    "thunder",
    "willow",
    "canyon",
    "ember",
    "falcon",
    "quartz",
    "drift",
]
OPENING = "The parcel left Vigo "


def text(chars: int, seed: int = 0) -> str:
    """So many characters of words."""
    found: list[str] = []
    size, at = 0, seed
    while size < chars:
        word = WORDS[(at * 7 + 3) % len(WORDS)]
        found.append(word)
        size, at = size + len(word) + 1, at + 1
    return " ".join(found)[:chars]


def _tool(at: int) -> dict[str, Any]:
    shelf = {"type": "string", "description": text(80, at)}
    mode = {"type": "string", "enum": ["scan", "move", "hold"]}
    properties = {"shelf": shelf, "count": {"type": "integer", "minimum": 0}, "mode": mode}
    schema = {"type": "object", "required": ["shelf"], "properties": properties}
    return {"type": "function", "function": {"name": f"warehouse_op_{at}", "description": text(220, at), "parameters": schema}}


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def small(model: str, *, stream: bool, tools: bool) -> bytes:
    """About 1 KB, and 1.5 KB of two tools where tools are offered."""
    said = [
        {"role": "system", "content": f"You answer questions about parcel tracking. {text(450)}"},
        {"role": "user", "content": f"Where is parcel 4711 now? {text(450, 5)}"},
    ]
    offered = {"tools": [_tool(0), _tool(1)]} if tools else {}
    return _dump({"model": model, "messages": said, "temperature": 0.2, "stream": stream, **offered})


def agent(model: str, *, stream: bool, tools: bool) -> bytes:
    """About 104 KB: 20 tools and 30 rounds of history with calls. Without tools, as much text."""
    said: list[dict[str, Any]] = [{"role": "system", "content": text(4000)}]
    for at in range(30):
        said.append({"role": "user", "content": text(200, at)})
        if tools:
            function = {"name": f"warehouse_op_{at % 20}", "arguments": json.dumps({"shelf": f"B{at}", "count": at})}
            said.append(
                {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{at:04d}", "type": "function", "function": function}]}
            )
            said.append({"role": "tool", "tool_call_id": f"call_{at:04d}", "content": text(2500, at)})
        else:
            said.append({"role": "assistant", "content": text(3000, at)})
    offered = {"tools": [_tool(at) for at in range(20)]} if tools else {}
    return _dump({"model": model, "messages": said, "stream": stream, **offered})


def chat_answer(size: int = 2048) -> bytes:
    """A whole answer of about so many bytes."""
    usage = {"prompt_tokens": 240, "completion_tokens": 380, "total_tokens": 620}
    choice = {"index": 0, "message": {"role": "assistant", "content": OPENING + text(size - 330)}, "finish_reason": "stop"}
    head = {"id": "chatcmpl-bench0001", "object": "chat.completion", "created": 1760000000, "model": "fast"}
    return _dump({**head, "choices": [choice], "usage": usage})


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-bench0001", "object": "chat.completion.chunk", "created": 1760000000, "model": "fast"}
    return b"data: " + _dump({**head, "choices": [choice]}) + b"\n\n"


FIRST = chunk({"role": "assistant", "content": ""})
LAST = chunk({}, "stop") + b"data: [DONE]\n\n"

"""Turns that go on as they came: nothing to emulate, the upstream's own protocol.

In: a prepared turn. Out: whether it passes, its bytes, and the token counts found in the tail of the answer. The body's bytes are
the client's own; only a route that rewrites the model name makes them anew.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from pipeline import json_values
from pipeline.settings import UpstreamTraits
from pipeline.turn import Turn, Usage
from pipeline.upstream.takes import takes_fields, takes_messages
from pipeline.verdicts import Api, Mode

_TAIL = 16 << 10
_USAGE = re.compile(rb'"usage"\s*:\s*(\{(?:[^{}]|\{[^{}]*\})*\})')


_TOOL_FIELDS = frozenset({"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"})
_TOOL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})


def can_pass(turn: Turn, target: UpstreamTraits, mode: Mode = Mode.EMULATE) -> bool:
    """Whether this turn needs nothing from us: no tools, no tool history, and the protocol that the upstream speaks.

    A body with tool fields never passes, wherever they stand and even where nothing was left of its tools and calls: a plain chat API would
    refuse it. Nor does a body that holds what the upstream's flags say it does not take (U12): as it came, it would be refused there.
    """
    if not turn.raw or turn.api is not target.protocol or turn.emulation is not None:
        return False
    if turn.tools or turn.has_tool_history or not _TOOL_FIELDS.isdisjoint(turn.body):
        return False
    if mode is Mode.EMULATE and "mcp_servers" in turn.body:
        return False
    return _without_calls(turn.body, plain=mode is Mode.EMULATE) and takes_fields(turn.body, target) and takes_messages(turn, target)


def _without_calls(body: Mapping[str, object], *, plain: bool) -> bool:
    """Whether no message has a field or block of a call or result, readable or not; for a `plain` API, nor one that a server ran."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        if not _TOOL_KEYS.isdisjoint(message):
            return False
        content = message.get("content")
        if isinstance(content, list) and any(_of_a_tool(block, plain=plain) for block in content):
            return False
    return True


def _of_a_tool(block: object, *, plain: bool) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and (kind in _TOOL_BLOCKS or (plain and kind.endswith(("_tool_use", "_tool_result"))))


def passed_body(turn: Turn) -> bytes:
    """The client's bytes, with the model name rewritten where the route says so."""
    if turn.upstream_model and turn.upstream_model != turn.model:
        return json_values.dumps_bytes({**turn.body, "model": turn.upstream_model})
    return turn.raw


def passed_path(turn: Turn) -> str:
    """The upstream path of a request that goes on as it came."""
    return {Api.OPENAI_CHAT: "/chat/completions", Api.ANTHROPIC_MESSAGES: "/messages", Api.OPENAI_RESPONSES: "/responses"}[turn.api]


def passed_headers(turn: Turn) -> tuple[tuple[str, str], ...]:
    """The client's own protocol headers, for an upstream that speaks the same protocol."""
    if turn.api is not Api.ANTHROPIC_MESSAGES:
        return ()
    return tuple((name, turn.headers[name]) for name in ("anthropic-version", "anthropic-beta") if name in turn.headers)


class UsageTail:
    """Keeps the end of an answer and finds the usage in it, once, when it is over. Bounded memory, no parsing on the way."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        """Begin empty."""
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Keep what may still hold the usage."""
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= _TAIL:
            self._size -= len(self._pieces.popleft())

    def usage(self, api: Api) -> Usage | None:
        """The last usage object in the tail, or None."""
        found = _USAGE.findall(b"".join(self._pieces)[-_TAIL:])
        if not found:
            return None
        try:
            usage = json_values.loads(found[-1])
        except json_values.NotJsonError:
            return None
        if not isinstance(usage, dict):
            return None
        names = ("prompt_tokens", "completion_tokens") if api is Api.OPENAI_CHAT else ("input_tokens", "output_tokens")
        read, written = (usage.get(name) for name in names)
        return Usage(
            input_tokens=read if isinstance(read, int) else 0,
            output_tokens=written if isinstance(written, int) else 0,
        )

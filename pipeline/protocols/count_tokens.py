"""The input tokens of a turn, estimated: system, messages and tools (AR15, X42).

In: a turn as normalize left it, or later. Out: a count. The tools count once: as they came, or, where the messages hold the contract that spells
them out, with those messages. So a contract that stands elsewhere is added by whoever put it there.
"""

from __future__ import annotations

from pipeline.protocols.placeholders import json_text
from pipeline.text.tokens import estimate
from pipeline.turn import Call, Part, Result, Text, Tool, Turn

# What a role, a call or a tool costs beside its text, and a picture or file whose size nobody looked at.
_FRAME_TOKENS = 4
_MEDIA_TOKENS = 1000


def count(turn: Turn) -> int:
    """Estimate the turn's input tokens; at least 1. Never raises."""
    total = sum(_FRAME_TOKENS + sum(map(_part, message.parts)) for message in turn.messages)
    if turn.emulation is None or not turn.emulation.injected:
        total += sum(map(_tool, turn.tools))
    return max(1, total)


def _part(part: Part) -> int:
    if isinstance(part, Text):
        return estimate(part.text)
    if isinstance(part, Call):
        raw = part.arguments.raw
        return _FRAME_TOKENS + estimate(part.name) + estimate(raw if isinstance(raw, str) else json_text(raw))
    if isinstance(part, Result):
        return _FRAME_TOKENS + sum(map(_part, part.content))
    return _MEDIA_TOKENS


def _tool(tool: Tool) -> int:
    return _FRAME_TOKENS + estimate(tool.name) + estimate(tool.description) + estimate(json_text(tool.parameters))

"""A turn then and now, side by side: the facts of its canonical line, the answer its client put together, what was asked upstream.

In: a capture and its replay. Out: a Comparison, plain values, ready for JSON. Times and token counts are no facts here: they are not replayed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from proxy.replay.answer import Answer, answer_of
from proxy.replay.captured import Captured
from proxy.replay.run import Replayed
from proxy.telemetry.capture import bytes_of

FACTS = (
    "verdict",
    "status",
    "error_kind",
    "finish",
    "passed_through",
    "emulated",
    "emulation_reason",
    "dialect",
    "tier",
    "contract_bytes",
    "tools_offered",
    "tools_rebuilt",
    "tool_choice",
    "history",
    "state",
    "history_repairs",
    "attempts",
    "causes",
    "attempt_verdicts",
    "retry_skipped",
    "refusal",
    "refusal_kind",
    "blocks",
    "repairs",
    "calls",
    "native_calls",
    "text_chars",
    "warnings",
)


class Change(msgspec.Struct, frozen=True):
    """One thing that differs."""

    what: str
    then: Any
    now: Any


class Comparison(msgspec.Struct):
    """What changed. `prompts` are attempts whose upstream request differs today: the captured answer then answers another prompt."""

    rid: str
    same: bool
    facts: list[Change]
    answer: list[Change]
    prompts: list[int]
    unanswered: list[int]
    truncated: bool
    verdict: str
    then: Answer
    now: Answer


def compare(captured: Captured, replayed: Replayed) -> Comparison:
    """Put the two side by side."""
    new = msgspec.to_builtins(replayed.turn)
    facts = [Change(name, captured.turn.get(name), new.get(name)) for name in FACTS if captured.turn.get(name) != new.get(name)]
    api = captured.request.api
    then, now = answer_of(api, captured.client_bytes), answer_of(api, replayed.client)
    answer = [
        Change(name, was, is_now)
        for name in ("text", "reasoning", "calls", "finish", "error")
        if (was := msgspec.to_builtins(getattr(then, name))) != (is_now := msgspec.to_builtins(getattr(now, name)))
    ]
    prompts = [one.number for one in captured.attempts if replayed.requests.get(one.number, bytes_of(one.request)) != bytes_of(one.request)]
    return Comparison(
        rid=captured.rid,
        same=not facts and not answer,
        facts=facts,
        answer=answer,
        prompts=prompts,
        unanswered=replayed.unanswered,
        truncated=captured.truncated,
        verdict=str(new.get("verdict")),
        then=then,
        now=now,
    )

"""A turn then and now, side by side: the facts of its canonical line, the answer its client put together, what was asked upstream.

In: a capture and its replay. Out: a Comparison, plain values, ready for JSON. Times and token counts are no facts here: they are not replayed.
Nor is what came from outside: a turn that its client or the end of the process cut short has no whole to be compared with, nor has a capture that
was cut at its bound. Such a turn is neither the same nor changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pipeline.verdicts import ErrorKind, Verdict
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
    """What changed. `same` is None where the two cannot be compared, and `not_compared` says why. `prompts` are attempts whose upstream request differs today: the captured answer then answers another prompt."""

    rid: str
    same: bool | None
    not_compared: str | None
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
    why = _not_comparable(captured)
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
        same=None if why else not facts and not answer,
        not_compared=why,
        facts=[] if why else facts,
        answer=[] if why else answer,
        prompts=prompts,
        unanswered=replayed.unanswered,
        truncated=captured.truncated,
        verdict=str(new.get("verdict")),
        then=then,
        now=now,
    )


def _not_comparable(captured: Captured) -> str | None:
    turn = captured.turn
    if turn.get("verdict") == Verdict.CLIENT_GONE:  # one that leaves later, or whose answer we cut, has changed nothing
        return "client_gone"
    if turn.get("error_kind") == ErrorKind.SHUTTING_DOWN:
        return "shutting_down"
    return "truncated" if captured.truncated else None

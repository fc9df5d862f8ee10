"""A whole text through the sieve: the offline result (S15), made from the streamed one.

In: a text, or the pieces that it came in. Out: a Reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.dialects.dialect import Dialect
from pipeline.dialects.options import ParserOptions
from pipeline.events import (
    BlockSeen,
    CallDone,
    Event,
    ReasoningDelta,
    TextDelta,
)
from pipeline.sieve.sieve import Sieve
from pipeline.verdicts import BlockOutcome, FinishReason


class Reading(NamedTuple):
    """The offline result (S15)."""

    events: list[Event]
    text: str
    reasoning: str
    calls: list[CallDone]
    blocks: list[BlockSeen]
    saw_tool_call_syntax: bool
    rejected_by_policy: bool
    rejected_tool_names: list[str]


def parse(
    text: str,
    dialects: Sequence[Dialect],
    options: ParserOptions,
    *,
    finish: FinishReason | None = FinishReason.STOP,
    pieces: Sequence[str] | None = None,
    unescape: bool = False,
) -> Reading:
    """Read a whole text, or the pieces that it came in; the streamed form is this one."""
    sieve = Sieve(dialects, options, unescape=unescape)
    events: list[Event] = []
    for piece in [text] if pieces is None else pieces:
        events += sieve.feed(piece)
    events += sieve.close(finish)
    blocks = [event for event in events if isinstance(event, BlockSeen)]
    return Reading(
        events=events,
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        reasoning="".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        calls=[event for event in events if isinstance(event, CallDone)],
        blocks=blocks,
        saw_tool_call_syntax=bool(blocks),
        rejected_by_policy=False,
        rejected_tool_names=[name for block in blocks if block.outcome is BlockOutcome.UNKNOWN_TOOL for name in block.names],
    )

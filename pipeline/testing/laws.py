"""What must hold for every run of a sieve, as plain checks without any test framework.

In: the text that was fed and the events that came out. Out: nothing, or a `LawBrokenError` that says which law broke and where.
Promise: the checks know the events (`pipeline/events.py`) and SPEC section 5 alone, nothing of how a sieve works, so that the
conformance kit, the property tests, the fuzzer and the benches all judge by the same words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from pipeline import json_values
from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, Dropped, Event, ReasoningDelta, TextDelta
from pipeline.verdicts import FinishReason, SpanKind

_DROPPED_KINDS = (SpanKind.TRIMMED, SpanKind.SWALLOWED, SpanKind.CUT)
_SHOWN = 60


class LawBrokenError(AssertionError):
    """A law does not hold; the message names it and the place."""


class Feedable(Protocol):
    """A sieve as the laws see it."""

    def feed(self, text: str) -> list[Event]:
        """Take a piece of visible text, return what it decided."""

    def close(self, reason: FinishReason | None) -> list[Event]:
        """The text ended (None: it was cut off); return everything still held."""


class Told(NamedTuple):
    """One run, independent of its cuts: neighbouring deltas joined; `blocks` apart, since they stand beside the text, not in it."""

    content: tuple[Event, ...]
    blocks: tuple[BlockSeen, ...]

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(event.text for event in self.content if isinstance(event, TextDelta))

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """Name and canonical arguments of every complete call, in order."""
        return tuple((event.name, canonical(event.arguments)) for event in self.content if isinstance(event, CallDone))


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of `size` characters, the last one shorter."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def split_at(text: str, cuts: Iterable[int]) -> list[str]:
    """The text cut at these offsets, in any order; equal or outer offsets give empty pieces, which a stream may bring too."""
    marks = [0, *sorted(min(max(cut, 0), len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(marks)]


def run(sieve: Feedable, parts: Iterable[str], reason: FinishReason | None = FinishReason.STOP) -> list[Event]:
    """Feed all parts, then close. One list of everything that came out."""
    events: list[Event] = []
    for part in parts:
        events += sieve.feed(part)
    events += sieve.close(reason)
    return events


def told(events: Sequence[Event]) -> Told:
    """Join what cutting may divide: deltas of one kind whose spans touch."""
    content: list[Event] = []
    blocks: list[BlockSeen] = []
    for event in events:
        if isinstance(event, BlockSeen):
            blocks.append(event)
            continue
        merged = _merge(content[-1], event) if content else None
        if merged is None:
            content.append(event)
        else:
            content[-1] = merged
    return Told(tuple(content), tuple(blocks))


def _merge(left: Event, right: Event) -> Event | None:
    if isinstance(left, TextDelta) and isinstance(right, TextDelta) and left.span[1] == right.span[0]:
        return TextDelta(left.text + right.text, (left.span[0], right.span[1]))
    if isinstance(left, ReasoningDelta) and isinstance(right, ReasoningDelta) and left.span[1] == right.span[0]:
        return ReasoningDelta(left.text + right.text, (left.span[0], right.span[1]))
    if isinstance(left, Dropped) and isinstance(right, Dropped) and left.kind is right.kind and left.span[1] == right.span[0]:
        return Dropped(left.kind, (left.span[0], right.span[1]))
    if isinstance(left, ArgumentsDelta) and isinstance(right, ArgumentsDelta) and left.index == right.index:
        return ArgumentsDelta(left.index, left.text + right.text, (left.span[0], right.span[1]))
    return None


def canonical(arguments: str) -> str:
    """JSON text of the same value in one fixed spelling: 1, 1.0 and true stay apart, the order of keys does not count."""
    return json.dumps(json_values.loads(arguments), sort_keys=True, ensure_ascii=False)


def released(events: Sequence[Event]) -> int:
    """How many characters of the input these events account for."""
    return max((event.span[1] for event in events if isinstance(event, TextDelta | ReasoningDelta | CallDone | Dropped)), default=0)


def check_spans(text: str, events: Sequence[Event], *, shown: Callable[[str], str] | None = None) -> None:
    """The spans, in the order of the events, cut the text without gap or overlap, and text is the input byte for byte.

    `shown` maps input to visible text where the sieve undoes echo escapes (C10). A call that was committed early (E4) counts
    from its `CallBegun` to its `CallDone`.
    """
    at = 0
    for event in told(events).content:
        if isinstance(event, CallBegun | ArgumentsDelta):
            _expect(event.span[0] >= at, "spans: an early call overlaps what came before", text, at)
            continue
        if not isinstance(event, TextDelta | ReasoningDelta | CallDone | Dropped):
            raise LawBrokenError(f"events: a sieve makes no {type(event).__name__}")
        start, end = event.span
        _expect(start == at, f"spans: {type(event).__name__} starts at {start}, expected {at}", text, at)
        _expect(end > start, f"spans: {type(event).__name__} is empty", text, at)
        _expect(end <= len(text), f"spans: {type(event).__name__} ends at {end}, behind the input", text, at)
        raw = text[start:end]
        if isinstance(event, TextDelta):
            _expect(event.text == (shown(raw) if shown else raw), "text: not the input byte for byte", text, start)
        elif isinstance(event, ReasoningDelta):
            _expect(event.text in raw, "reasoning: not part of the input", text, start)
        elif isinstance(event, Dropped):
            _expect(event.kind in _DROPPED_KINDS, f"dropped: {event.kind} is nothing to drop", text, start)
            _expect(event.kind is not SpanKind.TRIMMED or raw.isspace(), "trimmed: more than white space", text, start)
        at = end
    _expect(at == len(text), f"spans: end at {at}, the input at {len(text)}: close() kept something", text, at)


def check_calls(events: Sequence[Event]) -> None:
    """Calls are numbered from 0 without a gap, carry a name and the JSON text of an object, and deltas add up to it."""
    index = 0
    parts: dict[int, str] = {}
    begun: dict[int, str] = {}
    for event in events:
        if isinstance(event, CallBegun):
            begun[event.index] = event.name
            parts[event.index] = ""
        elif isinstance(event, ArgumentsDelta):
            if event.index not in parts:
                raise LawBrokenError(f"calls: arguments for {event.index}, which was not begun")
            parts[event.index] += event.text
        elif isinstance(event, CallDone):
            if event.index != index:
                raise LawBrokenError(f"calls: index {event.index}, expected {index}")
            if not event.name.strip():
                raise LawBrokenError("calls: an empty name")
            if not isinstance(json_values.loads(event.arguments), dict):
                raise LawBrokenError("calls: arguments are no object")
            if event.index in begun and (begun[event.index], parts[event.index]) != (event.name, event.arguments):
                raise LawBrokenError("calls: the deltas do not add up to the call")
            index += 1


def check_blocks(text: str, events: Sequence[Event]) -> None:
    """Blocks lie inside the input, come in order, and a block that holds a call's span holds it whole."""
    last = 0
    calls = [event.span for event in events if isinstance(event, CallDone)]
    for event in events:
        if isinstance(event, BlockSeen):
            start, end = event.span
            _expect(0 <= start < end <= len(text), f"blocks: span {event.span} outside the input", text, start)
            _expect(start >= last, f"blocks: {event.span} starts before the one before it", text, start)
            last = start
            for left, right in calls:
                crosses = left < start < right or left < end < right
                _expect(not crosses, f"blocks: {event.span} cuts through the call {(left, right)}", text, start)


def check_same(text: str, one: Sequence[Event], other: Sequence[Event], how: str = "") -> None:
    """Two runs over the same text told the same, however it was cut."""
    left, right = told(one), told(other)
    for mine, theirs in zip(left.content + left.blocks, right.content + right.blocks, strict=False):
        if mine != theirs:
            raise LawBrokenError(f"cuts: {how}\n  {mine!r}\n  {theirs!r}\n  input {text!r}")
    if left != right:
        longer = max(left, right, key=lambda it: len(it.content) + len(it.blocks))
        raise LawBrokenError(f"cuts: {how}: one run tells more: {longer!r}\n  input {text!r}")


def check_run(text: str, events: Sequence[Event], *, shown: Callable[[str], str] | None = None) -> None:
    """All laws that concern one run."""
    check_spans(text, events, shown=shown)
    check_calls(events)
    check_blocks(text, events)


def _expect(holds: bool, law: str, text: str, at: int) -> None:
    if not holds:
        raise LawBrokenError(f"{law}\n  near {text[max(0, at - _SHOWN) : at]!r} | {text[at : at + _SHOWN]!r}\n  input {text[:2000]!r}")

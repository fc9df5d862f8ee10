"""Driving an upstream reader from a test: bytes in pieces, events gathered into what a person would say came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, End, Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Turn
from pipeline.verdicts import Api, Noted


@dataclass
class Gathered:
    """What one answer came to."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    blocks: list[BlockSeen] = field(default_factory=list)
    live: list[tuple[str, str]] = field(default_factory=list)
    end: End | None = None
    skipped: int = 0
    kinds: list[str] = field(default_factory=list)


def gather(events: Iterable[Event]) -> Gathered:
    """Add up events, checking on the way what every stream of events promises."""
    got = Gathered()
    for event in events:
        assert got.end is None, "an event after the End"
        kind = type(event).__name__
        if not got.kinds or got.kinds[-1] != kind:
            got.kinds.append(kind)
        if isinstance(event, TextDelta):
            assert event.text and event.span == (len(got.text), len(got.text) + len(event.text))
            got.text += event.text
        elif isinstance(event, ReasoningDelta):
            assert event.text
            got.reasoning += event.text
        elif isinstance(event, CallBegun):
            assert event.native and event.index == len(got.calls) == len(got.live)
            got.live.append((event.name, ""))
        elif isinstance(event, ArgumentsDelta):
            assert event.index == len(got.live) - 1
            got.live[-1] = (got.live[-1][0], got.live[-1][1] + event.text)
        elif isinstance(event, CallDone):
            assert event.native and event.index == len(got.calls)
            got.calls.append((event.name, event.arguments))
            assert not got.live or got.live[event.index] == got.calls[-1]
        elif isinstance(event, BlockSeen):
            got.blocks.append(event)
        elif isinstance(event, Finish | Failed):
            got.end = event
    return got


def read(
    pieces: Sequence[bytes],
    traits: UpstreamTraits | None = None,
    turn: Turn | None = None,
    settings: Settings | None = None,
    content_type: str = "text/event-stream",
) -> Gathered:
    """Feed the pieces of a body to a reader and close it."""
    notes: list[Noted] = []
    stage = Upstream(settings or Settings())
    reader = stage.read(turn or Turn(Api.OPENAI_CHAT), traits or UpstreamTraits(), content_type, lambda noted, **_: notes.append(noted))
    events: list[Event] = []
    for piece in pieces:
        events += reader.feed(piece)
    events += reader.close()
    assert not reader.finishing
    got = gather(events)
    assert got.end is not None, "no End"
    got.skipped = notes.count(Noted.FRAME_SKIPPED)
    return got

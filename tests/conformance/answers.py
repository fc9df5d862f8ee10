"""Writes one answer both ways, and judges the stream with the grammar on the way.

In: a turn, events, an end. Out: the stream, the body, and what a client makes of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline.events import Event, Failed, Finish
from pipeline.settings import Settings
from pipeline.stage import Encoder
from pipeline.stages.re_encode import ReEncode
from pipeline.turn import ToolKind, Turn
from pipeline.verdicts import Api, Noted
from tests.conformance import assemble, grammar
from tests.conformance.assemble import Answer

_STREAMS = {
    Api.OPENAI_CHAT: assemble.chat_stream,
    Api.ANTHROPIC_MESSAGES: assemble.messages_stream,
    Api.OPENAI_RESPONSES: assemble.responses_stream,
}
_BODIES = {
    Api.OPENAI_CHAT: assemble.chat_body,
    Api.ANTHROPIC_MESSAGES: assemble.messages_body,
    Api.OPENAI_RESPONSES: assemble.responses_body,
}


class Notes:
    """A note callable that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Noted, dict[str, object]]] = []

    def __call__(self, outcome: Noted, **fields: object) -> None:
        self.told.append((outcome, fields))


def encoder(turn: Turn, settings: Settings | None = None, notes: Notes | None = None) -> Encoder:
    return ReEncode(settings or Settings()).encode(turn, notes or Notes())


def violations(turn: Turn, raw: bytes, *, silence: bool = False) -> list[str]:
    """What the grammar finds in a stream of this turn."""
    if turn.api is Api.OPENAI_CHAT:
        custom = [tool.name for tool in turn.tools if tool.kind is ToolKind.CUSTOM]
        return grammar.check_chat(raw, include_usage=turn.include_usage, custom=custom)
    if turn.api is Api.ANTHROPIC_MESSAGES:
        return grammar.check_messages(raw, silence=silence)
    return grammar.check_responses(raw)


def write_stream(
    turn: Turn, groups: Sequence[Sequence[Event]], end: Finish | Failed, settings: Settings | None = None, notes: Notes | None = None
) -> bytes:
    """The stream for events that come in these groups; every write must hold whole events, the grammar must find nothing."""
    one = encoder(msgspec.structs.replace(turn, stream=True), settings, notes)
    writes = [one.feed(group) for group in groups]
    writes.append(one.finish(end) if isinstance(end, Finish) else one.fail(end))
    assert grammar.check_writes(writes) == []
    raw = b"".join(writes)
    assert violations(turn, raw) == []
    return raw


def write_body(turn: Turn, events: Sequence[Event], finish: Finish, settings: Settings | None = None, notes: Notes | None = None) -> bytes:
    """The body for the same events."""
    one = encoder(msgspec.structs.replace(turn, stream=False), settings, notes)
    assert one.feed(events) == b""
    return one.finish(finish)


def both(turn: Turn, events: Sequence[Event], finish: Finish | None = None, settings: Settings | None = None) -> Answer:
    """The answer, which must be the same streamed one event at a time, streamed in one group, and whole (E5)."""
    finish = finish or Finish()
    by_one = read_stream(turn, write_stream(turn, [[event] for event in events], finish, settings))
    at_once = read_stream(turn, write_stream(turn, [events], finish, settings))
    whole = read_body(turn, write_body(turn, events, finish, settings))
    assert by_one == at_once
    if turn.api is Api.OPENAI_CHAT and not turn.include_usage:
        assert by_one.usage is None
        whole = whole._replace(usage=None)
    assert by_one == whole
    return whole


def read_stream(turn: Turn, raw: bytes) -> Answer:
    return _STREAMS[turn.api](raw)


def read_body(turn: Turn, raw: bytes) -> Answer:
    return _BODIES[turn.api](raw)

"""The stage between the upstream's events and the judge: takes the calls out of the text (SPEC section 5).

In: events of one attempt. Out: the same with calls in place of the text that wrote them, and notes of what became of every block.
Promise: native calls and reasoning pass; numbers of calls run through both kinds; nothing is put in the way where the sieve is off.
"""

from __future__ import annotations

import msgspec

from pipeline.dialects.grammar import grammar
from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.events import (
    ArgumentsDelta,
    BlockSeen,
    CallBegun,
    CallDone,
    Dropped,
    End,
    Event,
    Failed,
    Finish,
    TextDelta,
)
from pipeline.settings import Settings
from pipeline.sieve.sieve import Sieve
from pipeline.stage import Note, Receiver
from pipeline.turn import Turn
from pipeline.verdicts import BlockOutcome, FinishReason, Noted, SpanKind


class SieveStage:
    """Puts a sieve into the answer's way where the turn is emulated (or calls may leak into its text)."""

    name = "sieve"
    per_attempt = True

    def __init__(self, settings: Settings) -> None:
        """Decide everything that the route decides. Raises UnknownDialectError."""
        self._dialects = load(tuple(dict.fromkeys((settings.contract, *settings.dialects))))  # what is taught is read (S1)
        self._base = ParserOptions(
            wide=settings.tolerance == "wide",
            stream_arguments=settings.stream_arguments,
            max_block_chars=settings.max_block_bytes,
            max_tag_chars=settings.max_tag_chars,
            unknown_tools=settings.unknown_tools,
        )
        grammar(self._dialects, self._base.wide)  # patterns compile now, not in the first turn

    def prepare(self, turn: Turn, note: Note) -> Turn:  # noqa: ARG002 - the request is none of the sieve's business
        """Change nothing."""
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        """A sieve for one attempt; none where the contract set up no emulation."""
        emulation = turn.emulation
        if emulation is None:
            return None
        choice = turn.tool_choice
        options = msgspec.structs.replace(self._base, tools=emulation.tools, quotes=emulation.quotes)
        if choice.allowed is not None or choice.name is not None:  # a hard filter: a call of anything else stays text (C3)
            allowed = choice.allowed if choice.name is None else (choice.name,)
            tools = tuple(tool for tool in emulation.tools if allowed is None or tool.name in allowed)
            options = msgspec.structs.replace(options, tools=tools, unknown_tools="text")
        return _Receiver(Sieve(self._dialects, options, unescape=emulation.escaped), note)


class _Receiver:
    """Leads one attempt's text through a sieve; calls of the upstream's own and of the text are numbered together."""

    __slots__ = ("_ended", "_indexes", "_note", "_sieve")

    def __init__(self, sieve: Sieve, note: Note) -> None:
        self._sieve = sieve
        self._note = note
        self._indexes: dict[tuple[bool, int], int] = {}
        self._ended = False

    def feed(self, event: Event) -> list[Event]:
        """Text goes through the sieve, everything else passes."""
        if self._ended:
            return []
        if not isinstance(event, TextDelta):
            return [self._numbered(event, native=True)]
        events = self._tell(self._sieve.feed(event.text))
        if self._sieve.cut and not self._ended:
            self._ended = True
            events.append(Finish(FinishReason.TOOL_CALLS))
        return events

    def close(self, end: End) -> list[Event]:
        """What was held, then the end."""
        if self._ended:
            return [end]
        events = self._tell(self._sieve.close(end.reason if isinstance(end, Finish) else None))
        if not self._ended:
            events.append(end)
        self._ended = True
        return events

    def _tell(self, events: list[Event]) -> list[Event]:
        cut = 0
        for at, event in enumerate(events):
            if isinstance(event, TextDelta):
                continue
            if isinstance(event, BlockSeen):
                good = event.outcome in (BlockOutcome.PARSED, BlockOutcome.REPAIRED)
                calls = len(event.names) if good else 0
                self._note(Noted.BLOCK, dialect=event.dialect, outcome=event.outcome, repairs=event.repairs, calls=calls)
            elif isinstance(event, Dropped):
                cut += event.span[1] - event.span[0] if event.kind is SpanKind.CUT else 0
            elif isinstance(event, Failed):
                self._ended = True
                return events[: at + 1]
            else:
                events[at] = self._numbered(event, native=False)
        if cut:
            self._note(Noted.RESULT_CUT, chars=cut)
        return events

    def _numbered(self, event: Event, *, native: bool) -> Event:
        if not isinstance(event, CallBegun | ArgumentsDelta | CallDone):
            return event
        index = self._indexes.setdefault((native, event.index), len(self._indexes))
        return event if index == event.index else msgspec.structs.replace(event, index=index)

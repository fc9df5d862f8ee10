"""Stage: write the answer as the client reads it.

In: events of the attempt that is delivered. Out: the bytes of the client's protocol, streamed or in one body. On the way to the writer the
events pass what the caller asked for: stop sequences on visible text (E10), one call only (R8), text behind the calls (E9); each is left out
where a turn does not need it. What was demanded and cannot be enforced (strict schemas, grammars, formats) is checked and told. Promise: none of this depends on how the text was cut; streamed and not streamed come out the same (E5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.protocols.anthropic_messages.write import MessagesBody, MessagesStream
from pipeline.protocols.demands import Demands, demands_of
from pipeline.protocols.in_order import InOrder
from pipeline.protocols.openai_chat.write import ChatBody, ChatStream
from pipeline.protocols.openai_responses.write import ResponsesBody, ResponsesStream
from pipeline.protocols.writing import BrokenAnswerError, Writer, WriterOptions
from pipeline.settings import Settings
from pipeline.stage import Encoder, Note, Receiver, StageError
from pipeline.text.marker_check import MarkerCheck
from pipeline.text.stop_sequences import StopSequences
from pipeline.turn import Turn
from pipeline.verdicts import Api, FinishReason, Noted

_WRITERS: dict[tuple[Api, bool], type[Writer]] = {
    (Api.OPENAI_CHAT, True): ChatStream,
    (Api.OPENAI_CHAT, False): ChatBody,
    (Api.ANTHROPIC_MESSAGES, True): MessagesStream,
    (Api.ANTHROPIC_MESSAGES, False): MessagesBody,
    (Api.OPENAI_RESPONSES, True): ResponsesStream,
    (Api.OPENAI_RESPONSES, False): ResponsesBody,
}
_OF_A_CALL = (CallBegun, ArgumentsDelta, CallDone)


class ReEncode:
    """The encoding stage."""

    name = "re_encode"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Decide what a route wants once."""
        self._holds_text = settings.text_before_call == "hold"
        self._client_usage = settings.usage == "client"
        self._upstreams_model = settings.answer_model == "upstream"
        keys = settings.reasoning_key
        self._options = WriterOptions(
            silence_block_s=settings.silence_block_s, reasoning_keys=("reasoning_content", "reasoning") if keys == "both" else (keys,)
        )
        self._dialects = settings.dialects

    def prepare(self, turn: Turn, note: Note) -> Turn:  # noqa: ARG002
        """Nothing to shape on the way down."""
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002
        """No receiver: the encoder lives over all attempts."""
        return None

    def encode(self, turn: Turn, note: Note) -> Encoder:
        """Pick the writer, and put before it what this turn needs."""
        emulation = turn.emulation
        options = self._options
        if self._client_usage and emulation is not None:
            options = msgspec.structs.replace(options, unseen_tokens=emulation.contract_bytes // 4)
        if self._upstreams_model and turn.upstream_model:
            turn = msgspec.structs.replace(turn, model=turn.upstream_model)  # CN05
        writer = _WRITERS[turn.api, turn.stream](turn, options)
        shapers: list[_Shaper] = [InOrder()]
        stop = None
        # With tools in play the upstream got no stop strings, some upstreams take none, and few say which of them fired.
        if turn.stop:
            stop = _StopText(turn.stop)
            shapers.append(stop)
        calls = None
        if not turn.parallel_calls or turn.legacy_functions:
            calls = _OneCall("legacy" if turn.legacy_functions else "parallel")
            shapers.append(calls)
        if self._holds_text and (emulation is not None or turn.tools):
            shapers.append(_TextLast())
        markers = MarkerCheck(self._dialects) if emulation is not None else None
        return _Answer(writer, shapers, stop, calls, markers, demands_of(turn), note)


class _Shaper(Protocol):
    """Takes events and gives those that go on, in order; `close` gives what was held back."""

    def feed(self, events: Sequence[Event]) -> Sequence[Event]: ...

    def close(self) -> list[Event]: ...


class _Answer:
    """One turn's encoder: the shapers in order, then the writer. `stopped` tells the engine that nothing more is wanted."""

    def __init__(
        self,
        writer: Writer,
        shapers: list[_Shaper],
        stop: _StopText | None,
        calls: _OneCall | None,
        markers: MarkerCheck | None,
        demands: Demands | None,
        note: Note,
    ) -> None:
        self._writer = writer
        self._shapers = shapers
        self._stop = stop
        self._one_call = calls
        self._markers = markers
        self._demands = demands
        self._begun: set[int] = set()
        self._note = note
        self.content_type = writer.content_type

    @property
    def stopped(self) -> bool:
        return self._stop is not None and self._stop.hit is not None

    @property
    def calls_written(self) -> int:
        return len(self._begun)

    def feed(self, events: Sequence[Event]) -> bytes:
        for shaper in self._shapers:
            events = shaper.feed(events)
        return self._write(events)

    def finish(self, finish: Finish) -> bytes:
        events: Sequence[Event] = ()
        for shaper in self._shapers:
            events = [*shaper.feed(events), *shaper.close()]
        if self._stop is not None and self._stop.hit is not None:
            finish = msgspec.structs.replace(finish, reason=FinishReason.STOP_SEQUENCE, stop_sequence=self._stop.hit)
        try:
            data = self._write(events) + self._writer.finish(finish)
        except BrokenAnswerError as exc:
            raise StageError(exc.failed) from exc
        self._tell(finish)
        return data

    def fail(self, failed: Failed) -> bytes:
        self._tell(None)
        return self._writer.fail(failed)

    def keep_alive(self, silence_s: float) -> bytes:
        return self._writer.keep_alive(silence_s)

    def _write(self, events: Sequence[Event]) -> bytes:
        if self._demands is not None:
            self._demands.look(events)
        for event in events:
            kind = type(event)
            if kind is TextDelta:
                if self._markers is not None:
                    self._markers.feed(event.text)  # type: ignore[union-attr]
            elif kind is CallDone or kind is CallBegun:
                self._begun.add(event.index)  # type: ignore[union-attr]
        return self._writer.feed(events)

    def _tell(self, finish: Finish | None) -> None:
        """Say once, at the end, what became of the answer."""
        if self._stop is not None and self._stop.hit is not None:
            self._note(Noted.STOP_SEQUENCE_HIT, index=self._stop.index)
        if self._one_call is not None and self._one_call.dropped:
            self._note(Noted.CALLS_DROPPED, count=self._one_call.dropped, reason=self._one_call.reason)
        demands, self._demands = self._demands, None
        if demands is not None:
            demands.tell(self._note, finish)
        markers, self._markers = self._markers, None
        if markers is not None and markers.close() is not None:
            self._note(Noted.MARKER_TEXT, dialect=markers.found)
        self._one_call = None


class _StopText:
    """Cuts at the caller's stop sequence. Calls and reasoning are no visible text: a match does not reach across them."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = list(stops)
        self._search = StopSequences(stops)

    @property
    def index(self) -> int:
        """Which of the caller's sequences it was; -1 before a hit."""
        return -1 if self.hit is None else self._stops.index(self.hit)

    @property
    def hit(self) -> str | None:
        return self._search.hit

    def feed(self, events: Sequence[Event]) -> list[Event]:
        out: list[Event] = []
        search = self._search
        for event in events:
            if search.hit is not None:
                break
            if isinstance(event, TextDelta):
                text = search.feed(event.text)
                if text:
                    out.append(event if text == event.text else TextDelta(text, event.span))
            elif isinstance(event, ReasoningDelta | CallBegun | CallDone):
                out += self.close()
                out.append(event)
            else:
                out.append(event)
        return out

    def close(self) -> list[Event]:
        held = self._search.close()
        return [TextDelta(held)] if held else []


class _OneCall:
    """Lets the first call through and counts the others (R8)."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.dropped = 0
        self._first: int | None = None
        self._done = False

    def feed(self, events: Sequence[Event]) -> Sequence[Event]:
        return [event for event in events if not isinstance(event, _OF_A_CALL) or self._passes(event)]

    def _passes(self, event: CallBegun | ArgumentsDelta | CallDone) -> bool:
        if self._first is None and not isinstance(event, ArgumentsDelta):
            self._first = event.index
        passes = event.index == self._first and not self._done
        if isinstance(event, CallDone):
            if passes:
                self._done = True
            else:
                self.dropped += 1
        return passes

    def close(self) -> list[Event]:
        return []


class _TextLast:
    """Keeps visible text until no call can follow, and so puts it behind the calls (E9): who takes the first text for the answer is not misled."""

    def __init__(self) -> None:
        self._held: list[str] = []

    def feed(self, events: Sequence[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                self._held.append(event.text)
            else:
                out.append(event)
        return out

    def close(self) -> list[Event]:
        text = "".join(self._held)
        self._held.clear()
        return [TextDelta(text)] if text else []

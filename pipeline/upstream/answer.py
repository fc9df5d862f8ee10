"""What every reader of an upstream's answer shares: events made from frames, and the end.

In: bytes of the body. Out: events; text with running offsets, then exactly one End. A subclass knows one protocol and says what its
frames mean. Promise: never raises; the same bytes give the same events at every cut, but for how text is cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import orjson

from pipeline import json_values
from pipeline.events import Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.settings import UpstreamTraits
from pipeline.stage import Note
from pipeline.turn import Turn, Usage
from pipeline.upstream import failures
from pipeline.upstream.frames import FrameReader, Shape, Value
from pipeline.upstream.native_calls import NativeCalls
from pipeline.upstream.surrogates import HalfPairs
from pipeline.verdicts import ErrorKind, FinishReason

CUT = Failed(ErrorKind.UPSTREAM_CUT, "The upstream's answer ended before it was complete.", retryable=True)
_EMPTY = Failed(ErrorKind.UPSTREAM_CUT, "The upstream answered with an empty body.", retryable=True)
_NO_ANSWER = Failed(ErrorKind.UPSTREAM_ERROR, "The upstream's answer holds no completion.", retryable=True)
_PAGE = Failed(ErrorKind.UPSTREAM_ERROR, "The upstream answered with an HTML page instead of a completion.", retryable=True)
_TOO_LARGE = Failed(ErrorKind.UPSTREAM_ERROR, "The upstream sent a frame that is too large to be read.")

_REASONS = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "max_length": FinishReason.LENGTH,
    "token_limit": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.CONTEXT_WINDOW,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content-filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "prohibited_content": FinishReason.CONTENT_FILTER,
    "blocklist": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}
_CUT_OFF = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT_WINDOW})
_BROKE_OFF = frozenset({"error", "insufficient_system_resource", "network_error", "abort", "aborted", "cancelled", "canceled", "failed"})


class AnswerReader(ABC):
    """One answer of one attempt."""

    __slots__ = (
        "_at",
        "_calls",
        "_ended",
        "_frames",
        "_halves",
        "_reason",
        "_stop_details",
        "_stop_sequence",
        "_thought_halves",
        "_traits",
        "_turn",
        "_usage",
    )

    def __init__(self, turn: Turn, traits: UpstreamTraits, note: Note, *, live: bool) -> None:
        """Begin before the first byte. `live`: native calls go out as they come, not whole."""
        self._turn = turn
        self._traits = traits
        self._frames = FrameReader(note)
        self._calls = NativeCalls(turn, live=live)
        self._halves = HalfPairs()
        self._thought_halves = HalfPairs()
        self._at = 0
        self._reason: FinishReason | None = None
        self._stop_sequence: str | None = None
        self._stop_details: Mapping[str, object] | None = None
        self._usage: Usage | None = None
        self._ended = False

    @property
    def finishing(self) -> bool:
        """The model has stopped; the end of the answer is still due."""
        return self._reason is not None and not self._ended

    def feed(self, data: bytes) -> list[Event]:
        """Take what one read brought. The last event may be an End; after it nothing more comes."""
        if self._ended:
            return []
        out: list[Event] = []
        frames = self._frames
        if frames.events is not None:
            found = frames.events.feed(data)
            if len(found) == 1 and not frames.events.overflowed:  # nearly every read of a live stream
                name, raw = found[0]
                try:
                    frame = orjson.loads(raw)
                except ValueError:
                    frame = None
                if type(frame) is dict:
                    self._frame(name, frame, raw, out)
                    return out
            values: Iterable[Value] = frames.parsed(found)
        else:
            values = frames.feed(data)
        if self._take(values, out):
            if self._frames.overflowed:
                self._fail(_TOO_LARGE, out)
            elif self._frames.shape is Shape.PAGE:
                self._fail(_PAGE, out)
        return out

    def close(self) -> list[Event]:
        """The body ended: what is left, and an End unless one came already."""
        if self._ended:
            return []
        out: list[Event] = []
        if not self._take(self._frames.close(), out):
            return out
        if self._complete:
            self._finish(out)
        elif self._traits.lenient_end and (self._at or self._calls.seen):
            self._finish(out, cut=True)
        elif self._frames.shape is Shape.UNKNOWN:
            self._fail(_EMPTY, out)
        elif self._frames.shape is Shape.EVENTS or self._at:
            self._fail(CUT, out)
        else:
            self._fail(_NO_ANSWER, out)
        return out

    @property
    def _complete(self) -> bool:
        """May the body end here?"""
        return self._reason is not None

    def _take(self, values: Iterable[Value], out: list[Event]) -> bool:
        """Take frames in order; False once one of them ended the answer."""
        for name, value, raw in values:
            if type(value) is dict:
                self._frame(name, value, raw, out)
            else:
                self._odd_frame(name, value, out)
            if self._ended:
                return False
        return True

    @abstractmethod
    def _frame(self, name: str, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        """Take one JSON object of the answer; `raw` are its bytes."""

    def _odd_frame(self, name: str, value: object, out: list[Event]) -> None:
        """Take a frame that is no object: an error told as text, a list of objects."""
        if name == "error":
            self._fail(failures.in_answer(self._traits, value), out)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict) and not self._ended:
                    self._frame(name, one, b"", out)

    def _text(self, text: str, out: list[Event]) -> None:
        if self._frames.odd:
            text = self._halves.feed(text)
        if text:
            end = self._at + len(text)
            out.append(TextDelta(text, (self._at, end)))
            self._at = end

    def _thought(self, text: str, out: list[Event]) -> None:
        if self._frames.odd:
            text = self._thought_halves.feed(text)
        if text:
            out.append(ReasoningDelta(text))

    def _call(self, entry: object, out: list[Event]) -> None:
        self._calls.take(entry, out, odd=self._frames.odd)
        if self._calls.unwanted:
            self._show_unwanted(out)

    def _show_unwanted(self, out: list[Event]) -> None:
        """Calls that are none any more, as code of their own: whatever stands in them means nothing there (S4)."""
        for text in self._calls.unwanted:
            lead = "\n\n" if self._at else ""
            self._text(f"{lead}```json\n{text}\n```\n", out)
        self._calls.unwanted.clear()

    def _stopped(self, reason: str, out: list[Event]) -> None:
        """Take a finish reason in any of its spellings (U04). A later one counts only where it says more than "stop"."""
        word = reason.lower()
        if word in _BROKE_OFF:
            self._fail(Failed(ErrorKind.UPSTREAM_ERROR, f"The upstream broke its answer off ({word}).", retryable=True), out)
        elif self._reason is None or word in _REASONS:
            self._reason = _REASONS.get(word, FinishReason.STOP)

    def _finish(self, out: list[Event], *, cut: bool = False) -> None:
        """End in order: what was held, the calls that are still open, the Finish."""
        self._flush(out)
        reason = self._reason or FinishReason.STOP
        failed = self._calls.end(out, cut=cut or reason in _CUT_OFF)
        self._show_unwanted(out)
        self._ended = True
        if failed is not None:
            out.append(failed)
            return
        if reason is FinishReason.STOP and self._calls.given:
            reason = FinishReason.TOOL_CALLS
        if reason is FinishReason.STOP and self._stop_sequence is not None:
            reason = FinishReason.STOP_SEQUENCE
        out.append(Finish(reason, self._usage, self._stop_sequence, self._stop_details))

    def _fail(self, failed: Failed, out: list[Event]) -> None:
        self._flush(out)
        self._ended = True
        out.append(failed)

    def _flush(self, out: list[Event]) -> None:
        if self._frames.odd:
            alone = self._thought_halves.close()
            if alone:
                out.append(ReasoningDelta(alone))
            alone = self._halves.close()
            if alone:
                out.append(TextDelta(alone, (self._at, self._at + 1)))
                self._at += 1


def lossless(raw: bytes, frame: Mapping[str, object]) -> Mapping[str, object]:
    """The frame parsed anew with every digit of its numbers, for arguments that came as an object."""
    try:
        value = json_values.loads(raw.decode("utf-8", "replace")) if raw else frame
    except json_values.NotJsonError:
        return frame
    return value if isinstance(value, dict) else frame

"""The answer of a Chat Completions upstream as events, streamed or whole, and of what passes for one (U02 to U11).

In: bytes of the body. Out: text, reasoning and calls in order, then one End. The end is the first of `[DONE]`, a finish reason with its
usage, and the end of the body (U03); a body that ends without a finish reason and without `[DONE]` was cut (E6), unless the upstream
is known to end so (`lenient_end`). Of several choices the first one seen is read. Promise: see `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.events import Event, TextDelta
from pipeline.settings import UpstreamTraits
from pipeline.stage import Note
from pipeline.turn import Turn
from pipeline.upstream import failures
from pipeline.upstream.answer import AnswerReader, lossless
from pipeline.upstream.frames import DONE
from pipeline.upstream.usage import chat_usage, ollama_usage


class ChatReader(AnswerReader):
    """One answer. Reads deltas, whole messages, and Ollama's own lines."""

    __slots__ = ("_choice_index", "_streamed", "_whole")

    def __init__(self, turn: Turn, traits: UpstreamTraits, note: Note, *, live: bool) -> None:
        """Begin before the first byte."""
        super().__init__(turn, traits, note, live=live)
        self._choice_index: object = None
        self._streamed = False  # deltas came: a whole message behind them only says the same again
        self._whole = False

    def _frame(self, name: str, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        choices = frame.get("choices")
        if type(choices) is list and choices:
            for choice in choices:
                if type(choice) is dict:
                    self._choice(choice, raw, out)
                    if self._ended:
                        return
            broken = "error" in frame and bool(frame["error"])
        elif "done" in frame and type(frame.get("message")) is dict:
            self._ollama(frame, raw, out)
            return
        else:
            broken = bool(frame.get("error")) or name == "error" or frame.get("object") == "error" or frame.get("type") == "error"
            broken = broken or "detail" in frame
        if broken:
            self._fail(failures.in_answer(self._traits, frame), out)
            return
        usage = frame.get("usage") or frame.get("x_groq")
        if usage:
            self._count(usage, out)

    def _choice(self, choice: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        index = choice.get("index")
        if index is not None and index != self._choice_index:
            if self._choice_index is not None:
                return
            self._choice_index = index
        delta = choice.get("delta")
        if delta:
            self._streamed = True
            if type(delta) is dict:
                self._delta(delta, raw, out)
        else:
            message = choice.get("message")
            if type(message) is dict:
                if not self._streamed:
                    self._whole = True
                    self._delta(message, raw, out)
            elif type(choice.get("text")) is str:
                self._text(choice["text"], out)  # type: ignore[arg-type]
        reason = choice.get("finish_reason")
        if reason and type(reason) is str:
            self._stopped_by(choice, reason, out)

    def _delta(self, delta: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        content = delta.get("content")
        if type(content) is str and len(delta) == 1:  # the plain case: nothing but text
            if content:
                if self._frames.odd:
                    self._text(content, out)
                else:
                    end = self._at + len(content)
                    out.append(TextDelta(content, (self._at, end)))
                    self._at = end
            return
        self._reasoning(delta, out)
        if type(content) is str:
            self._text(content, out)
        elif content is not None:
            self._parts(content, out)
        refusal = delta.get("refusal")
        if type(refusal) is str:
            self._text(refusal, out)
        calls = delta.get("tool_calls")
        legacy = delta.get("function_call")
        if calls and type(calls) is list:
            for entry in calls if _texts_only(calls) else _calls_in(lossless(raw, {}), calls):
                self._call(entry, out)
        elif legacy and type(legacy) is dict:
            self._call({"index": 0, "function": legacy}, out)

    def _reasoning(self, delta: Mapping[str, object], out: list[Event]) -> None:
        """The thinking in whichever field it comes; where two fields hold it, they hold the same."""
        for key in ("reasoning_content", "reasoning", "thinking"):
            thought = delta.get(key)
            if thought and type(thought) is str:
                self._thought(thought, out)
                return
        details = delta.get("reasoning_details")
        if type(details) is list:
            for one in details:
                if type(one) is dict:
                    thought = one.get("text") or one.get("summary")
                    if type(thought) is str:
                        self._thought(thought, out)

    def _parts(self, content: object, out: list[Event]) -> None:
        """Content as a list of parts, text and thinking (U07)."""
        for part in content if type(content) is list else [content]:
            if type(part) is str:
                self._text(part, out)
            elif type(part) is dict:
                if part.get("type") in ("thinking", "reasoning"):
                    self._thinking(part.get("thinking") or part.get("text") or part.get("reasoning"), out)
                elif type(part.get("text")) is str:
                    self._text(part["text"], out)

    def _thinking(self, thought: object, out: list[Event]) -> None:
        for one in thought if type(thought) is list else [thought]:
            text = one.get("text") if type(one) is dict else one
            if type(text) is str:
                self._thought(text, out)

    def _stopped_by(self, choice: Mapping[str, object], reason: str, out: list[Event]) -> None:
        error = choice.get("error")
        if error:
            self._fail(failures.in_answer(self._traits, {"error": error}), out)
            return
        for key in ("stop_reason", "matched_stop"):
            fired = choice.get(key)
            if type(fired) is str and fired in self._turn.stop:
                self._stop_sequence = fired
        self._stopped(reason, out)

    def _count(self, usage: object, out: list[Event]) -> None:
        """Take token counts; behind a finish reason they are the last thing of an answer (U03, U05)."""
        if type(usage) is dict and "usage" in usage:
            usage = usage["usage"]
        counted = chat_usage(usage)
        if counted is not None:
            self._usage = counted
            if self._reason is not None:
                self._finish(out)

    def _ollama(self, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        message = frame["message"]
        if type(message) is dict:
            self._delta(message, raw, out)
        if frame.get("done") is True:
            reason = frame.get("done_reason")
            self._stopped(reason if type(reason) is str and reason else "stop", out)
            self._usage = ollama_usage(frame)
            if not self._ended:
                self._finish(out)

    def _odd_frame(self, name: str, value: object, out: list[Event]) -> None:
        if value is DONE:
            self._finish(out)
        else:
            super()._odd_frame(name, value, out)

    @property
    def _complete(self) -> bool:
        return self._whole or self._reason is not None  # a whole message is complete as it stands, without a finish reason


def _texts_only(calls: list[object]) -> bool:
    """Do all arguments come as text, as they should? An object may hold integers that fast parsing rounds."""
    for entry in calls:
        function = entry.get("function") if type(entry) is dict else None
        if type(function) is dict and type(function.get("arguments")) in (dict, list):
            return False
    return True


def _calls_in(frame: Mapping[str, object], calls: list[object]) -> list[object]:
    """The calls of a frame that was parsed anew; the old ones where they cannot be found."""
    holder: object = frame.get("message")
    choices = frame.get("choices")
    if type(choices) is list and choices and type(choices[0]) is dict:
        holder = choices[0].get("delta") or choices[0].get("message")
    found = holder.get("tool_calls") if type(holder) is dict else None
    return found if type(found) is list and len(found) == len(calls) else calls

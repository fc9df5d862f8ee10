"""The answer of an Anthropic Messages upstream as events, streamed or whole.

In: bytes of the body. Out: text, reasoning and calls in order, then one End: with `message_stop`, or at the end of a body whose stop
reason came. Anything else was cut (E6). Signatures, citations, server tools and pings are nobody's text. Promise: see `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import json_values
from pipeline.events import Event
from pipeline.settings import UpstreamTraits
from pipeline.stage import Note
from pipeline.turn import Turn
from pipeline.upstream import failures
from pipeline.upstream.answer import AnswerReader, lossless
from pipeline.upstream.frames import DONE
from pipeline.upstream.usage import messages_usage


class MessagesReader(AnswerReader):
    """One answer. Block indices are the upstream's; calls are numbered by their blocks."""

    __slots__ = ("_counts", "_inputs")

    def __init__(self, turn: Turn, traits: UpstreamTraits, note: Note, *, live: bool) -> None:
        """Begin before the first byte."""
        super().__init__(turn, traits, note, live=live)
        self._counts: dict[str, object] = {}
        self._inputs: dict[object, object] = {}

    def _frame(self, name: str, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        kind = frame.get("type") or name
        if kind == "content_block_delta":
            self._delta(frame, out)
        elif kind == "content_block_start":
            self._start(frame, raw, out)
        elif kind == "content_block_stop":
            self._stop(frame.get("index"), out)
        elif kind == "message_start":
            message = frame.get("message")
            if type(message) is dict:
                self._count(message.get("usage"))
        elif kind == "message_delta":
            self._count(frame.get("usage"))
            self._ending(frame.get("delta"), out)
        elif kind == "message_stop":
            self._finish(out)
        elif kind == "message":
            self._message(frame, raw, out)
        elif kind == "error" or frame.get("error"):
            self._fail(failures.in_answer(self._traits, frame), out)

    def _start(self, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        block = frame.get("content_block")
        if type(block) is not dict:
            return
        if block.get("type") == "tool_use":
            given = block.get("input")
            if given:
                again = lossless(raw, frame).get("content_block")
                self._inputs[_key(frame.get("index"))] = again.get("input") if type(again) is dict else given
            entry = {"index": frame.get("index"), "id": block.get("id"), "function": {"name": block.get("name")}}
            self._call(entry, out)
        else:
            self._block(block, out)

    def _delta(self, frame: Mapping[str, object], out: list[Event]) -> None:
        delta = frame.get("delta")
        if type(delta) is not dict:
            return
        text = delta.get("text")
        if type(text) is str:
            self._text(text, out)
        elif type(delta.get("thinking")) is str:
            self._thought(delta["thinking"], out)
        elif type(delta.get("partial_json")) is str and delta["partial_json"]:
            self._inputs.pop(_key(frame.get("index")), None)
            self._call({"index": frame.get("index"), "function": {"arguments": delta["partial_json"]}}, out)

    def _stop(self, index: object, out: list[Event]) -> None:
        """A block is complete: input that came with its start, and was not told again, are its arguments."""
        given = self._inputs.pop(_key(index), None)
        if given is not None:
            self._call({"index": index, "function": {"arguments": given}}, out)

    def _block(self, block: Mapping[str, object], out: list[Event]) -> None:
        kind = block.get("type")
        text = block.get("thinking" if kind == "thinking" else "text")
        if type(text) is str:
            if kind == "thinking":
                self._thought(text, out)
            elif kind == "text":
                self._text(text, out)

    def _message(self, frame: Mapping[str, object], raw: bytes, out: list[Event]) -> None:
        content = frame.get("content")
        blocks = content if type(content) is list else []
        if any(type(block) is dict and block.get("input") for block in blocks):
            again = lossless(raw, frame).get("content")
            blocks = again if type(again) is list else blocks
        for at, block in enumerate(blocks):
            if type(block) is not dict:
                continue
            if block.get("type") == "tool_use":
                function = {"name": block.get("name"), "arguments": _written(block.get("input"))}
                self._call({"index": at, "id": block.get("id"), "function": function}, out)
            else:
                self._block(block, out)
        self._count(frame.get("usage"))
        self._ending(frame, out)
        if not self._ended:
            self._finish(out)

    def _ending(self, delta: object, out: list[Event]) -> None:
        if type(delta) is not dict:
            return
        fired = delta.get("stop_sequence")
        if type(fired) is str:
            self._stop_sequence = fired
        details = delta.get("stop_details")
        if type(details) is dict:
            self._stop_details = details
        reason = delta.get("stop_reason")
        if type(reason) is str and reason:
            self._stopped(reason, out)

    def _count(self, usage: object) -> None:
        """Counts are cumulative and come in parts: a later number replaces an earlier one."""
        if type(usage) is dict:
            self._counts.update({key: value for key, value in usage.items() if value is not None})
            self._usage = messages_usage(self._counts)

    def _odd_frame(self, name: str, value: object, out: list[Event]) -> None:
        if value is DONE:
            if self._reason is not None:
                self._finish(out)
        else:
            super()._odd_frame(name, value, out)


def _key(index: object) -> object:
    return index if isinstance(index, int) else None


def _written(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    try:
        return json_values.dumps(value)
    except json_values.NotJsonError:
        return None

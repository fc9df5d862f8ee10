"""The history as a text-only model reads it (C4, C5): calls as blocks, results as continuation text, or both as plain words.

In: messages with calls and results as parts, and a voice that words them. Out: messages without either. Promise: the order is
kept, results of one turn stand in one user message in call order, nothing is lost, and a message without calls, results or
markers is the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

import msgspec

from pipeline.contract.plain_words import tell_calls, tell_results
from pipeline.contract.results import Returned, render_results
from pipeline.contract.shown import Shown
from pipeline.contract.wording import next_step
from pipeline.dialects.dialect import Dialect
from pipeline.history import records
from pipeline.turn import Call, Message, Part, Result, Role, Text, text_of


class Speaker(Protocol):
    """Words texts."""

    def text(self, text: str) -> str:
        """Somebody's text."""


class Voice(Speaker, Protocol):
    """Words what the messages hold."""

    def calls(self, calls: Sequence[Call]) -> str:
        """Calls that stand together."""

    def results(self, results: Sequence[Returned]) -> str:
        """The results of one turn."""


class DialectVoice:
    """Speaks the dialect that the contract teaches."""

    def __init__(self, dialect: Dialect, shown: Shown, form: str) -> None:
        """Take the dialect, the keeper of what is shown, and the short name of a block."""
        self._dialect = dialect
        self._shown = shown
        self._form = form
        self.text = shown.text

    def calls(self, calls: Sequence[Call]) -> str:
        """One block or several, as the model should have written them."""
        return self._dialect.render_calls([self._shown.call(call) for call in calls])

    def results(self, results: Sequence[Returned]) -> str:
        """Results, then the next step."""
        return f"{render_results(results, self._shown.text)}\n\n{next_step(len(results), self._form)}"


class PlainVoice:
    """Speaks plain words; nothing is escaped, for the sieve does not run."""

    def text(self, text: str) -> str:
        """The text as it is."""
        return text

    def calls(self, calls: Sequence[Call]) -> str:
        """What was called."""
        return tell_calls(calls)

    def results(self, results: Sequence[Returned]) -> str:
        """What came back."""
        return tell_results(results)


def project(messages: Sequence[Message], voice: Voice) -> list[Message]:
    """All messages in this voice."""
    told: list[Message] = []
    waiting: list[Call] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        if any(isinstance(part, Result) for part in message.parts):
            end = _end_of_results(messages, at)
            told.append(_answering(messages[at:end], waiting, voice))
            at = end
            continue
        calls = [part for part in message.parts if isinstance(part, Call)]
        if calls:
            waiting = calls
            told.append(_calling(message, voice))
        else:
            told.append(_speaking(message, voice))
        at += 1
    return told


def _end_of_results(messages: Sequence[Message], at: int) -> int:
    """Where the results that begin here end: behind the first message that holds anything else too."""
    role = messages[at].role
    while at < len(messages) and messages[at].role is role and any(isinstance(part, Result) for part in messages[at].parts):
        at += 1
        if not all(isinstance(part, Result) for part in messages[at - 1].parts):
            break
    return at


def _speaking(message: Message, voice: Voice) -> Message:
    parts = tuple(_spoken(part, voice) for part in whole_texts(message.parts, voice))
    same = len(parts) == len(message.parts) and all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else msgspec.structs.replace(message, parts=parts)


def whole_texts(parts: tuple[Part, ...], voice: Speaker) -> tuple[Part, ...]:
    """Texts that stand together as the one text they will be sent as, where a marker lies across their border (C10); else the same parts."""
    if len(parts) < 2:
        return parts
    out: list[Part] = []
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, Text)):
        run = list(group)
        joined = text_of(run) if is_text and len(run) > 1 else ""
        if joined and voice.text(joined) != text_of([_spoken(part, voice) for part in run]):
            run = [Text(joined)]
        out += run
    return parts if len(out) == len(parts) else tuple(out)


def _spoken(part: Part, voice: Speaker) -> Part:
    if not isinstance(part, Text):
        return part
    text = voice.text(part.text)
    return part if text is part.text else Text(text)


def _calling(message: Message, voice: Voice) -> Message:
    """Text and calls of one message as one text, in order; calls that stand together make one group."""
    parts: list[Part] = []
    pieces: list[str] = []
    group: list[Call] = []

    def close_group() -> None:
        if group:
            pieces.append(voice.calls(group))
            group.clear()

    for part in message.parts:
        if isinstance(part, Call) and part.arguments.value() is not None:
            group.append(part)
            continue
        close_group()
        if isinstance(part, Call):  # the guard was left out or failed: G2 holds all the same
            pieces.append(voice.text(records.poisoned_call(part)))
        elif isinstance(part, Text):
            if part.text:
                pieces.append(voice.text(part.text))
        else:
            if pieces:
                parts.append(Text("\n\n".join(pieces)))
                pieces = []
            parts.append(part)
    close_group()
    if pieces:
        parts.append(Text("\n\n".join(pieces)))
    return msgspec.structs.replace(message, parts=tuple(parts))


def _answering(messages: Sequence[Message], calls: Sequence[Call], voice: Voice) -> Message:
    """One user message: all results in call order, what they hold besides text, then the rest of the last message."""
    places: dict[str, list[int]] = {}
    for index in range(len(calls) - 1, -1, -1):
        places.setdefault(calls[index].id, []).append(index)
    returned: list[tuple[int, Returned]] = []
    rest: list[Part] = []
    for message in messages:
        for part in message.parts:
            if not isinstance(part, Result):
                rest.append(_spoken(part, voice))
                continue
            free = places.get(part.call_id)
            if free:
                index = free.pop()
                returned.append((index, Returned(part, calls[index].name, index + 1, len(calls))))
            else:
                returned.append((len(calls), Returned(part)))
    returned.sort(key=lambda one: one[0])
    ordered = [one for _, one in returned]
    attached = [part for one in ordered for part in records.media(one.result)]
    return Message(Role.USER, (Text(voice.results(ordered)), *attached, *rest))

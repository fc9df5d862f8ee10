"""Mend a history: poison becomes an honest record, calls and results balance, ids are unique (G1 to G3).

In: messages in which something is wrong. Out: new messages, and how often each repair was made. Promise: every call that is
left has its one result right behind its message, no text is lost, untouched messages are the same objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from pipeline.history import records
from pipeline.history.pairing import Place, pair
from pipeline.history.unique_ids import UniqueIds
from pipeline.turn import Call, Message, Part, Result, Role, Text
from pipeline.verdicts import HistoryRepair


class Mended(msgspec.Struct, frozen=True):
    """The new messages, and the repairs by kind."""

    messages: tuple[Message, ...]
    repairs: Counter[HistoryRepair]


def mend(messages: Sequence[Message]) -> Mended:
    """Mend all of it in one walk."""
    walk = _Walk(messages)
    return Mended(tuple(walk.run()), walk.repairs)


def _is_poisoned(call: Call) -> bool:
    return call.arguments.value() is None


class _Walk:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._pairing = pair(messages)
        self._ids = UniqueIds(part.id for message in messages for part in message.parts if isinstance(part, Call))
        self.repairs: Counter[HistoryRepair] = Counter()

    def run(self) -> Iterator[Message]:
        for at, message in enumerate(self._messages):
            if any(isinstance(part, Call) for part in message.parts):
                yield from self._calling(at, message)
            elif any(isinstance(part, Result) for part in message.parts):
                yield from self._answering(at, message)
            else:
                yield message

    def _calling(self, at: int, message: Message) -> Iterator[Message]:
        """The message with its calls, and right behind it the results of the good ones, in call order."""
        parts: list[Part] = []
        results: list[Part] = []
        loose: list[Message] = []
        for index, part in enumerate(message.parts):
            place = (at, index)
            if isinstance(part, Result):
                loose += self._loose(place, part)
            elif not isinstance(part, Call):
                parts.append(part)
            elif _is_poisoned(part):
                self.repairs[HistoryRepair.POISONED_CALL] += 1
                parts.append(Text(records.poisoned_call(part)))
            else:
                call = self._with_own_id(part)
                parts.append(call)
                results.append(self._result_of(place, call))
        yield msgspec.structs.replace(message, parts=tuple(parts))
        if results:
            yield Message(Role.USER, tuple(results))
        yield from loose

    def _with_own_id(self, call: Call) -> Call:
        fresh = self._ids.give(call.id)
        if fresh == call.id:
            return call
        self.repairs[HistoryRepair.REPEATED_ID] += 1
        return msgspec.structs.replace(call, id=fresh)

    def _result_of(self, place: Place, call: Call) -> Result:
        answer = self._pairing.answers.get(place)
        if answer is None:
            self.repairs[HistoryRepair.MISSING_RESULT] += 1
            return Result(call.id, (Text(records.NO_RESULT),), call.name, is_missing=True)
        if not answer.at_once:
            self.repairs[HistoryRepair.MOVED_RESULT] += 1
        return msgspec.structs.replace(answer.result, call_id=call.id, name=call.name)

    def _answering(self, at: int, message: Message) -> Iterator[Message]:
        """What is left of a message when its results went to their calls. Loose results stay where they were, as messages."""
        kept: list[Part] = []
        for index, part in enumerate(message.parts):
            if not isinstance(part, Result):
                kept.append(part)
                continue
            loose = self._loose((at, index), part)
            if loose and kept:
                yield msgspec.structs.replace(message, parts=tuple(kept))
                kept = []
            yield from loose
        if kept:
            yield msgspec.structs.replace(message, parts=tuple(kept))

    def _loose(self, place: Place, result: Result) -> list[Message]:
        """A user message for a result whose call is poisoned or unknown; none for one that went behind its call."""
        call = self._pairing.calls.get(place)
        if call is None:
            self.repairs[HistoryRepair.ORPHAN_RESULT] += 1
        elif not _is_poisoned(call):
            return []
        text = records.loose_result(result, None if call is None else call.name)
        return [Message(Role.USER, (Text(text), *records.media(result)))]

"""Which result answers which call.

In: messages in order. Out: a `Pairing`, looked up by where a part stands. Promise: every result is paired with one call that
stands before it or is an orphan, no call has two results, and the time is linear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from pipeline.turn import Call, Message, Result

Place = tuple[int, int]
"""Where a part stands: index of its message, index of the part in it."""


class Answer(msgspec.Struct, frozen=True):
    """The result of a call, where it stands, and whether only results stand between it and the call's message."""

    result: Result
    place: Place
    at_once: bool


class Pairing(msgspec.Struct, frozen=True):
    """`answers` by the call's place, `calls` by the result's place. Who is in neither is alone."""

    answers: dict[Place, Answer]
    calls: dict[Place, Call]


def pair(messages: Sequence[Message]) -> Pairing:
    """Pair each result with the nearest preceding message that has an open call of its id, there with the first one (G3)."""
    open_calls: dict[str, list[deque[tuple[Place, Call]]]] = {}
    pairing = Pairing({}, {})
    others = 0  # parts so far that are no results: equal counts mean that only results stand between
    others_after: list[int] = []
    for at, message in enumerate(messages):
        fresh: dict[str, deque[tuple[Place, Call]]] = {}
        for index, part in enumerate(message.parts):
            if not isinstance(part, Result):
                others += 1
                if isinstance(part, Call):
                    fresh.setdefault(part.id, deque()).append(((at, index), part))
                continue
            nearest = open_calls.get(part.call_id)
            if nearest:
                place, call = nearest[-1].popleft()
                if not nearest[-1]:
                    nearest.pop()
                pairing.answers[place] = Answer(part, (at, index), others == others_after[place[0]])
                pairing.calls[at, index] = call
        others_after.append(others)
        for call_id, calls in fresh.items():
            open_calls.setdefault(call_id, []).append(calls)
    return pairing

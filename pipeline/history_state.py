"""Where a conversation stands, told from its messages alone (N4).

In: the messages of a request. Out: one of four states. The machine is one table, state by step: `state_of` walks it, `as_mermaid` draws it, and
the page in the docs is that drawing. Promise: never a field of the current turn, and never a call by itself, decides a state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from pipeline.turn import Call, Message, Result, Role
from pipeline.verdicts import HistoryState

_AWAITING = HistoryState.AWAITING_DECISION
_PENDING = HistoryState.CALLS_PENDING
_RECEIVED = HistoryState.RESULTS_RECEIVED
_ANSWERED = HistoryState.ANSWERED


class Step(StrEnum):
    """What one message means to the machine."""

    INSTRUCTION = "instruction"
    USER_TEXT = "user_text"
    CALLS = "calls"
    SOME_RESULTS = "some_results"
    ALL_RESULTS = "all_results"
    ANSWER = "answer"


START = _AWAITING

TRANSITIONS: dict[tuple[HistoryState, Step], HistoryState] = {
    # System and developer messages change nothing, wherever they stand.
    (_AWAITING, Step.INSTRUCTION): _AWAITING,
    (_PENDING, Step.INSTRUCTION): _PENDING,
    (_RECEIVED, Step.INSTRUCTION): _RECEIVED,
    (_ANSWERED, Step.INSTRUCTION): _ANSWERED,
    # A message of the user's own opens a new decision, even over calls that nobody answered.
    (_AWAITING, Step.USER_TEXT): _AWAITING,
    (_PENDING, Step.USER_TEXT): _AWAITING,
    (_RECEIVED, Step.USER_TEXT): _AWAITING,
    (_ANSWERED, Step.USER_TEXT): _AWAITING,
    (_AWAITING, Step.CALLS): _PENDING,
    (_PENDING, Step.CALLS): _PENDING,
    (_RECEIVED, Step.CALLS): _PENDING,
    (_ANSWERED, Step.CALLS): _PENDING,
    (_AWAITING, Step.SOME_RESULTS): _PENDING,
    (_PENDING, Step.SOME_RESULTS): _PENDING,
    (_RECEIVED, Step.SOME_RESULTS): _PENDING,
    (_ANSWERED, Step.SOME_RESULTS): _PENDING,
    (_AWAITING, Step.ALL_RESULTS): _RECEIVED,
    (_PENDING, Step.ALL_RESULTS): _RECEIVED,
    (_RECEIVED, Step.ALL_RESULTS): _RECEIVED,
    (_ANSWERED, Step.ALL_RESULTS): _RECEIVED,
    (_AWAITING, Step.ANSWER): _ANSWERED,
    # Assistant text behind calls that are still open belongs to the same reply: no final answer yet.
    (_PENDING, Step.ANSWER): _PENDING,
    (_RECEIVED, Step.ANSWER): _ANSWERED,
    (_ANSWERED, Step.ANSWER): _ANSWERED,
}


class _OpenCalls:
    """The calls since the user's last own message that have no result yet. An empty id is answered by order."""

    __slots__ = ("_ids", "_left")

    def __init__(self) -> None:
        self._ids: Counter[str] = Counter()
        self._left = 0

    def step(self, message: Message) -> Step:
        """Take the message into account and say which step it is."""
        if message.role is Role.USER:
            results = [part for part in message.parts if isinstance(part, Result)]
            if not results:
                self._ids.clear()
                self._left = 0
                return Step.USER_TEXT
            for result in results:
                if self._ids[result.call_id] > 0:
                    self._ids[result.call_id] -= 1
                    self._left -= 1
            return Step.SOME_RESULTS if self._left else Step.ALL_RESULTS
        if message.role is not Role.ASSISTANT:
            return Step.INSTRUCTION
        calls = [part.id for part in message.parts if isinstance(part, Call)]
        self._ids.update(calls)
        self._left += len(calls)
        return Step.CALLS if calls else Step.ANSWER


def state_of(messages: Iterable[Message]) -> HistoryState:
    """Walk the messages through the table and return the state at their end. Linear, never raises."""
    state = START
    open_calls = _OpenCalls()
    for message in messages:
        state = TRANSITIONS[state, open_calls.step(message)]
    return state


def as_mermaid() -> str:
    """Draw the table as a Mermaid state diagram; steps that lead the same way share an arrow."""
    lines = ["stateDiagram-v2", f"    [*] --> {START}"]
    for source in HistoryState:
        for target in HistoryState:
            steps = [step.value for step in Step if TRANSITIONS[source, step] is target]
            if steps:
                lines.append(f"    {source} --> {target}: {', '.join(steps)}")
    return "\n".join(lines) + "\n"

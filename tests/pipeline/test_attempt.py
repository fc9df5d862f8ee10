"""What the engine finds out about stages that break their promises, attempt by attempt."""

from __future__ import annotations

import pytest

from pipeline.attempt import Attempt
from pipeline.events import CallBegun, CallDone, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.settings import UpstreamTraits
from pipeline.turn import Arguments, Call, Message, Result, Role, Text, Turn
from pipeline.verdicts import Api, Cause, ErrorKind, Invariant

TEXT = TextDelta("a tide", (0, 6))
CUT = Failed(ErrorKind.UPSTREAM_CUT, "cut")


def call(index=0, span=(6, 40), **fields):
    return CallDone(index, "lookup", "{}", span, **fields)


def attempt_of(*batches, receivers=()):
    attempt = Attempt(1, Cause.FIRST, UpstreamTraits(), Turn(api=Api.OPENAI_CHAT), receivers, None, lambda _: None, 0.0)
    for batch in batches:
        attempt.take(list(batch))
    return attempt


@pytest.mark.parametrize(
    "batches",
    [
        [[TEXT, Finish()]],
        [[ReasoningDelta("hm")], [TEXT], [call(), Finish()]],
        [[TEXT, call(0), TextDelta("more", (40, 44)), call(1, (44, 80)), Finish()]],
        [[CallBegun(0, "lookup")], [call(0, (0, 0))], [Finish()]],
        [[CallBegun(0, "lookup")], [call(1)], [call(0), Finish()]],
        [[CallBegun(0, "lookup")], [CUT]],
        [[CallBegun(0, "lookup")]],
        [[TextDelta("unplaced")], [call(), Finish()]],
    ],
)
def test_a_stage_that_keeps_its_promises_is_not_accused(batches):
    assert attempt_of(*batches).broken_promises() == []


@pytest.mark.parametrize(
    ("batches", "broken"),
    [
        ([[call(0), call(0), Finish()]], Invariant.DUPLICATE_ID),
        ([[call(0)], [call(2), Finish()]], Invariant.INDEX_GAP),
        ([[call(1), Finish()]], Invariant.INDEX_GAP),
        ([[CallBegun(0, "lookup")], [CallBegun(1, "lookup"), call(0), Finish()]], Invariant.DANGLING_CALL),
        ([[TextDelta("a tide```j", (0, 10))], [call(), Finish()]], Invariant.LEAKED_FRAGMENT),
        ([[TextDelta("a tide```j", (0, 10)), call(), Finish()]], Invariant.LEAKED_FRAGMENT),
    ],
)
def test_a_stage_that_breaks_one_is_found_out(batches, broken):
    assert attempt_of(*batches).broken_promises() == [broken]


@pytest.mark.parametrize(
    ("messages", "broken"),
    [
        ([Message(Role.USER, (Result("c1", (Text("7 C"),)),))], [Invariant.ORPHAN_RESULT]),
        ([Message(Role.USER, (Result("c1"),)), Message(Role.ASSISTANT, (Call("c1", "lookup", Arguments({})),))], [Invariant.ORPHAN_RESULT]),
        ([Message(Role.ASSISTANT, (Call("c1", "lookup", Arguments({})),)), Message(Role.USER, (Result("c1"),))], []),
        ([Message(Role.ASSISTANT, (Call("c1", "lookup", Arguments({})),))], []),
    ],
)
def test_a_request_with_a_result_that_answers_no_call_is_found_out(messages, broken):
    turn = Turn(api=Api.OPENAI_CHAT, messages=tuple(messages))
    attempt = Attempt(1, Cause.FIRST, UpstreamTraits(), turn, [], None, lambda _: None, 0.0)
    assert attempt.broken_promises() == broken


class Talkative:
    def feed(self, event):
        return [event]

    def close(self, end):
        return [end, TextDelta("and another thing")]


def test_what_a_stage_says_after_the_end_is_dropped_and_found_out():
    attempt = attempt_of([TEXT, Finish()], receivers=[("talkative", Talkative())])
    assert attempt.broken_promises() == [Invariant.EVENT_AFTER_END]
    assert attempt.text == ["a tide"]

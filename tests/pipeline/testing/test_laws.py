"""Every law of the kit can fail: each is shown one run that breaks it, and one that does not."""

from __future__ import annotations

import pytest

from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, Dropped, Event, Finish, ReasoningDelta, TextDelta
from pipeline.testing import laws
from pipeline.testing.laws import LawBrokenError
from pipeline.verdicts import BlockOutcome, FinishReason, SpanKind

TEXT = "ab CALL cd "
GOOD: list[Event] = [
    TextDelta("ab ", (0, 3)),
    CallDone(0, "x", "{}", (3, 7)),
    TextDelta(" c", (7, 9)),
    TextDelta("d", (9, 10)),
    Dropped(SpanKind.TRIMMED, (10, 11)),
]


def changed(at: int, *events: Event) -> list[Event]:
    return [*GOOD[:at], *events, *GOOD[at + 1 :]]


def test_a_good_run_passes():
    laws.check_run(TEXT, GOOD)


@pytest.mark.parametrize(
    ("events", "law"),
    [
        (GOOD[:-1], "close"),
        (GOOD[1:], "starts at 3"),
        ([*GOOD, GOOD[-1]], "starts at 10"),
        (changed(0, TextDelta("aB ", (0, 3))), "byte for byte"),
        (changed(0, TextDelta("ab C", (0, 4))), "starts at 3"),
        (changed(4, Dropped(SpanKind.TRIMMED, (10, 12))), "behind the input"),
        (changed(1, Dropped(SpanKind.TRIMMED, (3, 7))), "more than white space"),
        (changed(1, Dropped(SpanKind.CALL, (3, 7))), "nothing to drop"),
        (changed(1, ReasoningDelta("CALLED", (3, 7))), "reasoning"),
        (changed(1, CallDone(1, "x", "{}", (3, 7))), "index 1"),
        (changed(1, CallDone(0, " ", "{}", (3, 7))), "empty name"),
        (changed(1, CallDone(0, "x", "[]", (3, 7))), "no object"),
        ([*GOOD, BlockSeen("d", BlockOutcome.PARSED, (4, 9))], "cuts through"),
        ([*GOOD, BlockSeen("d", BlockOutcome.PARSED, (3, 30))], "outside"),
        ([*GOOD, BlockSeen("d", BlockOutcome.PARSED, (3, 7)), BlockSeen("d", BlockOutcome.PARSED, (0, 7))], "before the one before"),
        ([TextDelta("", (0, 0)), *GOOD[1:]], "empty"),
        ([Finish(), *GOOD], "Finish"),
    ],
)
def test_a_bad_run_is_named(events, law):
    with pytest.raises(LawBrokenError, match=law):
        laws.check_run(TEXT, events)


def test_deltas_must_add_up_to_the_call():
    begun = CallBegun(0, "x", (0, 1))
    done = CallDone(0, "x", '{"a":1}', (0, 4))
    laws.check_calls([begun, ArgumentsDelta(0, '{"a"', (1, 2)), ArgumentsDelta(0, ":1}", (2, 4)), done])
    with pytest.raises(LawBrokenError, match="add up"):
        laws.check_calls([begun, ArgumentsDelta(0, '{"a"', (1, 2)), done])
    with pytest.raises(LawBrokenError, match="not begun"):
        laws.check_calls([ArgumentsDelta(0, "{}", (1, 2))])


def test_joining_hides_cuts_and_nothing_else():
    whole = [TextDelta("abc", (0, 3))]
    laws.check_same("abc", whole, [TextDelta("a", (0, 1)), TextDelta("bc", (1, 3))])
    with pytest.raises(LawBrokenError, match="cuts"):
        laws.check_same("abc", whole, [TextDelta("ab", (0, 2))])
    with pytest.raises(LawBrokenError, match="tells more"):
        laws.check_same("abc", whole, [])
    with pytest.raises(LawBrokenError, match="cuts"):
        laws.check_same("abc", [BlockSeen("d", BlockOutcome.PARSED, (0, 3))], [BlockSeen("d", BlockOutcome.REPAIRED, (0, 3))])


def test_canonical_arguments_keep_types_apart():
    spellings = {laws.canonical(text) for text in ('{"a":1}', '{"a":1.0}', '{"a":true}', '{"a":"1"}', '{"a":-0.0}', '{"a":0.0}')}
    assert len(spellings) == 6
    assert laws.canonical('{"a":1,"b":2}') == laws.canonical('{ "b": 2, "a": 1 }')
    assert laws.canonical('{"a":12345678901234567890123}') == '{"a": 12345678901234567890123}'


def test_pieces_and_cuts():
    assert laws.pieces("abcde", 2) == ["ab", "cd", "e"]
    assert laws.split_at("abcde", [4, 1, 1, 99]) == ["a", "", "bcd", "e", ""]


def test_a_run_ends_with_close():
    class Echo:
        def __init__(self):
            self.closed = None

        def feed(self, text):
            return [TextDelta(text, (0, len(text)))]

        def close(self, reason):
            self.closed = reason
            return []

    echo = Echo()
    assert laws.released(laws.run(echo, ["ab", "abc"], FinishReason.LENGTH)) == 3
    assert echo.closed is FinishReason.LENGTH

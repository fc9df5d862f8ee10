from __future__ import annotations

from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, TextDelta
from pipeline.protocols.in_order import InOrder
from pipeline.verdicts import BlockOutcome

A, A1, A2, DONE_A = CallBegun(0, "a"), ArgumentsDelta(0, "1"), ArgumentsDelta(0, "2"), CallDone(0, "a", "{}")
B, B1, DONE_B = CallBegun(1, "b"), ArgumentsDelta(1, "1"), CallDone(1, "b", "{}")
C = CallDone(2, "c", "{}")
TEXT, BLOCK = TextDelta("x"), BlockSeen("dsml", BlockOutcome.PARSED, (0, 1))


def test_without_an_open_call_the_same_object_comes_back():
    order = InOrder()
    events = [TEXT, C, BLOCK, TEXT]
    assert order.feed(events) is events
    assert order.feed([A, A1, DONE_A]) == [A, A1, DONE_A]
    assert order.feed(events) is events


def test_what_comes_while_a_call_is_open_waits_behind_it():
    for size in (1, 2, 99):
        order = InOrder()
        events = [A, B, B1, TEXT, A1, C, DONE_B, A2, DONE_A, BLOCK]
        out = [event for at in range(0, len(events), size) for event in order.feed(events[at : at + size])]
        assert out + order.close() == [A, A1, A2, DONE_A, B, B1, DONE_B, TEXT, C, BLOCK]


def test_nothing_is_lost_when_the_answer_ends_inside_a_call():
    order = InOrder()
    assert order.feed([A, TEXT, B, B1, C]) == [A]
    assert order.close() == [TEXT, B, B1, C]
    assert order.close() == []

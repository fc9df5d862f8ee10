"""The playbook plays what the product would do, in the same order."""

from __future__ import annotations

import pytest

from pipeline.commands import Done, Ended, Wait
from pipeline.events import Finish, TextDelta
from pipeline.testing.playbook import Notes, Step, converse, play
from pipeline.turn import Turn
from pipeline.verdicts import Api, Noted


class Holding:
    """Holds one text back and writes the last one in capitals."""

    name = "holding"
    per_attempt = False

    def __init__(self, mark: str, *, silent: bool = False) -> None:
        self.mark = mark
        self.silent = silent

    def prepare(self, turn, note):
        note(Noted.NORMALIZED, stage=self.mark)
        return turn

    def open(self, turn, note):
        return None if self.silent else Holder(self.mark, note)


class Holder:
    def __init__(self, mark, note):
        self.mark, self.note, self.held = mark, note, None

    def feed(self, event):
        out, self.held = [self.held] if self.held else [], event
        return out

    def close(self, end):
        self.note(Noted.BLOCK, stage=self.mark)
        return [TextDelta(self.mark + self.held.text), end]


def test_events_go_through_every_receiver_in_order():
    played = play(
        [Holding("1"), Holding("x", silent=True), Holding("2")], Turn(Api.OPENAI_CHAT), [TextDelta("a"), TextDelta("b"), Finish()]
    )
    assert played.events == [TextDelta("a"), TextDelta("21b"), Finish()]
    assert [fields["stage"] for fields in played.notes.of(Noted.NORMALIZED)] == ["1", "x", "2"]
    assert [fields["stage"] for fields in played.notes.of(Noted.BLOCK)] == ["1", "2"]


def test_an_open_script_leaves_the_attempt_open():
    assert play([Holding("1")], Turn(Api.OPENAI_CHAT), [TextDelta("a")]).events == []


def test_a_script_cannot_go_on_after_its_end():
    with pytest.raises(ValueError, match="after its End"):
        play([], Turn(Api.OPENAI_CHAT), [Finish(), TextDelta("a")])


def test_notes_are_a_note_and_a_list():
    notes = Notes()
    notes(Noted.BLOCK, count=2)
    assert notes.of(Noted.BLOCK) == [{"count": 2}]
    assert notes.of(Noted.RETRY) == []


def test_a_note_may_carry_a_field_called_outcome():
    notes = Notes()
    notes(Noted.UPSTREAM_FAILED, outcome="connect")
    assert notes.of(Noted.UPSTREAM_FAILED) == [{"outcome": "connect"}]


def test_an_engine_is_driven_with_its_own_clock():
    class Engine:
        def start(self, now):
            return [Wait(now + 1)]

        def receive(self, happening, now):
            return [Done(clean=True), Wait(now)]

    steps = list(converse(Engine(), [Ended(1), (2.5, Ended(1))], now=10.0))
    assert steps == [
        Step(None, [Wait(11.0)]),
        Step(Ended(1), [Done(clean=True), Wait(10.0)]),
        Step(Ended(1), [Done(clean=True), Wait(12.5)]),
    ]

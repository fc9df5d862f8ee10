"""Play a script through stages, or through the engine, and look at what came out.

In: for stages a turn and the events of an attempt, for the engine a list of happenings. Out: the events, or the commands, step by
step, and everything that was noted. Promise: no socket, no clock, no event loop; what is played is what the product would do, in
the same order (`prepare` down the list, receivers back up in the same order, the End last).

    played = play([MyStage(Settings())], turn, [TextDelta("Hi"), Finish()])
    assert played.events == [TextDelta("Hi"), Finish()]
    assert played.notes.of(Noted.BLOCK) == []

    for step in converse(exchange, [Opened(1, 200, {}), Received(1, b"..."), Ended(1)]):
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pipeline.commands import Command, Happening
from pipeline.events import Event, Failed, Finish
from pipeline.stage import Receiver, Stage
from pipeline.turn import Turn
from pipeline.verdicts import Noted


class Noting(NamedTuple):
    """One call of `note`."""

    outcome: Noted
    fields: Mapping[str, object]


class Notes(list[Noting]):
    """A `note` that is bound to a list: call it as a stage does, read it as a list."""

    def __call__(self, outcome: Noted, /, **fields: object) -> None:
        """Write one note down."""
        self.append(Noting(outcome, fields))

    def of(self, outcome: Noted) -> list[Mapping[str, object]]:
        """The fields of every note with this outcome."""
        return [noting.fields for noting in self if noting.outcome is outcome]


class Played(NamedTuple):
    """What came of a play: the turn as the last stage prepared it, the events behind the last receiver, the notes."""

    turn: Turn
    events: list[Event]
    notes: Notes


class Step(NamedTuple):
    """One happening and the commands it brought; None is the start."""

    happening: Happening | None
    commands: list[Command]


class Engine(Protocol):
    """What `converse` drives (`pipeline/exchange.py`)."""

    def start(self, now: float) -> list[Command]:
        """Begin the turn."""

    def receive(self, happening: Happening, now: float) -> list[Command]:
        """Take one happening."""


def play(stages: Sequence[Stage], turn: Turn, events: Iterable[Event] = (), notes: Notes | None = None) -> Played:
    """Prepare the turn through all stages, then send the events through their receivers. An End closes them.

    Events behind an End are a mistake of the script and raise ValueError; a script without an End leaves the attempt open.
    """
    noted = Notes() if notes is None else notes
    for stage in stages:
        turn = stage.prepare(turn, noted)
    receivers = [receiver for stage in stages if (receiver := stage.open(turn, noted)) is not None]
    return Played(turn, through(receivers, events), noted)


def through(receivers: Sequence[Receiver], events: Iterable[Event]) -> list[Event]:
    """Send events through receivers, each feeding the next."""
    out: list[Event] = []
    ended = False
    for event in events:
        if ended:
            raise ValueError("the script goes on after its End")
        ended = isinstance(event, Finish | Failed)
        batch = [event]
        for receiver in receivers:
            batch = [made for one in batch for made in _step(receiver, one)]
        out += batch
    return out


def converse(engine: Engine, script: Iterable[Happening | tuple[float, Happening]], now: float = 0.0) -> Iterator[Step]:
    """Start the engine, then hand in the happenings one by one; `(seconds, happening)` lets that much time pass before it."""
    yield Step(None, engine.start(now))
    for line in script:
        if isinstance(line, tuple):
            waited, happening = line
            now += waited
        else:
            happening = line
        yield Step(happening, engine.receive(happening, now))


def _step(receiver: Receiver, event: Event) -> list[Event]:
    return receiver.close(event) if isinstance(event, Finish | Failed) else receiver.feed(event)

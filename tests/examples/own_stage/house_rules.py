"""Write your own stage: this file is the guide, and a test runs it as it stands.

A stage is a class with a name, built once per route from that route's Settings. On the way down `prepare` gets the turn and returns it,
the very same object when it changes nothing, a copy by `msgspec.structs.replace` when it does. On the way up `open` gives a receiver
for the answer of one attempt: `feed` takes one event and returns those that go on, `close` takes the last one. A stage that only
shapes requests returns None from `open`.

This one puts a house rule at the head of every conversation, and keeps the model's reasoning from clients. Its text comes from the
configuration:

    stages = ["normalize", "history_guard", "house_rules", "prompt_contract", "upstream", "sieve", "retry_on_refusal", "re_encode"]

    [defaults.stages.house_rules]
    text = "Answer in British English."

It is found through an entry point of the package that brings it (pyproject.toml):

    [project.entry-points."toolgraft.stages"]
    house_rules = "house_rules:HouseRules"

Rules of the house: no I/O, no clock, no logging library; say what happened through `note`, with a member of `Noted` and small fields.
Raise `StageError` to refuse a request in the client's own protocol. Whatever else goes wrong in here is noted and counted, and the turn
goes on without this stage. `per_attempt = True` makes `prepare` run again for every retry.
"""

from __future__ import annotations

import msgspec

from pipeline.events import End, Event, ReasoningDelta
from pipeline.settings import Settings
from pipeline.stage import Note, Receiver
from pipeline.turn import Message, Role, Text, Turn
from pipeline.verdicts import Noted


class HouseRules:
    """Adds one rule to each conversation and keeps reasoning back."""

    name = "house_rules"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Read this stage's own options once; decide here what need not be decided per turn."""
        self._text = str(settings.stages.get(self.name, {}).get("text", ""))

    def prepare(self, turn: Turn, note: Note) -> Turn:
        """Put the rule first."""
        if not self._text:
            return turn
        note(Noted.CONTENT_REPLACED, kind="house_rule", count=1)
        rule = Message(Role.SYSTEM, (Text(self._text),))
        return msgspec.structs.replace(turn, messages=(rule, *turn.messages))

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        """Filter each attempt's answer."""
        return _WithoutReasoning()


class _WithoutReasoning:
    def feed(self, event: Event) -> list[Event]:
        return [] if isinstance(event, ReasoningDelta) else [event]

    def close(self, end: End) -> list[Event]:
        return [end]

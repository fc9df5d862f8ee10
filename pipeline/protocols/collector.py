"""What a reader, or a writer to an upstream, leaves out or replaces, told once to the log and to the client.

In: names from two fixed lists. Out: notes for the stage, and the warnings of the turn. Promise: no word of the client's gets into either.
"""

from __future__ import annotations

from pipeline.stage import Note
from pipeline.verdicts import DroppedParameter, Noted, ReplacedContent

_BY_NAME = {member.value: member for member in DroppedParameter}


class Collector:
    """Gathers what one request lost on the way in."""

    __slots__ = ("_dropped", "_replaced")

    def __init__(self) -> None:
        """Begin with nothing lost."""
        self._dropped: dict[DroppedParameter, None] = {}
        self._replaced: dict[ReplacedContent, int] = {}

    def drop(self, parameter: DroppedParameter) -> None:
        """Record that a field, or a kind of tool, is left out."""
        self._dropped[parameter] = None

    def drop_field(self, name: str) -> None:
        """Record that a field of this name, known or not, is left out."""
        self.drop(_BY_NAME.get(name, DroppedParameter.OTHER))

    def replace(self, kind: ReplacedContent) -> None:
        """Record that a piece of content is not passed on as it was."""
        self._replaced[kind] = self._replaced.get(kind, 0) + 1

    @property
    def dropped(self) -> tuple[DroppedParameter, ...]:
        """What was left out, each once, in order."""
        return tuple(self._dropped)

    @property
    def replaced(self) -> tuple[tuple[ReplacedContent, int], ...]:
        """Which kinds of content were replaced, and how often each."""
        return tuple(self._replaced.items())

    def warnings(self) -> tuple[str, ...]:
        """The warnings for the client, one a name."""
        return (*(f"dropped {name}" for name in self._dropped), *(f"replaced {kind}" for kind in self._replaced))

    def tell(self, note: Note) -> None:
        """Say it to the stage's side channel."""
        for name in self._dropped:
            note(Noted.PARAMETER_DROPPED, parameter=name)
        for kind, count in self._replaced.items():
            note(Noted.CONTENT_REPLACED, kind=kind, count=count)


def silent(_outcome: Noted, **_fields: object) -> None:
    """A note that nobody hears, for readers that run outside a chain."""

"""Messages as a reader lines them up, with the rules that hold for every protocol (N5).

In: parts in the order of the request. Out: messages without empty ones. Promise: something is always left. A last user message that is empty
stays, as an empty text, since the turn is the user's.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.turn import Message, Part, Role, Text


class Transcript:
    """Collects messages. Neighbours of one role stay apart unless the reader says that they belong together."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        """Begin empty."""
        self._lines: list[tuple[Role, list[Part], str | None]] = []

    def add(self, role: Role, parts: Sequence[Part], name: str | None = None) -> None:
        """Add a message of its own."""
        self._lines.append((role, list(parts), name))

    def join(self, role: Role, parts: Sequence[Part]) -> None:
        """Add to the last message when it has this role, else as a message of its own."""
        if self._lines and self._lines[-1][0] is role:
            self._lines[-1][1].extend(parts)
        else:
            self.add(role, parts)

    @property
    def last(self) -> tuple[Role, list[Part]] | None:
        """The last message so far."""
        return self._lines[-1][:2] if self._lines else None

    def messages(self) -> tuple[Message, ...]:
        """All that has content."""
        found = [Message(role, tuple(parts), name) for role, parts, name in self._lines if parts]
        if not found or (self._lines[-1][0] is Role.USER and not self._lines[-1][1]):
            found.append(Message(Role.USER, (Text(""),)))
        return tuple(found)

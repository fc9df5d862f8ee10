"""Ids for calls that share one, or have none (G3).

In: all ids of a history, in order. Out: new ones where needed. Promise: the first call of an id keeps it, so that what was
sent once is sent the same again; new ids are taken by nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_STEM = 34
"""Strict servers refuse ids of more than 40 characters."""


class UniqueIds:
    """Hands out ids, in the order of the calls."""

    def __init__(self, known: Iterable[str]) -> None:
        """Take all ids of the history, so that a new one never meets an old one."""
        self._taken = set(known)
        self._given: set[str] = set()
        self._next: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        """The wanted id for who asks first; for others, and for an empty id, one that is like it and free."""
        if wanted and wanted not in self._given:
            self._given.add(wanted)
            return wanted
        stem = wanted[:MAX_STEM] or "call"
        number = self._next.get(stem, 2 if wanted else 1)
        while f"{stem}_{number}" in self._taken:
            number += 1
        self._next[stem] = number + 1
        fresh = f"{stem}_{number}"
        self._taken.add(fresh)
        self._given.add(fresh)
        return fresh

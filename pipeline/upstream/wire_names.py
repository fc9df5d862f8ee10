"""Tool names and call ids as a strict upstream takes them, and the way back (X27, X31).

In: the caller's names and ids, opaque and of any shape. Out: ones that fit the strictest reader, the same ones for the same input, so
that request and answer agree without shared state. A name or id that fits already is its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireNames:
    """Names of one turn, both ways. Built from the declared tools; names of the history are taken as they come."""

    __slots__ = ("_back", "_wire")

    def __init__(self, names: Iterable[str]) -> None:
        """Take the declared names in order; those that fit keep theirs."""
        self._wire: dict[str, str] = {}
        self._back: dict[str, str] = {}
        listed = list(dict.fromkeys(names))
        for name in sorted(listed, key=lambda one: _NAME.fullmatch(one) is None):
            self.wire(name)

    def wire(self, name: str) -> str:
        """The name as the upstream sees it."""
        found = self._wire.get(name)
        if found is None:
            base = found = name if _NAME.fullmatch(name) else (_UNFIT.sub("_", name)[:64] or "tool")
            number = 2
            while found in self._back:
                found = f"{base[:60]}_{number}"
                number += 1
            self._wire[name] = found
            self._back[found] = name
        return found

    def back(self, name: str) -> str:
        """The caller's name for one that the upstream wrote; one never seen stays as it is."""
        return self._back.get(name, name)


class WireIds:
    """Call ids of one request. Calls and their results share the ids, so equal ids stay equal."""

    __slots__ = ("_taken", "_wire")

    def __init__(self) -> None:
        """Begin with no id seen."""
        self._wire: dict[str, str] = {}
        self._taken: set[str] = set()

    def wire(self, call_id: str) -> str:
        """The id as the upstream sees it."""
        found = self._wire.get(call_id)
        if found is None:
            found = call_id
            number = len(self._wire) + 1
            while found in self._taken or not _ID.fullmatch(found):
                found = f"call_{number}"
                number += 1
            self._wire[call_id] = found
            self._taken.add(found)
        return found

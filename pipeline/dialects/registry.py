"""Find dialects by name: the entry-point group `toolgraft.dialects`, built-in ones through the same door as anybody's.

In: names. Out: Dialect objects, each made once per process. An entry point holds a Dialect, or a factory without arguments (a class, say).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pipeline.dialects.dialect import Dialect

GROUP = "toolgraft.dialects"


class UnknownDialectError(ValueError):
    """No installed dialect has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        """Name it, and those that are there."""
        super().__init__(f"unknown dialect {name!r}; known: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)


@cache
def known() -> dict[str, EntryPoint]:
    """Every installed dialect, by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


@cache
def _one(name: str) -> Dialect:
    found = known().get(name)
    if found is None:
        raise UnknownDialectError(name, list(known()))
    loaded = found.load()
    dialect: Dialect = loaded() if callable(loaded) else loaded
    return dialect


def load(names: Sequence[str]) -> tuple[Dialect, ...]:
    """The named dialects, in this order. Raises UnknownDialectError."""
    return tuple(_one(name) for name in names)

"""Bytes as dice: one stream of choices from which texts, values and calls are built.

In: bytes, from hypothesis, from a fuzzer, or from a file. Out: choices. When the bytes are used up every throw is 0, and 0 is always
the simplest choice: so a shorter or smaller input builds a simpler thing, and whoever shrinks the bytes shrinks what was built.
Promise: the same bytes make the same choices for ever; never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_One = TypeVar("_One")


class Dice:
    """Throws read from bytes."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        """Take the bytes; nothing is thrown yet."""
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """0 to 255."""
        at = self._at
        if at >= len(self._data):
            return 0
        self._at = at + 1
        return self._data[at]

    def below(self, limit: int) -> int:
        """0 to limit - 1; at most 65,536 different ones."""
        if limit <= 1:
            return 0
        value = self.byte()
        if limit > 256:
            value = value * 256 + self.byte()
        return value % limit

    def one_of(self, options: Sequence[_One]) -> _One:
        """One of these; the first is the simplest."""
        return options[self.below(len(options))]

    def seldom(self, times: int) -> bool:
        """True once in so many times."""
        return self.below(times) == times - 1

    def some(self, make: Callable[[], _One], most: int) -> list[_One]:
        """None, one or several of these."""
        return [make() for _ in range(self.below(most + 1))]

"""What a dialect is: one textual format for calls, both directions in one room.

In: tools, calls, results of the caller. Out: text that teaches, text that projects history, and a parser for what a model writes.
Promise: `parser` reads back exactly what `render_calls` wrote. The sieve and the contract know this protocol, never a concrete dialect.
Third-party dialects load through the entry-point group `toolgraft.dialects` (name -> a Dialect object or a factory without arguments).
The parsing side, `openers`, `spares` and `parser`, speaks the words of `pipeline/dialects/block.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline.dialects.block import BlockParser, Opener, Start
from pipeline.turn import Call, Tool


class Dialect(Protocol):
    """One format."""

    name: str
    markers: tuple[str, ...]
    """Literal keywords that echo escaping breaks (C10)."""
    spares: tuple[Opener, ...]
    """Closers that may stand once too often right behind a block; they are swallowed there (S6)."""

    def describe(self, tools: Sequence[Tool], example: Call | None) -> str:
        """The format rules of the contract, with `example` (one of the caller's own tools) shown as a legal block."""

    def render_calls(self, calls: Sequence[Call]) -> str:
        """The block or blocks as the model should have written them."""

    def openers(self, *, wide: bool) -> tuple[Opener, ...]:
        """How a block begins: the same patterns decide what is held back and what is parsed (S2)."""

    def parser(self, start: Start) -> BlockParser:
        """A parser for one block that begins with one of the openers."""

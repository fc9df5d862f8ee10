"""Hypothesis strategies over the grammar of `grammar.py`. With `conformance.py` the only shipped modules that need hypothesis.

In: a function from `Dice` to a value. Out: a strategy of such values. One draw of bytes a value, so thousands of inputs take seconds,
and shrinking the bytes shrinks the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from pipeline.testing.dice import Dice

_Built = TypeVar("_Built")


def built(make: Callable[[Dice], _Built], throws: int = 120) -> st.SearchStrategy[_Built]:
    """Values that `make` builds from some bytes; `throws` is the most of them."""
    return _built(make, throws)


@st.composite
def _built(draw: st.DrawFn, make: Callable[[Dice], _Built], throws: int) -> _Built:
    # A composite, not a map: a counterexample is then shown as the value, not as the bytes it was built from.
    return make(Dice(draw(st.binary(min_size=min(24, throws), max_size=throws))))


def cuts() -> st.SearchStrategy[list[int]]:
    """Offsets to cut at, most of them near the start; those behind the end of a text count as its end."""
    return st.binary(max_size=24).map(lambda data: [high * (1 + low % 3) for high, low in zip(data[::2], data[1::2], strict=False)])

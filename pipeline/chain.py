"""The ordered list of stages, and the only file that names concrete ones.

In: stage names in order (the default list, or a configuration's) and a route's Settings. Out: a Chain, built once per route. Stages and
dialects load by entry point (groups `toolgraft.stages`, `toolgraft.dialects`), the built-in ones through the same door as anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pipeline.roles import Chain, ChainError
from pipeline.settings import Settings

DEFAULT_STAGES: tuple[str, ...] = (
    "normalize",
    "history_guard",
    "prompt_contract",
    "upstream",
    "sieve",
    "retry_on_refusal",
    "re_encode",
)
REQUIRED_STAGES: tuple[str, ...] = ("normalize", "upstream", "re_encode")
STAGE_GROUP = "toolgraft.stages"


@cache
def stage_entry_points() -> dict[str, EntryPoint]:
    """Every stage that is installed, by name."""
    return {entry.name: entry for entry in entry_points(group=STAGE_GROUP)}


__all__ = ["DEFAULT_STAGES", "REQUIRED_STAGES", "STAGE_GROUP", "Chain", "ChainError", "build", "stage_entry_points"]


def build(names: Sequence[str], settings: Settings) -> Chain:
    """Load and construct the named stages. Others may stand anywhere between the built-in ones, which keep their order.

    Raises ChainError for an unknown, doubled, missing or misplaced name, naming the known ones.
    """
    known = stage_entry_points()
    for name in names:
        if name not in known:
            raise ChainError(f"stages: unknown stage {name!r}; known: {', '.join(sorted(known))}")
        if list(names).count(name) > 1:
            raise ChainError(f"stages: {name!r} stands twice in the list")
    for name in REQUIRED_STAGES:
        if name not in names:
            raise ChainError(f"stages: {name!r} cannot be left out")
    ours = [name for name in names if name in DEFAULT_STAGES]
    if ours != [name for name in DEFAULT_STAGES if name in ours]:
        raise ChainError(f"stages: the built-in ones keep their order: {', '.join(name for name in DEFAULT_STAGES if name in ours)}")
    return Chain([known[name].load()(settings) for name in names], settings)

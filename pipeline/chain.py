"""The ordered list of stages, and the only file that names concrete ones.

In: stage names in order (the default list, or a configuration's) and a route's Settings. Out: a Chain, built once per route. Stages and
dialects load by entry point (groups `toolgraft.stages`, `toolgraft.dialects`), the built-in ones through the same door as anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from pipeline.settings import Settings
from pipeline.stage import Encoding, Judge, Requester, Stage

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
_Role = TypeVar("_Role")
STAGE_GROUP = "toolgraft.stages"


class ChainError(ValueError):
    """The list of stages cannot work; the message says why and what is known."""


class Chain:
    """Stages in order, with the four special rooms found once.

    `once` prepare a turn one time, `each` prepare it anew for every attempt. `receivers` see an attempt's events in order.
    """

    __slots__ = ("each", "encoding", "judge", "once", "receivers", "requester", "settings", "stages")

    def __init__(self, stages: Sequence[Stage], settings: Settings) -> None:
        """Sort the stages into their roles. Raises ChainError when a room that must be there is missing."""
        self.settings = settings
        self.stages = tuple(stages)
        first = next((at for at, stage in enumerate(stages) if stage.per_attempt), len(stages))
        self.once = self.stages[:first]
        self.each = self.stages[first:]
        self.requester = _only([stage for stage in self.stages if isinstance(stage, Requester)], "upstream stage (build, read, failure)")
        self.encoding = _only([stage for stage in self.stages if isinstance(stage, Encoding)], "encoding stage (encode)")
        judges = [stage for stage in self.stages if isinstance(stage, Judge)]
        if len(judges) > 1:
            raise ChainError(f"stages: more than one judge: {', '.join(stage.name for stage in judges)}")
        self.judge: Judge | None = judges[0] if judges else None
        self.receivers = self.stages


def _only(found: list[_Role], what: str) -> _Role:
    if len(found) != 1:
        raise ChainError(f"stages: need exactly one {what}, found {len(found)}")
    return found[0]


@cache
def stage_entry_points() -> dict[str, EntryPoint]:
    """Every stage that is installed, by name."""
    return {entry.name: entry for entry in entry_points(group=STAGE_GROUP)}


def build(names: Sequence[str], settings: Settings) -> Chain:
    """Load and construct the named stages. Raises ChainError for an unknown, doubled or missing name, naming the known ones."""
    known = stage_entry_points()
    for name in names:
        if name not in known:
            raise ChainError(f"stages: unknown stage {name!r}; known: {', '.join(sorted(known))}")
        if list(names).count(name) > 1:
            raise ChainError(f"stages: {name!r} stands twice in the list")
    for name in REQUIRED_STAGES:
        if name not in names:
            raise ChainError(f"stages: {name!r} cannot be left out")
    return Chain([known[name].load()(settings) for name in names], settings)

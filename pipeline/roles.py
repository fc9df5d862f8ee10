"""Stages in order, sorted into the roles they play, for one route.

In: constructed stages and the route's Settings. Out: a Chain that the engine runs. Knows the Stage protocol and no concrete stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pipeline.settings import Settings
from pipeline.stage import Encoding, Judge, Requester, Stage

_Role = TypeVar("_Role")


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

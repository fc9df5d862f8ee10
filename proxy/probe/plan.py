"""Which settings a probe tries, in which order, and which it recommends.

One factor at a time from the default: dialect, example turns, wording, tier. The default gets every task; of what is left, a share is kept
for the best combination, and the rest goes to the variants by turns, the most important tasks first. A value wins its factor only where it
beats the default on the tasks that both were asked; then the combination of the winners is asked. Recommended is what gained most over the
default on the tasks both were asked; what is left of the budget goes into asking it the rest, as long as it stays the best. No more than `budget` generations are made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from statistics import median

import msgspec

from pipeline.contract.block import Brief, write_tier
from pipeline.dialects import registry
from pipeline.protocols.openai_chat.read import read_request
from pipeline.settings import Settings
from pipeline.turn import Turn
from pipeline.verdicts import Api, Tier
from proxy.probe.generation import Generation
from proxy.probe.tasks import Task

Ask = Callable[[Task, Settings], Awaitable[Generation]]
MAX_EXAMPLE_TURNS = 3
_DOUBT = 2


class Variant(msgspec.Struct, frozen=True):
    """One way to set a route. `tier` None leaves the tier to the size limit."""

    factor: str
    settings: Settings
    tier: Tier | None = None

    @property
    def name(self) -> str:
        """What sets it apart, for people."""
        match self.factor:
            case "dialect":
                return f"dialect {self.settings.contract}"
            case "example_turns":
                return f"{self.settings.example_turns} example turns"
            case "wording":
                return f"{'neutral' if self.settings.neutral_contract else 'firm'} wording"
            case "tier":
                return f"tier {self.tier}"
        return self.factor


class Score(msgspec.Struct):
    """A variant and what it was asked."""

    variant: Variant
    generations: list[Generation] = []

    @property
    def right(self) -> int:
        """Right answers."""
        return sum(one.right for one in self.generations)

    @property
    def total(self) -> int:
        """Answers."""
        return len(self.generations)

    @property
    def rate(self) -> float:
        """The share of right answers."""
        return self.right / self.total if self.generations else 0.0

    @property
    def seconds(self) -> float:
        """The median time of an answer."""
        return median(one.seconds for one in self.generations) if self.generations else 0.0

    def on(self, tasks: set[str]) -> int:
        """Right answers to these tasks."""
        return sum(one.right for one in self.generations if one.task in tasks)

    @property
    def tasks(self) -> set[str]:
        """What was asked."""
        return {one.task for one in self.generations}


class Probe:
    """A probe on its way. `scores` fills while `run` is iterated; `best` is what is recommended so far."""

    def __init__(self, ask: Ask, tasks: Sequence[Task], budget: int, default: Settings | None = None) -> None:
        """Plan within `budget` generations. `default` is what every variant differs from in one thing."""
        self._ask = ask
        self._tasks = tuple(tasks)
        self.budget = budget
        self.spent = 0
        self.default = default or Settings()
        self.scores: list[Score] = [Score(Variant("default", self.default))]
        self.best = self.scores[0]

    async def run(self) -> AsyncIterator[tuple[Score, Generation]]:
        """Make the generations, one after another; yields each with its score."""
        base = self.scores[0]
        async for made in self._fill(base, self._tasks):
            yield made
        if base.total and all(one.error for one in base.generations):
            return  # nothing answers: more questions would tell no more
        tried = [Score(variant) for variant in self.variants()]
        self.scores += tried
        kept = min((self.budget - self.spent) // 4, len(self._tasks))
        for task in self._tasks:
            for score in tried:
                if self.spent < self.budget - kept:
                    async for made in self._fill(score, (task,)):
                        yield made
        common = [task for task in self._tasks if any(task.id in score.tasks for score in tried)]
        async for made in self._fill(self._combined(), common):
            yield made
        while True:
            self.best = max(self.scores, key=self._gain)
            before = self.spent
            missing = [task for task in self._tasks if task.id not in self.best.tasks]
            async for made in self._fill(self.best, missing[:1]):
                yield made
            if self.spent == before:
                return

    def variants(self) -> Sequence[Variant]:
        """Every value of every factor but the default's own."""
        base = self.default
        change = msgspec.structs.replace
        return [
            *(Variant("example_turns", change(base, example_turns=n)) for n in range(MAX_EXAMPLE_TURNS + 1) if n != base.example_turns),
            *(Variant("dialect", change(base, contract=name)) for name in base.dialects if name != base.contract),
            *(Variant("tier", base, tier) for tier in (Tier.COMPACT, Tier.NAMES)),
            Variant("wording", change(base, neutral_contract=not base.neutral_contract)),
        ]

    async def _fill(self, score: Score, tasks: Sequence[Task]) -> AsyncIterator[tuple[Score, Generation]]:
        for task in tasks:
            if task.id in score.tasks:
                continue
            if self.spent >= self.budget:
                return
            self.spent += 1
            made = await self._ask(task, settings_for(score.variant, task))
            score.generations.append(made)
            yield score, made

    def _gain(self, score: Score) -> tuple[float, int]:
        """How much more of the same tasks it did than the default; few tasks count for less. The default wins a draw."""
        base = self.scores[0]
        gain = (score.on(score.tasks) - base.on(score.tasks)) / (score.total + _DOUBT)
        return gain, score.total if gain > 0 or score is base else -1

    def _combined(self) -> Score:
        """The winners of all factors together: the default, a variant that was tried, or a new one."""
        base = self.scores[0]
        winners: dict[str, Score] = {}
        for score in self.scores[1:]:
            gain = score.on(score.tasks) - base.on(score.tasks)
            best = winners.get(score.variant.factor)
            if gain > 0 and (best is None or score.on(score.tasks) > best.on(best.tasks)):
                winners[score.variant.factor] = score
        if not winners:
            return base
        if len(winners) == 1:
            return next(iter(winners.values()))
        settings, tier = self.default, None
        for factor, score in winners.items():
            given = score.variant.settings
            match factor:
                case "example_turns":
                    settings = msgspec.structs.replace(settings, example_turns=given.example_turns)
                case "dialect":
                    settings = msgspec.structs.replace(settings, contract=given.contract)
                case "wording":
                    settings = msgspec.structs.replace(settings, neutral_contract=given.neutral_contract)
                case _:
                    tier = score.variant.tier
        score = Score(Variant("all of the best", settings, tier))
        self.scores.append(score)
        return score


def settings_for(variant: Variant, task: Task) -> Settings:
    """The variant's settings for this task: a tier is asked for through the size limit, which depends on the tools."""
    if variant.tier is None:
        return variant.settings
    return msgspec.structs.replace(variant.settings, contract_max_bytes=limit_for(variant, task))


def limit_for(variant: Variant, task: Task) -> int:
    """The smallest `contract_max_bytes` at which this tier still fits the task's tools."""
    settings = variant.settings
    turn = read_request(
        Turn(api=Api.OPENAI_CHAT, body={"model": "m", "messages": list(task.messages), "tools": list(task.tools)}), _unheard, strict=False
    )
    (dialect,) = registry.load((settings.contract,))
    return write_tier(Brief(turn.tools, dialect, neutral=settings.neutral_contract), variant.tier or Tier.FULL).size


def _unheard(*_: object, **__: object) -> None:
    """Nobody listens."""

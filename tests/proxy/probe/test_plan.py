"""The plan on answers that a rule gives: budget, order, what is recommended."""

import pytest

from pipeline.settings import Settings
from pipeline.verdicts import Verdict
from proxy.probe.generation import Generation
from proxy.probe.plan import Probe, limit_for, settings_for
from proxy.probe.tasks import TASKS


async def run(rule, budget=60, **options):
    asked = []

    async def ask(task, settings):
        asked.append((task.id, settings))
        good = rule(task, settings)
        return Generation(task.id, "" if good else "no call", Verdict.CALL if good else Verdict.TEXT, 1.0, 100, 10)

    probe = Probe(ask, TASKS, budget, **options)
    async for _ in probe.run():
        pass
    return probe, asked


async def test_the_default_stays_where_nothing_beats_it():
    probe, asked = await run(lambda _task, _settings: True)
    assert probe.best is probe.scores[0]
    assert probe.scores[0].total == len(TASKS)
    assert len(asked) == probe.spent <= 60
    assert {score.variant.factor for score in probe.scores} == {"default", "example_turns", "dialect", "tier", "wording"}


async def test_one_factor_is_changed_at_a_time():
    probe, _ = await run(lambda _task, _settings: False)
    base = probe.default
    for score in probe.scores[1:]:
        given = score.variant.settings
        changed = [
            given.contract != base.contract,
            given.example_turns != base.example_turns,
            given.neutral_contract != base.neutral_contract,
            score.variant.tier is not None,
        ]
        assert sum(changed) == 1, score.variant.name


async def test_a_better_value_is_recommended_and_asked_in_full():
    probe, _ = await run(lambda _task, settings: settings.example_turns == 3)
    assert probe.best.variant.settings.example_turns == 3
    assert probe.best.total == len(TASKS)


async def test_two_better_values_are_combined():
    def rule(task, settings):
        return (task.id in ("single", "choice") and settings.example_turns == 3) or (
            task.id == "result_answer" and settings.contract == "dsml"
        )

    probe, _ = await run(rule)
    best = probe.best.variant
    assert (best.settings.example_turns, best.settings.contract) == (3, "dsml")
    assert probe.best.right == 3


async def test_a_combination_that_disappoints_is_not_recommended():
    def rule(task, settings):
        changed = (settings.example_turns == 3) + (settings.contract == "dsml")
        return changed == 1 or (changed == 0 and task.id == "no_tool")

    probe, _ = await run(rule)
    assert probe.scores[-1].variant.factor == "all of the best"
    assert probe.best.variant.factor in ("example_turns", "dialect")


@pytest.mark.parametrize("budget", [1, 5, 9, 10, 30, 60, 500])
async def test_the_budget_is_kept(budget):
    probe, asked = await run(lambda _task, settings: settings.example_turns > 1, budget)
    assert len(asked) == probe.spent <= budget
    assert len({(task, repr(settings)) for task, settings in asked}) == len(asked)


async def test_where_nothing_answers_nothing_more_is_asked():
    async def ask(task, _settings):
        return Generation(task.id, "", None, 1.0, error="the upstream cannot be reached")

    probe = Probe(ask, TASKS, 60)
    async for _ in probe.run():
        pass
    assert probe.spent == len(TASKS)
    assert len(probe.scores) == 1


def test_a_tier_is_asked_for_by_the_size_that_just_fits():
    probe = Probe(None, TASKS, 60)
    for variant in probe.variants():
        sizes = [settings_for(variant, task).contract_max_bytes for task in TASKS]
        if variant.tier is None:
            assert set(sizes) == {Settings().contract_max_bytes}
        else:
            assert sizes == [limit_for(variant, task) for task in TASKS]
            assert max(sizes) < 8000

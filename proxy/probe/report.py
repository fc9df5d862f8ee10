"""What a probe found, as a table, as JSON, and as a configuration to start from.

In: a probe that has run. Out: text. No prompt and no answer is in it, and no key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from pipeline.settings import Settings
from proxy.probe.plan import Probe, Score, limit_for
from proxy.probe.tasks import Task

_KEYS = ("contract", "example_turns", "neutral_contract")


def as_json(probe: Probe, tasks: Sequence[Task], *, upstream: str, model: str, key_env: str | None) -> Mapping[str, Any]:
    """Everything, for programs."""
    return {
        "upstream": upstream,
        "model": model,
        "budget": probe.budget,
        "generations": probe.spent,
        "variants": [_variant(score) for score in probe.scores],
        "recommended": probe.best.variant.name,
        "config": as_toml(probe, tasks, upstream=upstream, model=model, key_env=key_env),
    }


def _variant(score: Score) -> Mapping[str, Any]:
    settings = score.variant.settings
    return {
        "name": score.variant.name,
        "contract": settings.contract,
        "example_turns": settings.example_turns,
        "neutral_contract": settings.neutral_contract,
        "tier": score.variant.tier,
        "right": score.right,
        "total": score.total,
        "rate": round(score.rate, 3),
        "median_seconds": round(score.seconds, 3),
        "input_tokens": sum(one.input_tokens for one in score.generations),
        "output_tokens": sum(one.output_tokens for one in score.generations),
        "tokens_estimated": any(one.estimated for one in score.generations),
        "tasks": [
            {"task": one.task, "right": one.right, "fault": one.fault, "error": one.error, "verdict": one.verdict}
            for one in score.generations
        ],
    }


def as_tables(probe: Probe, tasks: Sequence[Task]) -> list[RenderableType]:
    """For people: the variants, then the tasks as the recommended one did them."""
    variants = Table(title="Variants", title_justify="left")
    for column in ("variant", "right", "rate", "seconds", "tokens", "what went wrong"):
        variants.add_column(column, justify="left" if column in ("variant", "what went wrong") else "right")
    for score in probe.scores:
        name = f"{score.variant.name}{' *' if score is probe.best else ''}"
        if not score.generations:
            variants.add_row(name, "-", "-", "-", "-", "not asked")
            continue
        count = score.total
        about = "~" if any(one.estimated for one in score.generations) else ""
        variants.add_row(
            name,
            f"{score.right}/{count}",
            f"{score.rate:.0%}",
            f"{score.seconds:.2f}",
            f"{about}{sum(one.input_tokens for one in score.generations) // count} in, "
            f"{sum(one.output_tokens for one in score.generations) // count} out",
            escape(_faults(score)),
        )
    done = {one.task: one for one in probe.best.generations}
    single = Table(title=f"Tasks, {probe.best.variant.name}", title_justify="left")
    for column in ("task", "about", "right", "what went wrong", "verdict"):
        single.add_column(column)
    for task in tasks:
        one = done.get(task.id)
        if one is None:
            single.add_row(task.id, task.about, "-", "not asked", "")
        else:
            single.add_row(task.id, task.about, "yes" if one.right else "no", escape(one.error or one.fault), one.verdict or "")
    return [variants, single]


def _faults(score: Score) -> str:
    counted = Counter(one.error or one.fault for one in score.generations if not one.right)
    return ", ".join(f"{fault} ({count})" if count > 1 else fault for fault, count in counted.most_common())


def as_toml(probe: Probe, tasks: Sequence[Task], *, upstream: str, model: str, key_env: str | None) -> str:
    """A configuration with the recommended settings: what differs from the defaults, and where the model is."""
    best = probe.best
    settings, plain = best.variant.settings, Settings()
    lines = ["[upstreams.main]", f"url = {_string(upstream)}"]
    if key_env:
        lines.append(f"key_env = {_string(key_env)}")
    lines += ["", "[[routes]]", f"model = {_string(model)}"]
    if best.generations:
        lines.append(f"# {best.right} of {best.total} tasks right")
    for key in _KEYS:
        value = getattr(settings, key)
        if value != getattr(plain, key):
            lines.append(f"{key} = {_string(value) if isinstance(value, str) else str(value).lower()}")
    if best.variant.tier is not None:
        asked = [task for task in tasks if task.id in best.tasks] or list(tasks)
        lines += [
            f"# shows small sets of tools at the {best.variant.tier} tier",
            f"contract_max_bytes = {max(limit_for(best.variant, task) for task in asked)}",
        ]
    return "\n".join(lines) + "\n"


def _string(value: str) -> str:
    escaped = "".join(
        f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char for char in value.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def show(console: Console, probe: Probe, tasks: Sequence[Task], toml: str) -> None:
    """Print it all for people."""
    for table in as_tables(probe, tasks):
        console.print(table)
        console.print()
    console.print(f"{probe.spent} generations of {probe.budget}. Recommended (*): {probe.best.variant.name}.")
    console.print()
    console.print(toml, markup=False, highlight=False, soft_wrap=True)

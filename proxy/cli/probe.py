"""`toolgraft probe`: how well does this model call tools through Toolgraft, and with which settings best?"""

from __future__ import annotations

import asyncio
import os

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline import json_values
from proxy.probe.generation import UPSTREAM, Prober
from proxy.probe.plan import Probe
from proxy.probe.report import as_json, as_toml, show
from proxy.probe.tasks import TASKS
from proxy.transport import Transport, UpstreamConfig


@click.command("probe")
@click.option("--upstream", required=True, help="Base URL of an OpenAI-compatible chat API.")
@click.option("--model", required=True, help="The model's name there.")
@click.option("--budget", type=click.IntRange(min=1), default=60, show_default=True, help="How many answers to ask for at the most.")
@click.option("--key-env", help="Environment variable with the upstream's key.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=1), default=300.0, show_default=True, help="Seconds for one answer.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object instead of tables.")
def command(upstream: str, model: str, budget: int, key_env: str | None, timeout_s: float, *, json_: bool) -> None:
    """Ask a model a small set of tool tasks, and print what works best for it.

    Tries dialects, example turns, wordings and tiers, one at a time from the default, then the best of all together. Prints success
    rates and a configuration to start from. Exit status 1 when the upstream never answered.
    """
    key = None
    if key_env:
        key = os.environ.get(key_env)
        if not key:
            raise click.UsageError(f"--key-env: the environment variable {key_env} is not set")
    try:
        config = UpstreamConfig(name=UPSTREAM, url=upstream, key=key)
    except ValueError as exc:
        raise click.UsageError(f"--upstream: {exc}") from None
    probe = asyncio.run(_probe(config, model, budget, timeout_s))
    if json_:
        click.echo(json_values.dumps(as_json(probe, TASKS, upstream=upstream, model=model, key_env=key_env)))
    else:
        show(Console(), probe, TASKS, as_toml(probe, TASKS, upstream=upstream, model=model, key_env=key_env))
    generations = [one for score in probe.scores for one in score.generations]
    if all(one.error for one in generations):
        click.echo(f"the upstream never answered: {generations[-1].error}", err=True)
        raise SystemExit(1)


async def _probe(config: UpstreamConfig, model: str, budget: int, timeout_s: float) -> Probe:
    transport = Transport([config])
    prober = Prober(transport, model, timeout_s)
    probe = Probe(prober.generate, TASKS, budget)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("asking", total=budget)
            async for score, made in probe.run():
                progress.update(bar, advance=1, description=f"{score.variant.name}: {made.task}")
    finally:
        await transport.close()
    return probe

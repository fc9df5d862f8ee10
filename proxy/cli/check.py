"""`toolgraft check`: is this configuration good? Names every fault with its key, its value and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pipeline.chain import build
from proxy.cli.serve import read_config


@click.command("check")
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="TOOLGRAFT_CONFIG", help="TOML configuration file.")
@click.option("--upstream", help="Base URL of the one upstream, instead of a configuration file.")
def command(file: Path | None, upstream: str | None) -> None:
    """Check a configuration and build its stages. Exit status 0 when it is good, 1 when it is not."""
    config = read_config(file, upstream, dict(os.environ))
    for at, route in enumerate(config.routes):
        try:
            build(config.stages, route.settings)
        except Exception as exc:  # noqa: BLE001 - a stage of a deployment's own may raise anything
            click.echo(f"routes[{at}]: its stages cannot be built: {type(exc).__name__}: {exc}", err=True)
            raise SystemExit(1) from None
    click.echo(f"good: {len(config.upstreams)} upstream(s), {len(config.routes)} route(s), stages {' > '.join(config.stages)}")

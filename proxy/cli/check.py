"""`toolgraft check`: is this configuration good? Names every fault with its key, its value and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pipeline.chain import ChainError
from proxy.cli.serve import read_config
from proxy.routing import build_chain


@click.command("check")
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="TOOLGRAFT_CONFIG", help="TOML configuration file.")
@click.option("--upstream", help="Base URL of the one upstream, instead of a configuration file.")
def command(file: Path | None, upstream: str | None) -> None:
    """Check a configuration and build its stages. Exit status 0 when it is good, 1 when it is not."""
    config = read_config(file, upstream, dict(os.environ))
    for route in config.routes:
        try:
            build_chain(config, route)
        except ChainError as exc:
            click.echo(str(exc), err=True)
            raise SystemExit(1) from None
    click.echo(f"good: {len(config.upstreams)} upstream(s), {len(config.routes)} route(s), stages {' > '.join(config.stages)}")

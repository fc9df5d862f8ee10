"""`toolgraft serve`: the proxy, from a configuration file or from one URL."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from pipeline.chain import ChainError
from proxy.config import Config, ConfigError, from_upstream_url, load
from proxy.config.write import to_toml


@click.command("serve")
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="TOOLGRAFT_CONFIG", help="TOML configuration file.")
@click.option("--upstream", help="Base URL of the one upstream, instead of a configuration file.")
@click.option("--host", help="Address to bind; goes before the configuration.")
@click.option("--port", type=int, help="Port to bind; goes before the configuration.")
@click.option("--admin-port", type=int, help="Port of the admin listener; goes before the configuration.")
@click.option("--workers", type=int, help="Worker processes; goes before the configuration.")
@click.option("--print-config", is_flag=True, help="Print every effective value as TOML, and end.")
def command(
    file: Path | None,
    upstream: str | None,
    host: str | None,
    port: int | None,
    admin_port: int | None,
    workers: int | None,
    *,
    print_config: bool,
) -> None:
    """Serve. JSON lines go to standard output."""
    environ = dict(os.environ)
    given = {"LISTEN__HOST": host, "LISTEN__PORT": port, "ADMIN__PORT": admin_port, "WORKERS": workers}
    environ |= {f"TOOLGRAFT_{name}": str(value) for name, value in given.items() if value is not None}
    config = read_config(file, upstream, environ)
    if print_config:
        click.echo(to_toml(config), nl=False)
        return
    if config.workers > 1:
        raise click.ClickException(f"workers = {config.workers}: this version serves with one process; run several behind nginx")
    from proxy.http_server import NoCParserError  # noqa: PLC0415 - printing a configuration needs no server
    from proxy.server import Addresses, serve  # noqa: PLC0415

    def ready(addresses: Addresses) -> None:
        if sys.stderr.isatty():
            click.echo(f"Toolgraft listens on http://{addresses.public[0]}:{addresses.public[1]}/v1", err=True)

    try:
        serve(config, environ, on_ready=ready)
    except (OSError, ChainError, NoCParserError) as exc:
        raise click.ClickException(str(exc)) from None


def read_config(file: Path | None, upstream: str | None, environ: dict[str, str]) -> Config:
    """The configuration that the options name. Every problem goes to standard error, one a line, and the exit status is 1."""
    if (file is None) == (upstream is None):
        raise click.UsageError("give either --config FILE or --upstream URL")
    try:
        return load(file, environ) if file is not None else from_upstream_url(upstream or "", environ)
    except ConfigError as exc:
        for problem in exc.problems:
            click.echo(problem, err=True)
        raise SystemExit(1) from None

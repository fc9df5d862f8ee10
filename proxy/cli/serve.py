"""`toolgraft serve`: the proxy, from a configuration file or from one URL."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.chain import ChainError
from proxy.config import Config, ConfigError, from_upstream_url, load
from proxy.config.write import shown
from proxy.standard_streams import hold_standard_streams

if TYPE_CHECKING:
    from proxy.systemd import Notifier


@click.command("serve")
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="TOOLGRAFT_CONFIG", help="TOML configuration file.")
@click.option("--upstream", help="Base URL of the one upstream, instead of a configuration file.")
@click.option("--host", help="Address to bind; goes before the configuration.")
@click.option("--port", type=int, help="Port to bind; goes before the configuration.")
@click.option("--admin-port", type=int, help="Port of the admin listener; goes before the configuration.")
@click.option("--workers", type=int, help="Worker processes; goes before the configuration.")
@click.option("--supervise", is_flag=True, help="Have a supervisor for a single worker too: then SIGHUP reloads the configuration.")
@click.option("--print-config", is_flag=True, help="Print every effective value as TOML, and end.")
def command(
    file: Path | None,
    upstream: str | None,
    host: str | None,
    port: int | None,
    admin_port: int | None,
    workers: int | None,
    *,
    supervise: bool,
    print_config: bool,
) -> None:
    """Serve. JSON lines go to standard output."""
    hold_standard_streams()
    environ = dict(os.environ)
    options = {"LISTEN__HOST": host, "LISTEN__PORT": port, "ADMIN__PORT": admin_port, "WORKERS": workers}
    environ |= {f"TOOLGRAFT_{name}": str(value) for name, value in options.items() if value is not None}
    config = read_config(file, upstream, environ)
    if print_config:
        click.echo(shown(config), nl=False)
        return
    from proxy.systemd import Notifier, SystemdError, take_sockets  # noqa: PLC0415 - printing a configuration needs no server

    try:
        given, notifier = take_sockets(environ), Notifier.take(environ)
        if config.workers > 1 or supervise:
            raise SystemExit(_supervise(config, lambda: _config(file, upstream, environ), environ, given, notifier))
        _serve(config, environ, given, notifier)
    except SystemdError as exc:
        raise click.ClickException(str(exc)) from None


def _serve(config: Config, environ: dict[str, str], given: tuple[socket.socket, ...], notifier: Notifier) -> None:
    """One process: it serves itself."""
    from proxy.http_server import NoCParserError  # noqa: PLC0415
    from proxy.server import Addresses, Binding, serve  # noqa: PLC0415
    from proxy.systemd import Unit  # noqa: PLC0415
    from proxy.telemetry.sink import LogSink  # noqa: PLC0415

    def ready(addresses: Addresses) -> None:
        if os.isatty(2):
            words = f"Toolgraft listens on http://{addresses.public[0]}:{addresses.public[1]}/v1"
            LogSink(fd=2).msg(words.encode())  # a terminal may be stopped, and the loop must not be

    try:
        serve(config, environ, Binding(socks=given), on_ready=ready, overseer=Unit(notifier))
    except (OSError, ChainError, NoCParserError) as exc:
        raise click.ClickException(str(exc)) from None


def _supervise(
    config: Config, reload: Callable[[], Config], environ: dict[str, str], given: tuple[socket.socket, ...], notifier: Notifier
) -> int:
    """Workers in processes of their own: this one only looks after them."""
    from proxy.supervisor import supervise  # noqa: PLC0415
    from proxy.supervisor.supervisor import announce  # noqa: PLC0415

    try:
        return supervise(config, reload, environ, given=given, notifier=notifier, on_ready=announce)
    except (OSError, ValueError) as exc:
        raise click.ClickException(str(exc)) from None


def _config(file: Path | None, upstream: str | None, environ: dict[str, str]) -> Config:
    """The configuration that the options name. Raises ConfigError."""
    return load(file, environ) if file is not None else from_upstream_url(upstream or "", environ)


def read_config(file: Path | None, upstream: str | None, environ: dict[str, str]) -> Config:
    """The configuration that the options name. Every problem goes to standard error, one a line, and the exit status is 1."""
    if (file is None) == (upstream is None):
        raise click.UsageError("give either --config FILE or --upstream URL")
    try:
        return _config(file, upstream, environ)
    except ConfigError as exc:
        for problem in exc.problems:
            click.echo(problem, err=True)
        raise SystemExit(1) from None

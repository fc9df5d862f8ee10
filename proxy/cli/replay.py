"""`toolgraft replay`: captured turns through today's pipeline, and what changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec


@click.command("replay")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--config", "file", type=click.Path(path_type=Path), envvar="TOOLGRAFT_CONFIG", help="TOML configuration; the defaults without it."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a turn.")
def command(files: tuple[Path, ...], file: Path | None, *, as_json: bool) -> None:
    """Run captured turns (`capture.dir`) through today's pipeline and show what changed.

    FILES are captures, or folders of them. Nothing is sent anywhere: the upstream's part is what was captured. Exit status 0 when no turn comes to
    something else than then, 1 when one does, 2 when one could not be replayed. A turn that its client or the end of the process cut short, or whose
    capture was cut, cannot be compared; its line says so.
    """
    from rich.console import Console  # noqa: PLC0415 - the other commands start without all this

    from pipeline.chain import ChainError  # noqa: PLC0415
    from proxy.config import ConfigError  # noqa: PLC0415
    from proxy.replay.captured import CaptureError, read_capture  # noqa: PLC0415
    from proxy.replay.compare import compare  # noqa: PLC0415
    from proxy.replay.plans import configured, defaults  # noqa: PLC0415
    from proxy.replay.run import replay  # noqa: PLC0415
    from proxy.replay.show import comparison_view  # noqa: PLC0415

    try:
        today = configured(file, os.environ) if file is not None else None
    except ConfigError as exc:
        for problem in exc.problems:
            click.echo(problem, err=True)
        raise SystemExit(2) from None
    except ChainError as exc:
        raise click.ClickException(str(exc)) from None
    console = Console(highlight=False)
    changed = broken = 0
    for path in _each(files):
        try:
            captured = read_capture(path)
        except CaptureError as exc:
            click.echo(str(exc), err=True)
            broken += 1
            continue
        config, plans = today or defaults(captured)
        found = compare(captured, replay(captured, plans, config.limits))
        changed += found.same is False
        if as_json:
            click.echo(msgspec.json.encode(found).decode())
        else:
            console.print(comparison_view(found))
    raise SystemExit(2 if broken else 1 if changed else 0)


def _each(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path

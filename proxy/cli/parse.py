"""`toolgraft parse`: runs the sieve offline, to tell parser faults from prompt faults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO

import click
from rich.console import Console

from pipeline import json_values
from proxy.offline.lines import BadLineError, answer, read, told
from proxy.offline.view import show


@click.command("parse")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--pretty", is_flag=True, help="Show for people where blocks were found, and why one was refused.")
@click.option("--raw", is_flag=True, help="The input is one model answer as it stands, not JSON lines.")
def command(file: BinaryIO, *, pretty: bool, raw: bool) -> None:
    """Read model answers from FILE or standard input, one JSON line each, and print what the sieve makes of them, one JSON line each.

    A line is {"id", "input" or "chunks", "tools"?, "dialects"?, "tolerance"?, "chunk"?, "finish"?}; `chunk` is a number of characters per
    piece, `finish` the finish reason (null: the stream was cut). A line that cannot be read gives a line with "error"; nothing stops the run.
    """
    if file.isatty():
        click.echo("reading standard input; end it with Ctrl-D", err=True)
    console = Console(highlight=False, soft_wrap=True)
    for line in _raw(file) if raw else map(_text, file):
        if not line.strip():
            continue
        try:
            asked = read(line)
        except BadLineError as exc:
            if pretty:
                console.print(f"error: {exc}", style="red", markup=False)
            else:
                _print({"id": exc.id, "error": str(exc)})
            continue
        reading = answer(asked)
        if pretty:
            show(console, asked, reading)
        else:
            _print(told(asked, reading))


def _raw(file: BinaryIO) -> Iterator[str]:
    yield json_values.dumps({"input": _text(file.read())})


def _text(data: bytes) -> str:
    # Bytes, for a text file would turn line ends that the sieve must see into others.
    return data.decode("utf-8", "replace")


def _print(line: dict[str, object]) -> None:
    sys.stdout.write(json_values.dumps(line) + "\n")
    sys.stdout.flush()

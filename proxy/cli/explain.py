"""`toolgraft explain`: reads the log and says which fault a turn had, on what evidence, and what to try next."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from pipeline.verdicts import Verdict
from proxy.explain.diagnosis import Diagnosis, diagnose
from proxy.explain.faults import Fault
from proxy.explain.follow import growing, stored
from proxy.explain.lines import LineReader
from proxy.explain.show import sum_view, turn_line, turn_view
from proxy.explain.summary import Summary
from proxy.explain.timeline import timeline
from proxy.explain.turn_log import Gatherer, TurnLog

_LOOK_EVERY_S = 0.2


@click.command("explain")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--follow", "-f", is_flag=True, help="Print each turn as it ends, and go on; files are followed as they grow.")
@click.option("--rid", multiple=True, help="Only the turn with this request id, as a timeline. May be given more than once.")
@click.option("--verdict", type=click.Choice([one.value for one in Verdict]), multiple=True, help="Only turns with this verdict.")
@click.option("--fault", type=click.Choice([one.value for one in Fault]), multiple=True, help="Only turns with this fault.")
@click.option("--each", is_flag=True, help="A timeline for each turn instead of the sum.")
@click.option(
    "--json", "as_json", is_flag=True, help="JSON: one object a turn with --rid, --each or --follow, else one object for the sum."
)
def command(
    files: tuple[Path, ...],
    rid: tuple[str, ...],
    verdict: tuple[str, ...],
    fault: tuple[str, ...],
    *,
    follow: bool,
    each: bool,
    as_json: bool,
) -> None:
    """Say which fault turns had, from JSON log lines in FILES or on standard input.

    Without --rid, --each or --follow it prints the sum over all turns. Exit status 0, or 1 when no turn was found.
    """
    if not files and sys.stdin.isatty():
        raise click.UsageError("give log files, or pipe a log in: toolgraft serve ... | toolgraft explain --follow")
    reader, gatherer, summary = LineReader(), Gatherer(), Summary()
    single = bool(rid) or each
    show = _Printer(as_json=as_json, whole=single)
    try:
        for log in _turns(_lines(files, follow=follow), reader, gatherer, follow=follow):
            diagnosis = diagnose(log)
            if _wanted(log, diagnosis, rid, verdict, fault):
                summary.add(log, diagnosis)
                if single or follow:
                    show.turn(log, diagnosis)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        sys.stderr.close()
        return
    if not single and not (follow and as_json):
        show.sum(summary.document() | {"process": gatherer.process.document(), "lines_skipped": reader.skipped})
    if not summary.turns:
        if single:
            click.echo("no such turn in this log", err=True)
        raise SystemExit(1)


def _lines(files: tuple[Path, ...], *, follow: bool) -> Iterable[bytes | None]:
    if not files:
        return sys.stdin.buffer
    return growing(files) if follow else stored(files)


def _turns(lines: Iterable[bytes | None], reader: LineReader, gatherer: Gatherer, *, follow: bool) -> Iterator[TurnLog]:
    for raw in lines:
        if raw is None:
            time.sleep(_LOOK_EVERY_S)
            continue
        line = reader.read(raw)
        log = None if line is None else gatherer.feed(line)
        if log is not None:
            yield log
    if not follow:
        yield from gatherer.close()


def _wanted(log: TurnLog, diagnosis: Diagnosis, rids: tuple[str, ...], verdicts: tuple[str, ...], faults: tuple[str, ...]) -> bool:
    verdict = (log.turn or {}).get("verdict")
    return (not rids or log.rid in rids) and (not verdicts or verdict in verdicts) and (not faults or diagnosis.fault in faults)


class _Printer:
    """Prints turns and the sum, for people or as JSON."""

    def __init__(self, *, as_json: bool, whole: bool) -> None:
        self._as_json = as_json
        self._whole = whole
        self._console = Console(highlight=False, soft_wrap=False)

    def turn(self, log: TurnLog, diagnosis: Diagnosis) -> None:
        if self._as_json:
            document: dict[str, Any] = msgspec.to_builtins(diagnosis)
            document["turn"] = log.turn
            if self._whole:
                document["timeline"] = msgspec.to_builtins(timeline(log))
            self._write(document)
        else:
            self._console.print(turn_view(log, diagnosis) if self._whole else turn_line(log, diagnosis))

    def sum(self, document: dict[str, Any]) -> None:
        if self._as_json:
            self._write(document)
            return
        self._console.print(sum_view(document))
        if document["lines_skipped"]:
            self._console.print(f"\n{document['lines_skipped']} lines are none of Toolgraft's.", style="dim")

    def _write(self, document: dict[str, Any]) -> None:
        click.echo(msgspec.json.encode(document).decode())

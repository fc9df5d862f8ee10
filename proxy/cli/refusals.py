"""`toolgraft refusals`: runs the refusal classifier over a file of texts.

In: JSON lines `{"id", "text", "context"?, "is_refusal"?}`; a context has `tools` (names), `tool_choice`, `prior_tool_results` and `tool_error`,
each optional; without tools four common ones are assumed. Out: one JSON line a text, `{"id", "flagged", "kind", "phrase"}`, then
`{"summary": {...}}`. A line that cannot be read gives `{"id", "error"}`; it never stops.
"""

from __future__ import annotations

from statistics import median
from typing import TextIO

import click
import msgspec

from pipeline import json_values
from pipeline.refusals.classifier import Classifier
from pipeline.refusals.context import Context
from pipeline.settings import Settings
from pipeline.turn import Tool

_ASSUMED_TOOLS = ("read_file", "write_file", "run_shell", "web_search")
_MANDATORY = frozenset({"required", "any"})


class Situation(msgspec.Struct, frozen=True):
    """What was offered and demanded when the text was written."""

    tools: tuple[str, ...] = _ASSUMED_TOOLS
    tool_choice: str | dict[str, object] = "auto"
    prior_tool_results: bool = False
    tool_error: bool = False

    @property
    def mandatory(self) -> bool:
        """Did the answer have to hold a call?"""
        return not isinstance(self.tool_choice, str) or self.tool_choice in _MANDATORY


class Line(msgspec.Struct, frozen=True):
    """One text to judge."""

    text: str
    id: str | int | None = None
    context: Situation = Situation()
    is_refusal: bool | None = None


class Tally(msgspec.Struct):
    """What the summary says. Look-alikes are texts stated to be no refusals."""

    texts: int = 0
    flagged: int = 0
    errors: int = 0
    refusals: int = 0
    caught: int = 0
    look_alikes: int = 0
    missed: list[str | int | None] = []
    false_alarms: list[str | int | None] = []
    median_held_chars: float | None = None


@click.command("refusals")
@click.option("--test", "file", type=click.File(encoding="utf-8"), required=True, help="JSON lines with texts; - reads standard input.")
@click.option(
    "--hold-chars", type=click.IntRange(min=1), default=Settings().hold_chars, show_default=True, help="How much text is looked at."
)
def command(file: TextIO, hold_chars: int) -> None:
    """Say of every text whether it refuses, and by which phrase.

    Reads {"id", "text", "context"?, "is_refusal"?} a line, writes {"id", "flagged", "kind", "phrase"} a line and a summary last.
    """
    classifier = Classifier()
    tally = Tally()
    held: list[int] = []
    for text in file:
        if not text.strip():
            continue
        try:
            line = msgspec.convert(json_values.loads(text), Line)
        except (json_values.NotJsonError, msgspec.ValidationError) as exc:
            tally.errors += 1
            click.echo(json_values.dumps({"id": _id_of(text), "error": str(exc)}))
            continue
        read = _judge(classifier, line, hold_chars, tally)
        if line.is_refusal is False:
            held.append(read)
    tally.median_held_chars = median(held) if held else None
    click.echo(json_values.dumps({"summary": msgspec.to_builtins(tally)}))


def _judge(classifier: Classifier, line: Line, hold_chars: int, tally: Tally) -> int:
    """Write the line's verdict and count it; returns how many characters were read for it."""
    about = line.context
    context = Context(tuple(Tool(name=name) for name in about.tools), results=about.prior_tool_results, failed=about.tool_error)
    scan = classifier.scan(context, hold_chars, patient=about.mandatory)
    scan.feed(line.text)
    scan.close()
    hit = scan.hit
    tally.texts += 1
    tally.flagged += hit is not None
    if line.is_refusal:
        tally.refusals += 1
        tally.caught += hit is not None
        if hit is None:
            tally.missed.append(line.id)
    elif line.is_refusal is False:
        tally.look_alikes += 1
        if hit is not None:
            tally.false_alarms.append(line.id)
    verdict = {"id": line.id, "flagged": hit is not None, "kind": hit.kind if hit else None, "phrase": hit.phrase if hit else None}
    click.echo(json_values.dumps(verdict))
    return scan.read


def _id_of(text: str) -> object:
    try:
        value = json_values.loads(text)
    except json_values.NotJsonError:
        return None
    given = value.get("id") if isinstance(value, dict) else None
    return given if isinstance(given, str | int) else None

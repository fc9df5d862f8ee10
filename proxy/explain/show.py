"""Diagnoses for people: one line, one turn, the sum. Values of the log are shown as text, never as markup, and without control characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from proxy.explain.diagnosis import Diagnosis
from proxy.explain.faults import ABOUT, Fault
from proxy.explain.timeline import timeline
from proxy.explain.turn_log import TurnLog

_FAULT_STYLES = {
    Fault.HEALTHY: "green",
    Fault.CLIENT_GONE: "cyan",
    Fault.REQUEST_REJECTED: "cyan",
    Fault.SHUT_DOWN: "cyan",
    Fault.UNFINISHED: "dim",
    Fault.OUTPUT_LIMIT: "yellow",
    Fault.OWN_SLOWNESS: "yellow",
    Fault.UPSTREAM_FAULT: "magenta",
}
_LEVEL_STYLES = {"debug": "dim", "warning": "yellow", "error": "bold red"}


def turn_line(log: TurnLog, diagnosis: Diagnosis) -> RenderableType:
    """A turn in one line, for following a log."""
    turn = log.turn or {}
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(_clock(turn.get("ts")), "dim")
    line.append(f"  {_clean(diagnosis.rid)}  ")
    line.append(f"{_clean(turn.get('model', '-'))}  ", "dim")
    line.append_text(_fault(diagnosis))
    line.append(f"  {_clean(diagnosis.because)}")
    return line


def turn_view(log: TurnLog, diagnosis: Diagnosis) -> RenderableType:
    """A turn in full: the fault, its evidence, what to try, and the timeline."""
    head = Text("turn ").append(_clean(diagnosis.rid), "bold").append("  ").append_text(_fault(diagnosis))
    parts: list[RenderableType] = [head, Text(_clean(diagnosis.because) + ".")]
    parts.append(Text(ABOUT[diagnosis.fault].meaning, "dim"))
    if diagnosis.also:
        parts.append(Text("also: " + ", ".join(ABOUT[fault].title.lower() for fault in diagnosis.also), "dim"))
    parts += [Text(""), Text("Timeline", "bold"), Padding(_moments(log), (0, 0, 0, 2))]
    if diagnosis.evidence:
        parts += [Text(""), Text("Evidence", "bold")]
        for one in diagnosis.evidence:
            parts.append(Text("  ").append(_clean(one.event), "bold").append(f"  {one.says}: ", "dim").append(_fields(one.fields)))
    parts += _steps(diagnosis.next_steps)
    return Group(*parts, Text(""))


def sum_view(document: Mapping[str, Any]) -> RenderableType:
    """The sum over many turns."""
    turns = document["turns"]
    if not turns:
        return Group(Text("No turns in this log."), *_process_view(document["process"]))
    head = Text(f"{turns} turns", "bold")
    if document["to"] is not None:
        head.append(f"  {_clock(document['from'], day=True)} to {_clock(document['to'], day=True)}", "dim")
    parts: list[RenderableType] = [head]
    if document["sample_rate"] < 1:
        parts.append(
            Text(f"Only a share of {document['sample_rate']} of healthy turns was logged: shares below overstate faults.", "yellow")
        )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("fault", "turns", "share", "recovered", "most often because"):
        table.add_column(name, justify="right" if name in ("turns", "share", "recovered") else "left")
    for one in document["faults"]:
        because = next(iter(one["because"]), f"beside other faults, in {one['also_in']} turns")
        style = _FAULT_STYLES.get(Fault(one["fault"]), "red")
        table.add_row(
            Text(one["title"], style), str(one["turns"]), f"{one['share']:.1%}", str(one["recovered"] or ""), Text(_clean(because))
        )
    parts += [Text(""), table]
    parts += [Text(""), _counts_view(document), Text(""), _times_view(document["times"])]
    for one in document["faults"]:
        if one["turns"] and one["fault"] not in (Fault.HEALTHY, Fault.UNFINISHED):
            parts += [Text(""), Text(one["title"], "bold").append(f"  for example {', '.join(map(_clean, one['rids']))}", "dim")]
            parts += _steps(tuple(one["next_steps"]), title=None)
    return Group(*parts, *_process_view(document["process"]))


def _process_view(entries: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """What processes said of themselves, the worst first."""
    if not entries:
        return []
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for one in entries:
        style = _LEVEL_STYLES.get(str(one["level"]), "")
        says = Text(f"{one['meaning']}  " if one["meaning"] else "").append(_fields(one["fields"]), "dim")
        table.add_row(Text(_clean(one["event"]), style), str(one["count"]), says)
    return [Text(""), Text("The processes themselves", "bold").append("  with the last such line", "dim"), table]


def _counts_view(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name in ("verdicts", "models", "causes", "retry_skipped", "refusals", "blocks", "repairs", "errors"):
        if name in document:
            shown = "  ".join(f"{_clean(key)} {count}" for key, count in list(document[name].items())[:8])
            table.add_row(name.replace("_", " "), Text(shown))
    return table


def _times_view(times: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("milliseconds")
    for name in ("p50", "p90", "p99"):
        table.add_column(name, justify="right")
    for name, quantiles in times.items():
        table.add_row(Text(name.removesuffix("_ms").replace("_", " "), "dim"), *(f"{value:.1f}" for value in quantiles.values()))
    return table


def _moments(log: TurnLog) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for moment in timeline(log):
        what = f"#{moment.attempt} {moment.what}" if moment.attempt else moment.what
        style = _LEVEL_STYLES.get(moment.level, "")
        table.add_row(f"{moment.at_ms:.1f} ms", Text(_clean(what), style), Text(_fields(moment.fields), style or "dim"))
    return table


def _steps(steps: tuple[str, ...], title: str | None = "Try next") -> list[RenderableType]:
    if not steps:
        return []
    head: list[RenderableType] = [Text(""), Text(title, "bold")] if title else []
    return head + [Text(f"  - {step}") for step in steps]


def _fault(diagnosis: Diagnosis) -> Text:
    text = Text(ABOUT[diagnosis.fault].title, f"bold {_FAULT_STYLES.get(diagnosis.fault, 'red')}")
    return text.append(", recovered", "green") if diagnosis.recovered else text


def _fields(fields: Mapping[str, Any]) -> str:
    return "  ".join(f"{_clean(name)}={_clean(_value(value))}" for name, value in fields.items() if value not in ([], {}))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{one}" for key, one in value.items())
    if isinstance(value, list):
        return ",".join(str(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _clean(value: object) -> str:
    """A foreign value without what could steer a terminal."""
    return "".join(char if char.isprintable() else "?" for char in str(value))


def _clock(stamp: object, *, day: bool = False) -> str:
    if not isinstance(stamp, int | float):
        return "--:--:--"
    try:
        return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC" if day else "%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"

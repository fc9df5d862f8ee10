"""What the sieve found, for people: where blocks stand in the text, and why one was refused.

In: what was asked and the reading. Out: lines on a rich console; nothing of the text is taken for markup of rich's.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline import json_values
from pipeline.events import BlockSeen, CallDone, Dropped, Event, ReasoningDelta, TextDelta
from pipeline.sieve.reading import Reading
from pipeline.verdicts import BlockOutcome
from proxy.offline.lines import Asked

_GOOD = (BlockOutcome.PARSED, BlockOutcome.REPAIRED)
_MOST = 72
_BEFORE = 30


def show(console: Console, asked: Asked, reading: Reading) -> None:
    """One input."""
    console.rule(Text(str(asked.id if asked.id is not None else "")), align="left")
    text = asked.text
    for event in _joined(reading.events):
        _event(console, text, event)
    if not reading.blocks:
        console.print(Text("no block found", style="dim"))
    for number, block in enumerate(reading.blocks, 1):
        _block(console, text, number, block)


def _joined(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(last.text + event.text, (last.span[0], event.span[1]))
        elif not isinstance(event, BlockSeen):
            out.append(event)
    return out


def _event(console: Console, text: str, event: Event) -> None:
    if isinstance(event, TextDelta):
        console.print(Text("text      ", style="dim").append(_short(event.text), style="default"))
    elif isinstance(event, ReasoningDelta) and event.text:
        console.print(Text("reasoning ", style="dim").append(_short(event.text), style="italic"))
    elif isinstance(event, CallDone):
        line = Text("call      ", style="dim").append(event.name, style="bold green")
        console.print(line.append(" " + _short(json_values.dumps(json_values.loads(event.arguments)), 400), style="green"))
    elif isinstance(event, Dropped):
        console.print(Text(f"{event.kind.value:10}", style="dim").append(_short(text[slice(*event.span)]), style="dim"))


def _block(console: Console, text: str, number: int, block: BlockSeen) -> None:
    start, end = block.span
    line = Text(f"block {number}   {block.dialect}, {_place(text, start)} to {_place(text, end)}: ", style="dim")
    line.append(block.outcome.value.replace("_", " "), style="green" if block.outcome in _GOOD else "bold yellow")
    if block.names:
        line.append(f" ({', '.join(block.names)})")
    if block.repairs:
        line.append(f", repaired: {', '.join(repair.value.replace('_', ' ') for repair in block.repairs)}")
    console.print(line)
    if block.fault:
        _fault(console, text, block)


def _fault(console: Console, text: str, block: BlockSeen) -> None:
    """The line of the text at which it was refused, with a mark below."""
    at = min(block.fault_at, len(text))
    start = max(text.rfind("\n", 0, at) + 1, at - _BEFORE)
    stop = text.find("\n", at)
    stop = min(stop if stop >= 0 else len(text), start + _MOST)
    console.print(Text(f"          {block.fault} ({_place(text, at)})", style="yellow"))
    console.print(Text("          " + text[start:stop].replace("\t", " ")))
    console.print(Text("          " + " " * (at - start) + "^", style="yellow"))


def _place(text: str, at: int) -> str:
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def _short(text: str, most: int = 200) -> str:
    shown = text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"
    return repr(shown)[1:-1]

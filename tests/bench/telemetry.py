"""What telemetry costs: CPU of one turn's notes, counters and lines, and how much log a turn makes.

    python tests/bench/telemetry.py

Reads nothing, needs nothing. The notes are those of real turns: each turn is driven through the whole chain by the engine once, with its notes kept, and
these are then booked again and again. Figures are CPU microseconds of one core, the thread that writes the log included, the best of some rounds.
A machine is described by the time that CPython takes for `sum(range(10**7))`: 0.125 s is the reference, and `scaled` is the cost as it would be there.

What must hold: a healthy turn makes one line at the default level; on the reference machine it costs 60 us, and 200 us with every stage event written;
rendering /metrics takes 40 ms, off the loop. The exit status is 1 when something falls short.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.commands import Ended, Opened, Received, Send, TurnRecord
from pipeline.exchange import Exchange
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stage import Note
from pipeline.testing.growth import cpu_seconds
from pipeline.turn import Turn
from pipeline.verdicts import Api
from proxy.telemetry.books import StageEvents
from proxy.telemetry.catalogue import Names
from proxy.telemetry.logs import make_logger
from proxy.telemetry.sink import LogSink
from proxy.telemetry.telemetry import Telemetry

REFERENCE_S = 0.125
TURNS = 2_000
WANTED_US = {"none": 60.0, "changes": 60.0, "all": 200.0}
CALL = '```json action\n{"tool": "lookup_tide", "parameters": {"port": "Vigo"}}\n```'
REFUSAL = "I'm sorry, but I don't have access to any tools."
TOOL = {
    "type": "function",
    "function": {"name": "lookup_tide", "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}},
}
BODY = {"model": "m", "messages": [{"role": "user", "content": "What is the tide at Vigo?"}], "tools": [TOOL], "stream": False}
Said = list[tuple[str, int, Any, dict[str, Any]]]


def engine_turn(answers: list[str], bind: Callable[[str, int], Note], chain: Any) -> TurnRecord:
    """One turn through the chain; the upstream gives these answers."""
    exchange = Exchange(chain, Turn(api=Api.OPENAI_CHAT, raw=json.dumps(BODY).encode(), body=BODY), [UpstreamTraits("up")], bind, {}, 0.0)
    commands, replies, now = exchange.start(0.0), iter(answers), 0.0
    while sends := [one.attempt for one in commands if isinstance(one, Send)]:
        commands, now = [], now + 0.5
        content = {"role": "assistant", "content": next(replies)}
        usage = {"prompt_tokens": 300, "completion_tokens": 20}
        body = json.dumps({"choices": [{"index": 0, "message": content, "finish_reason": "stop"}], "usage": usage}).encode()
        for happening in (Opened(sends[0], 200, {"content-type": "application/json"}), Received(sends[0], body), Ended(sends[0])):
            commands += exchange.receive(happening, now)
    return exchange.record


def kept(answers: list[str], chain: Any) -> tuple[Said, TurnRecord]:
    """A turn's notes, and its record."""
    said: Said = []

    def bind(stage: str, attempt: int) -> Note:
        return lambda noted, /, **fields: said.append((stage, attempt, noted, fields))

    return said, engine_turn(answers, bind, chain)


def book(telemetry: Telemetry, said: Said, record: TurnRecord) -> None:
    """One turn's books, as the driver keeps them."""
    ledger = telemetry.turn(record.api, "req_0123456789abcdef01234567", "0af7651916cd43dd8448eb211c80319c")
    ledger.measured.model = "m"
    for stage, attempt, noted, fields in said:
        ledger.bind(stage, attempt)(noted, **fields)
    ledger.upstream_first_byte("up", 0.25)
    ledger.measured.overhead_s, ledger.measured.ended = 0.002, record.started + 1.0
    ledger.conclude(record)


class Counted:
    """Counts lines and bytes."""

    def __init__(self) -> None:
        self.lines = 0
        self.bytes = 0

    def msg(self, line: bytes) -> None:
        """Take a line."""
        self.lines += 1
        self.bytes += len(line) + 1

    debug = info = warning = error = critical = msg


def names() -> Names:
    """Three routes and two upstreams."""
    return Names(models=("m", "qwen*", "deepseek*"), upstreams=("up", "hosted"), stages=DEFAULT_STAGES)


def cost(stages: StageEvents, said: Said, record: TurnRecord) -> float:
    """CPU microseconds a turn, written to nowhere through the real sink."""
    with open(os.devnull, "wb") as nowhere:
        sink = LogSink(fd=nowhere.fileno())
        telemetry = Telemetry(names(), make_logger(sink, worker=0, build="0.1.0"), stages=stages)

        def run() -> None:
            for _ in range(TURNS):
                book(telemetry, said, record)

        best = cpu_seconds(run, 5)
        sink.close()
        assert sink.dropped == 0
        return best / TURNS * 1e6


def volume(stages: StageEvents, said: Said, record: TurnRecord) -> Counted:
    """The log that one turn makes."""
    counted = Counted()
    book(Telemetry(names(), make_logger(counted, worker=0, build="0.1.0"), stages=stages), said, record)
    return counted


def main() -> int:
    """Print the rows; 1 when one falls short."""
    machine = cpu_seconds(lambda: sum(range(10**7)), 5)
    scale = REFERENCE_S / machine
    print(f"machine {machine:.3f} s, reference {REFERENCE_S} s")
    chain = build(DEFAULT_STAGES, Settings())
    met = True
    print(f"{'turn':28}{'log.stages':>12}{'notes':>7}{'lines':>7}{'bytes':>7}{'us':>8}{'scaled':>8}{'wanted':>8}")
    for kind, answers in (("call at once", [CALL]), ("refused, then a call", [REFUSAL, CALL])):
        said, record = kept(answers, chain)
        for stages, wanted in WANTED_US.items():
            spent, log = cost(stages, said, record), volume(stages, said, record)  # type: ignore[arg-type]
            healthy = kind == "call at once"
            met = met and (not healthy or (spent * scale <= wanted and (stages == "all" or log.lines == 1)))
            print(
                f"{kind:28}{stages:>12}{len(said):7}{log.lines:7}{log.bytes:7}{spent:8.1f}{spent * scale:8.1f}{wanted if healthy else '':>8}"
            )
        silent = cpu_seconds(partial(_unbooked, answers, chain), 3) / 200 * 1e6
        print(f"{'  the engine alone, no books':28}{'':33}{silent:8.1f}{silent * scale:8.1f}")
    metrics = Telemetry(names(), make_logger(Counted())).metrics
    rendered = cpu_seconds(lambda: metrics.render(""), 5) * 1e3
    text, _ = metrics.render("")
    met = met and rendered * scale <= 40.0
    print(
        f"/metrics: {sum(line[:1] != b'#' for line in text.splitlines())} series, {len(text)} bytes, {rendered:.1f} ms, scaled {rendered * scale:.1f} ms, wanted 40"
    )
    return 0 if met else 1


def _unbooked(answers: list[str], chain: Any) -> None:
    for _ in range(200):
        engine_turn(answers, _mute, chain)


def _mute(_stage: str, _attempt: int) -> Note:
    return lambda *_, **__: None


if __name__ == "__main__":
    sys.exit(main())

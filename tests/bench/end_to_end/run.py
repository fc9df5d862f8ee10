"""Toolgraft beside a minimal aiohttp pass-through, nginx and LiteLLM, over the same upstream, in one run.

    python -m tests.bench.end_to_end.run [--rounds 3] [--litellm] [--only streams,plain,agent,unpaced,first,idle] [--out FILE]

CPU figures are those of the target's process tree, from the scheduler's counters, so a busy machine hardly moves them; times are from the clock
and only mean something on a quiet one. Rounds are interleaved; figures are medians. The target runs on one core, load and upstream on another.
Each target that the specification sets as a ratio is printed with what was measured, and whether it holds. The exit status says so too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.end_to_end import bodies
from tests.bench.end_to_end.targets import LOAD_CORE, ROOT, TARGETS, Target, start_upstream

SLOW = {"litellm": 20}
"""Requests of these targets are divided by this: they are as many times slower, and more."""


@dataclass(frozen=True)
class Load:
    """One kind of traffic. `pieces` is what the upstream writes in a stream, 0 for whole answers."""

    name: str
    body: bytes
    clients: int
    count: int
    pieces: int = 0


def _stream(name: str, tools: bool, clients: int, pieces: int, gap_ms: int, count: int) -> Load:
    return Load(name, bodies.small(f"n{pieces}-i{gap_ms}", stream=True, tools=tools), clients, count, pieces)


LOADS = {
    "streams": [
        _stream("stream 32, no tools", False, 32, 200, 20, 32),
        _stream("stream 32, tools", True, 32, 200, 20, 32),
        _stream("stream 200, no tools", False, 200, 200, 20, 200),
        _stream("stream 200, tools", True, 200, 200, 20, 200),
    ],
    "plain": [
        Load("plain, no tools", bodies.small("fast", stream=False, tools=False), 32, 2000),
        Load("plain, tools", bodies.small("fast", stream=False, tools=True), 32, 2000),
    ],
    "agent": [
        Load("agent 104 KB, no tools", bodies.agent("fast", stream=False, tools=False), 8, 400),
        Load("agent 104 KB, tools", bodies.agent("fast", stream=False, tools=True), 8, 400),
    ],
    "unpaced": [
        _stream("unpaced, no tools", False, 4, 5000, 0, 8),
        _stream("unpaced, tools", True, 4, 5000, 0, 8),
    ],
    "first": [_stream("10,000 pieces/s, no tools", False, 200, 100, 20, 200), _stream("10,000 pieces/s, tools", True, 200, 100, 20, 200)],
}


class Bench:
    """The targets and what was measured of them."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.upstream, self._upstream_process = start_upstream(folder)
        self.targets: list[Target] = []
        self.idle: dict[str, dict[str, float]] = {}
        self.rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for name in names:
            try:
                target = TARGETS[name](folder, self.upstream)
                self.targets.append(target)
                self.idle[name] = {"idle": target.memory_mib()}
            except (RuntimeError, OSError) as exc:
                print(f"left out: {exc}", file=sys.stderr)

    def close(self) -> None:
        for target in self.targets:
            target.stop()
        self._upstream_process.terminate()
        self._upstream_process.wait()

    def _command(self, target: Target, load: Load, clients: int, count: int, *more: str) -> list[str]:
        body = self.folder / "body.json"
        body.write_bytes(load.body)
        client = [sys.executable, "-m", "tests.bench.end_to_end.load", str(target.port), str(body)]
        return ["taskset", "-c", LOAD_CORE, *client, "--clients", str(clients), "--count", str(count), *more]

    def measure(self, target: Target, load: Load) -> None:
        """One round of one load on one target."""
        share = 1 if load.pieces else SLOW.get(target.name, 1)
        count = max(load.clients, load.count // share)
        ramp = "0.5" if load.pieces else "0"
        begun = target.cpu_s()
        done = subprocess.run(
            self._command(target, load, load.clients, count, "--ramp", ramp),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        if not done.stdout.strip():
            print(f"{target.name}, {load.name}: {done.stderr[-300:]}", file=sys.stderr)
            return
        time.sleep(0.2)
        told = json.loads(done.stdout.splitlines()[-1])
        used = target.cpu_s() - begun
        told["cpu_us"] = used / max(1, told["requests"] * (load.pieces or 1)) * 1e6
        told["memory"] = target.memory_mib()
        if told["errors"]:
            print(f"{target.name}, {load.name}: {told['errors']} errors: {told['error']}", file=sys.stderr)
        self.rows[target.name, load.name].append(told)

    def hold(self, target: Target, streams: int, tools: bool) -> None:
        """Memory with so many streams that wait."""
        load = Load("idle", bodies.small("n100-i20000", stream=True, tools=tools), streams, streams, 1)
        before = target.memory_mib()
        process = subprocess.Popen(
            self._command(target, load, streams, streams, "--ramp", "2", "--hold"),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            held = json.loads(process.stdout.readline() or '{"held": 0}')["held"]
            with_streams = target.memory_mib()
        finally:
            process.communicate("\n", timeout=30)
        key = "tools" if tools else "no tools"
        kept = self.idle[target.name]
        if held:
            kept[key] = (with_streams - before) * 1000 / held
        if held < streams:
            print(f"{target.name}: only {held} of {streams} streams were held", file=sys.stderr)
        time.sleep(1.5)  # the streams' connections close

    def median(self, target: str, load: str, key: str) -> float | None:
        found = [row[key] for row in self.rows[target, load] if row[key] is not None]
        return statistics.median(found) if found else None

    def ratio(self, key: str, target: str, load: str, other: str, other_load: str | None = None) -> float | None:
        mine, its = self.median(target, load, key), self.median(other, other_load or load, key)
        return mine / its if mine is not None and its else None


def tables(bench: Bench) -> None:
    for load in {name: None for _, name in bench.rows}:
        print(f"\n{load}")
        print(
            f"  {'target':10} {'CPU us':>9} {'per s':>9} {'first ms p50':>13} {'p99':>7} {'lag p50':>8} {'p99':>7} {'whole p50':>10} {'MiB':>6}"
        )
        for target in bench.targets:
            if not bench.rows[target.name, load]:
                continue
            figures = {
                key: bench.median(target.name, load, key)
                for key in ("cpu_us", "first_p50", "first_p99", "lag_p50", "lag_p99", "whole_p50", "memory")
            }
            rates = [(row["pieces"] or row["requests"]) / row["seconds"] for row in bench.rows[target.name, load]]
            shown = {key: "-" if value is None else f"{value:.1f}" for key, value in figures.items()}
            print(
                f"  {target.name:10} {shown['cpu_us']:>9} {statistics.median(rates):>9.0f} {shown['first_p50']:>13} {shown['first_p99']:>7} "
                f"{shown['lag_p50']:>8} {shown['lag_p99']:>7} {shown['whole_p50']:>10} {shown['memory']:>6}"
            )
    for name, kept in bench.idle.items():
        print(f"\nmemory of {name}, MiB: " + ", ".join(f"{key} {value:.0f}" for key, value in kept.items()))


def verdicts(bench: Bench) -> bool:
    """Each target of the specification that this run measured: must, stretch, found."""
    rows: list[tuple[str, float | None, float, float]] = []
    for clients in (32, 200):
        rows.append(
            (
                f"emulated, CPU a piece / baseline, {clients} streams",
                bench.ratio("cpu_us", "toolgraft", f"stream {clients}, tools", "baseline"),
                1.45,
                0.75,
            )
        )
        rows.append(
            (
                f"pass-through, CPU a piece / baseline, {clients} streams",
                bench.ratio("cpu_us", "toolgraft", f"stream {clients}, no tools", "baseline"),
                1.10,
                0.60,
            )
        )
        rows.append(
            (
                f"emulated, CPU a piece / nginx, {clients} streams",
                bench.ratio("cpu_us", "toolgraft", f"stream {clients}, tools", "nginx"),
                4,
                2,
            )
        )
        rows.append(
            (
                f"emulated, CPU a piece / LiteLLM, {clients} streams",
                bench.ratio("cpu_us", "toolgraft", f"stream {clients}, tools", "litellm"),
                0.1,
                0.04,
            )
        )
    rows.append(("pass-through, CPU a request / baseline", bench.ratio("cpu_us", "toolgraft", "plain, no tools", "baseline"), 1.10, 0.60))
    rows.append(("emulated, CPU a request / baseline", bench.ratio("cpu_us", "toolgraft", "plain, tools", "baseline"), 1.5, 0.65))
    rows.append(("the same, 104 KB agent request", bench.ratio("cpu_us", "toolgraft", "agent 104 KB, tools", "baseline"), 2.0, 1.3))
    rows.append(("LiteLLM's CPU a request / ours, at least", bench.ratio("cpu_us", "litellm", "plain, tools", "toolgraft"), -40, -100))
    rows.append(
        ("baseline's CPU a piece / ours, unpaced, at least", bench.ratio("cpu_us", "baseline", "unpaced, tools", "toolgraft"), -0.55, -0.8)
    )
    first, base = (bench.median(name, "10,000 pieces/s, tools", "first_p50") for name in ("toolgraft", "baseline"))
    rows.append(("first piece p50 beyond the baseline's, ms", None if first is None or base is None else first - base, 2, 1))
    rows.append(("lag p99 at 10,000 pieces a second, ms", bench.median("toolgraft", "10,000 pieces/s, tools", "lag_p99"), 10, 3))
    kept = bench.idle.get("toolgraft", {})
    rows.append(("MiB of an idle worker", kept.get("idle"), 60, 45))
    rows.append(("MiB per 1,000 idle streams, no tools", kept.get("no tools"), 45, 28))
    rows.append(("MiB per 1,000 idle streams, tools", kept.get("tools"), 45, 28))
    fine = True
    print(f"\n{'target':58} {'found':>8} {'must':>7} {'stretch':>8}")
    for name, found, must, stretch in rows:
        if found is None:
            continue
        holds = found >= -must if must < 0 else found <= must
        fine &= holds
        print(f"{name:58} {found:>8.2f} {abs(must):>7} {abs(stretch):>8}  {'holds' if holds else 'FALLS SHORT'}")
    return fine


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--litellm", action="store_true", help="beside LiteLLM too, where it is installed")
    options.add_argument("--only", default="streams,plain,agent,unpaced,first,idle")
    options.add_argument("--streams", type=int, default=1000, help="idle streams")
    options.add_argument("--out", type=Path, help="write every row as JSON")
    given = options.parse_args()
    parts = given.only.split(",")
    names = ["baseline", "nginx", "toolgraft", *(["litellm"] if given.litellm else [])]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), names)
        try:
            loads = [load for part in parts for load in LOADS.get(part, [])]
            for round_ in range(given.rounds):
                for load in loads:
                    for target in bench.targets[round_ % len(bench.targets) :] + bench.targets[: round_ % len(bench.targets)]:
                        bench.measure(target, load)
            if "idle" in parts:
                for target in bench.targets:
                    for tools in (False, True):
                        bench.hold(target, given.streams, tools)
        finally:
            bench.close()
        tables(bench)
        fine = verdicts(bench)
        if given.out is not None:
            given.out.write_text(
                json.dumps([{"target": t, "load": l, **row} for (t, l), rows in bench.rows.items() for row in rows], indent=1)
            )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

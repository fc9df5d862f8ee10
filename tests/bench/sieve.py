"""How fast the sieve is, and how its cost grows.

    python tests/bench/sieve.py              speed: MB/s and CPU per piece, 20-character and 1-character pieces, one big piece
    python tests/bench/sieve.py --growth     CPU per character per doubling from 64 KB to 1 MB; the last column is 1 MB against 64 KB
    python tests/bench/sieve.py --hostile    the same for inputs made to hurt
    python tests/bench/sieve.py --only long  rows whose name holds this word

Reads nothing, needs nothing; inputs are made up, the same every time (`pipeline/testing/inputs.py`). Figures are CPU seconds of one
core, the best of some rounds. A machine is described by the time that CPython takes for `sum(range(10**7))`: 0.125 s is the reference,
and `scaled` is the speed as it would be there. 1 MB is 1,000,000 characters, all but a few of them ASCII.

What must hold, on the reference machine and in 20-character pieces: prose 12 MB/s, noisy prose 4.6, a call of 1 MB 3;
in every row 1 MB costs at most 1.3 times as much per character as 64 KB. The exit status is 1 when a row falls short.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.sieve.sieve import Sieve
from pipeline.testing import inputs
from pipeline.testing.growth import cpu_seconds
from pipeline.testing.laws import pieces

REFERENCE_S = 0.125
MOST_GROWTH = 1.3
WANTED = {"prose": 12.0, "noisy prose": 4.6, "json_action call 1 MB": 3.0, "dsml call 1 MB": 3.0}
DIALECTS = (JsonAction(), Dsml())
SIZES = (("10 KB", 10_000), ("100 KB", 100_000), ("1 MB", 1_000_000))
WHOLE = 1 << 40

Make = Callable[[int], str]


def written() -> Iterator[tuple[str, Make]]:
    """The texts that models write."""
    yield "prose", inputs.prose
    yield "noisy prose", inputs.noisy_prose
    for dialect in DIALECTS:
        yield f"{dialect.name} call", lambda size, dialect=dialect: inputs.long_call(dialect, size)
        yield f"{dialect.name} small calls", lambda size, dialect=dialect: inputs.small_calls(dialect, size)


def consume(parts: list[str]) -> None:
    """One run over the text, events thrown away."""
    sieve = Sieve(DIALECTS, ParserOptions())
    for part in parts:
        sieve.feed(part)
    sieve.close(None)


def cpu(text: str, size: int, rounds: int) -> float:
    """CPU seconds of the best run over the text in pieces of a size."""
    parts = pieces(text, size)
    return cpu_seconds(lambda: consume(parts), rounds)


def speed(machine: float, only: str) -> bool:
    """Print MB/s and microseconds per piece; say whether every target is met."""
    rows: list[tuple[str, str]] = []
    for name, make in written():
        sizes = SIZES if name.endswith(" call") else (("", 1_000_000),)
        rows += [(f"{name} {label}".strip(), make(size)) for label, size in sizes]
    print(f"{'':28}{'20-character pieces':^34}{'1-character pieces':^22}{'one piece':^12}")
    print(f"{'':28}{'MB/s':>8}{'scaled':>9}{'us/piece':>10}{'wanted':>7}{'MB/s':>11}{'us/piece':>10}{'MB/s':>11}")
    met = True
    for name, text in rows:
        if only not in name:
            continue
        rounds = max(5, min(40, 2_000_000 // len(text)))
        by_20, by_1, whole = (cpu(text, size, rounds if size > 1 else 5) for size in (20, 1, WHOLE))
        megabytes = len(text) / 1e6
        scaled = megabytes / by_20 * machine / REFERENCE_S
        wanted = WANTED.get(name)
        met = met and (wanted is None or scaled >= wanted)
        print(
            f"{name:28}{megabytes / by_20:8.2f}{scaled:9.2f}{by_20 / len(text) * 20e6:10.2f}{wanted or '':>7}"
            f"{megabytes / by_1:11.2f}{by_1 / len(text) * 1e6:10.2f}{megabytes / whole:11.1f}{'' if not wanted or scaled >= wanted else '  SHORT'}",
            flush=True,
        )
    return met


def growth(rows: Iterator[tuple[str, Make]], only: str) -> bool:
    """Print CPU nanoseconds per character at each doubling; say whether 1 MB costs at most 1.3 times 64 KB per character."""
    sizes = [64 << 10 << step for step in range(5)]
    print(f"{'ns per character':40}{'pieces':>8}" + "".join(f"{size >> 10:>7} KB" for size in sizes) + f"{'1 MB / 64 KB':>14}")
    met = True
    for name, make in rows:
        if only not in name:
            continue
        texts = [make(size) for size in sizes]
        for size, label in ((20, "20"), (1, "1"), (WHOLE, "one")):
            costs = [min(cpu(text, size, 1) for _ in range(5 if step else 10)) / len(text) for step, text in enumerate(texts)]
            grown = costs[-1] / costs[0]
            met = met and grown <= MOST_GROWTH
            figures = "".join(f"{cost * 1e9:10.1f}" for cost in costs)
            print(f"{name:40}{label:>8}{figures}{grown:14.2f}{'' if grown <= MOST_GROWTH else '  GROWS'}", flush=True)
    return met


def main() -> int:
    """Print the tables that were asked for."""
    options = argparse.ArgumentParser(description="Measure the sieve.")
    options.add_argument("--growth", action="store_true", help="cost per doubling of what models write")
    options.add_argument("--hostile", action="store_true", help="cost per doubling of what is made to hurt")
    options.add_argument("--only", default="", help="rows whose name holds this")
    asked = options.parse_args()
    machine = cpu_seconds(lambda: sum(range(10**7)), 5)
    print(f"Python {sys.version.split()[0]}, sum(range(10**7)) takes {machine:.3f} s, reference {REFERENCE_S} s\n")
    if asked.growth:
        return 0 if growth(written(), asked.only) else 1
    if asked.hostile:
        return 0 if growth(iter(inputs.HOSTILE.items()), asked.only) else 1
    return 0 if speed(machine, asked.only) else 1


if __name__ == "__main__":
    sys.exit(main())

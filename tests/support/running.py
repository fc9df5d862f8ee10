"""A real `toolgraft serve` process on loopback, for tests from outside.

In: an upstream's URL and TOML for the rest. Out: base URLs, the log lines it wrote, its metrics. The process is ended by its own handle.
A tap stands before it: when the test is over, everything that any client of it saw is judged (`tests/conformance/wire.py`).
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import wire
from tests.support.tap import Exchange, Tap

START_SECONDS = 30.0
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)


def total_of(metrics: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels, in the text of /metrics."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    found = _SAMPLE.findall(metrics)
    return sum(float(value) for sample, text, value in found if sample == name and all(one in text for one in wanted))


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Running:
    """The process as seen from outside. `url` has no /v1 at its end; `direct` leads past the tap."""

    url: str
    direct: str
    admin: str
    process: subprocess.Popen[bytes]
    log_file: Path
    tap: Tap

    def metrics(self) -> str:
        """The text of /metrics."""
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        return total_of(self.metrics(), name, **labels)

    def lines(self) -> list[dict[str, Any]]:
        """Every log line so far, parsed."""
        return [json.loads(line) for line in self.log_file.read_bytes().splitlines()]

    def turns(self, count: int, within_s: float = 5.0) -> list[dict[str, Any]]:
        """The canonical lines, once there are `count` of them."""
        until = time.monotonic() + within_s
        while True:
            found = [line for line in self.lines() if line.get("event") == "turn"]
            if len(found) >= count or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def violations(self, *, silence: bool = False) -> list[str]:
        """What is wrong with anything that a client saw so far. `silence`: an empty text block may come from E7."""
        turns = {line["rid"]: line for line in self.lines() if line.get("event") == "turn"}
        return [
            f"{exchange.method} {exchange.path} {exchange.status}: {one}"
            for exchange in self.tap.exchanges()
            for one in wire.judge(exchange, turns.get(_rid(exchange)), silence=silence)
        ]


def _rid(exchange: Exchange) -> str:
    return exchange.headers.get("x-request-id", "")


@contextmanager
def toolgraft(
    folder: Path,
    upstream_url: str,
    toml: str = "",
    environment: dict[str, str] | None = None,
    *,
    traits: str = "",
    silence: bool = False,
    judged: bool = True,
) -> Iterator[Running]:
    """Run `toolgraft serve` with one upstream named `model` (and these traits) and further TOML. What its clients saw is judged at the end unless `judged` says no."""
    port, admin = free_port(), free_port()
    config = folder / "toolgraft.toml"
    head = f"[listen]\nport = {port}\n\n[admin]\nport = {admin}\n\n[drain]\nlame_duck_s = 0\ntimeout_s = 1\n\n"
    config.write_text(head + f'[upstreams.model]\nurl = "{upstream_url}"\n{traits}\n\n' + toml)
    log_file = folder / "log.jsonl"
    with log_file.open("wb") as log, (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--config", str(config)],
            stdout=log,
            stderr=errors,
            env={"PATH": "/usr/bin:/bin", **(environment or {})},
        )
        try:
            _until_ready(f"http://127.0.0.1:{admin}/readyz", process, folder)
            with Tap(port) as tap:
                running = Running(tap.url, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}", process, log_file, tap)
                yield running
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    bad = running.violations(silence=silence) if judged else []
    assert not bad, bad


def _until_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise AssertionError(f"toolgraft ended with {process.returncode}: {(folder / 'stderr.txt').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)
    raise AssertionError("toolgraft did not become ready")

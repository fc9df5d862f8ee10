"""The whole service inside the test's own event loop: real chain, real sockets, so that its tasks and file descriptors can be counted.

In: TOML. Out: the port (past or through a tap), the log's lines as values, the metrics. The end is checked: nothing may be left running.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from proxy.config import loads
from proxy.server import Server
from proxy.telemetry.logs import LIBRARIES, lead_libraries
from tests.support.body_bench import Lines
from tests.support.running import total_of
from tests.support.tap import Tap


class Served:
    """The running service."""

    def __init__(self, server: Server, lines: Lines, port: int) -> None:
        self.server = server
        self.lines = lines
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        return total_of(self.server.telemetry.metrics.render("")[0].decode(), name, **labels)

    def turns(self) -> list[dict[str, Any]]:
        return self.lines.turns()

    async def settled(self, within_s: float = 30.0) -> None:
        """Wait until no turn runs."""
        await until(lambda: self.total("toolgraft_requests_in_flight") == 0, within_s)

    def books(self) -> list[str]:
        """What is wrong with the conservation laws, now that nothing runs; empty when all is well."""
        bad = []
        turns = self.turns()
        rids = [line["rid"] for line in turns]
        if len(set(rids)) != len(rids):
            bad.append("a turn has two canonical lines")
        bad += [f"{line['rid']}: no verdict" for line in turns if not line.get("verdict")]
        bad += [f"{line['rid']}: {line}" for line in turns if len(line.get("attempt_verdicts", ())) != line["attempts"]]
        started, concluded = self.total("toolgraft_turns_started_total"), self.total("toolgraft_turns_total")
        if not started == concluded == len(turns):
            bad.append(f"{started} turns started, {concluded} concluded, {len(turns)} lines")
        attempts, verdicts = self.total("toolgraft_attempts_total"), self.total("toolgraft_attempt_verdicts_total")
        if not attempts == verdicts == sum(line["attempts"] for line in turns):
            bad.append(f"{attempts} attempts, {verdicts} verdicts")
        upstream = self.total("toolgraft_upstream_requests_total")
        if upstream != attempts:
            bad.append(f"{attempts} attempts, {upstream} upstream requests")
        for name in ("requests_in_flight", "invariant_violations_total", "stage_errors_total", "telemetry_errors_total"):
            if (value := self.total(f"toolgraft_{name}")) != 0:
                bad.append(f"{name} {value}")
        bad += [str(line) for line in self.lines.all if line["event"] in ("unexpected", "library", "invariant_broken")]
        return bad


async def until(done: Callable[[], Any], within_s: float = 10.0) -> Any:
    """What `done` returns once it is true."""
    async with asyncio.timeout(within_s):
        while not (found := done()):
            await asyncio.sleep(0.01)
    return found


def open_fds() -> set[str]:
    """This process's open file descriptors and what they lead to."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
        except OSError:
            continue
    return found


@asynccontextmanager
async def served(toml: str, environ: dict[str, str] | None = None) -> AsyncIterator[Served]:
    """Serve on a free port. At the end every task and file descriptor that came with it must be gone."""
    loop = asyncio.get_running_loop()
    tasks, fds = asyncio.all_tasks(), open_fds()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    lines = Lines()
    config = loads(f"[listen]\nport = 0\n[admin]\nenabled = false\n{toml}", environ or {})
    server = Server(config, environ or {}, lines)  # type: ignore[arg-type]
    kept = {name: (logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in LIBRARIES}
    lead_libraries(server.telemetry.log)
    try:
        addresses = await server.start()
        yield Served(server, lines, addresses.public[1])
    finally:
        await server.close()
        for name, (handlers, propagate) in kept.items():
            logging.getLogger(name).handlers[:] = handlers
            logging.getLogger(name).propagate = propagate
        logging.captureWarnings(False)
        loop.set_exception_handler(None)
    assert faults == []
    await until(lambda: asyncio.all_tasks() <= tasks, 5)
    await until(lambda: len(open_fds()) <= len(fds), 5)


@asynccontextmanager
async def tapped(toml: str) -> AsyncIterator[tuple[Served, Tap]]:
    """The same with a tap before it."""
    async with served(toml) as service:
        with Tap(service.port) as tap:
            yield service, tap

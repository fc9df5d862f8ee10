"""The bench's client: bare protocols in a closed loop. `python -m tests.bench.end_to_end.load PORT BODY --clients N --count M [--hold]`

In: a port, a file with the request's body. Out: one JSON object: requests, pieces, seconds, time to the first piece and to the whole answer, how
long pieces took from the upstream to here (milliseconds), errors. `--hold` opens the streams, says so, and closes them at the next line of input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from pathlib import Path

import uvloop

_STAMP = re.compile(rb"T(\d{9,})")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def percentile(values: list[float], share: float) -> float | None:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else None


class Run:
    """The load as a whole."""

    def __init__(self, body: bytes, clients: int, count: int) -> None:
        self.request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer bench\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        ) + body
        self.left = count - clients
        self.open = clients
        self.done = asyncio.Event()
        self.requests = self.pieces = self.reads = 0
        self.first: list[float] = []
        self.lag: list[float] = []
        self.whole: list[float] = []
        self.errors: list[str] = []


class Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.transport: asyncio.Transport | None = None
        self.first_at: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._ask()

    def _ask(self) -> None:
        assert self.transport is not None
        self.begun = time.monotonic_ns()
        self.first_at = None
        self.head = True
        self.tail = b""
        self.due: int | None = None
        self.transport.write(self.run.request)

    def data_received(self, data: bytes) -> None:
        run, now = self.run, time.monotonic_ns()
        if self.head:
            self.head = False
            if not data.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
                run.errors.append(data[:300].decode("latin-1"))
                assert self.transport is not None
                self.transport.close()
                return
            end = data.find(b"\r\n\r\n")
            length = _LENGTH.search(data, 0, end)
            self.due = int(length[1]) + end + 4 if length else None
        run.reads += 1
        run.pieces += data.count(b"data: {")
        stamp = _STAMP.search(data)
        if stamp:
            if self.first_at is None:
                self.first_at = now
                run.first.append((now - self.begun) / 1e6)
            run.lag.append((now - int(stamp[1])) / 1e6)
        if self.due is not None:
            self.due -= len(data)
            ended = self.due <= 0
        else:
            self.tail = (self.tail + data)[-64:]
            ended = self.tail.endswith(b"0\r\n\r\n")
        if ended:
            self._answered(now)

    def _answered(self, now: int) -> None:
        run = self.run
        run.whole.append((now - self.begun) / 1e6)
        run.requests += 1
        if run.left > 0:
            run.left -= 1
            self._ask()
        elif self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.run.open -= 1
        if not self.run.open:
            self.run.done.set()


async def main(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    run = Run(given.body.read_bytes(), given.clients, given.count)
    begun = time.monotonic()
    for _ in range(given.clients):
        await loop.create_connection(lambda: Client(run), "127.0.0.1", given.port)
        await asyncio.sleep(given.ramp / given.clients)
    if given.hold:
        await asyncio.sleep(2)
        print(json.dumps({"held": run.open - len(run.errors), "errors": run.errors[:3]}), flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        return
    try:
        await asyncio.wait_for(run.done.wait(), given.timeout)
    except TimeoutError:
        run.errors.append("timeout")
    told = {"requests": run.requests, "pieces": run.pieces, "reads": run.reads, "seconds": time.monotonic() - begun}
    for name, values in (("first", run.first), ("lag", run.lag), ("whole", run.whole)):
        told |= {f"{name}_p50": percentile(values, 0.5), f"{name}_p99": percentile(values, 0.99)}
    print(json.dumps({**told, "errors": len(run.errors), "error": run.errors[:1]}))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("port", type=int)
    options.add_argument("body", type=Path)
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--ramp", type=float, default=0.0)
    options.add_argument("--hold", action="store_true")
    options.add_argument("--timeout", type=float, default=120.0)
    uvloop.run(main(options.parse_args()))

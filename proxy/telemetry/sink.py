"""A sink for log lines that can never stall the event loop.

In: lines as bytes. Out: one write a batch, by one thread. Promise: `msg` does not wait; while more than `limit` bytes wait for a slow reader,
new lines are dropped and counted, and so is what a reader that is gone has not taken. (structlog's own bytes logger writes on the caller: a stuck reader of standard output stops the service.)
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable


class LogSink:
    """What structlog calls a logger: every level method takes one line."""

    def __init__(self, fd: int = 1, limit: int = 4 << 20, on_drop: Callable[[], None] | None = None, *, whole_lines: bool = False) -> None:
        """Write to this file descriptor; `limit` in bytes; `on_drop` counts a dropped line.

        `whole_lines` is for processes that share a pipe: what one write brings, up to `PIPE_BUF` bytes, is not torn apart by another's.
        """
        self._fd = fd
        self._limit = limit
        self._write_bytes = select.PIPE_BUF if whole_lines else 0
        self.on_drop = on_drop
        self._lines: deque[bytes] = deque()
        self._taken_in = 0
        self._written = 0
        self.dropped = 0
        self._counting = threading.Lock()
        """Lines are dropped on either side, by whoever logs and by the thread."""
        self._wake = threading.Event()
        self._closing = False
        self._torn = False
        self._thread = threading.Thread(target=self._run, name="log-sink", daemon=True)
        self._thread.start()

    def msg(self, line: bytes) -> None:
        """Take one line, without its line break."""
        if self._taken_in - self._written > self._limit:
            self._drop(1)
            return
        self._taken_in += len(line) + 1
        self._lines.append(line)
        if not self._wake.is_set():
            self._wake.set()

    debug = info = warning = error = critical = msg

    def _drop(self, count: int) -> None:
        with self._counting:
            self.dropped += count
            if self.on_drop is not None:
                for _ in range(count):
                    self.on_drop()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what waits, for so long at the most."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not (self._closing and not self._lines):
            self._wake.wait()
            self._wake.clear()
            while self._lines:
                batch = [self._lines.popleft() for _ in range(min(len(self._lines), 512))]
                self._write(batch)

    def _write(self, batch: list[bytes]) -> None:
        data = b"\n".join(batch) + b"\n"
        done = 0
        try:
            if self._torn:  # a line that broke off must not take the next one with it
                self._write_some(b"\n")
                self._torn = False
            while done < len(data):
                done += self._write_some(memoryview(data)[done : done + self._reach(data, done)])
        except OSError:  # nobody will ever read again, or the disk is full: go on, counting
            self._torn = self._torn or (done > 0 and data[done - 1] != ord("\n"))
            self._drop(data.count(b"\n", done))
        finally:
            self._written += len(data)

    def _write_some(self, data: bytes | memoryview) -> int:
        """Write once. Whoever shares the descriptor may have made it non-blocking: then this waits."""
        while True:
            try:
                return os.write(self._fd, data)
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._fd, select.POLLOUT)
                waiting.poll()

    def _reach(self, data: bytes, start: int) -> int:
        """How many bytes from here one write may take."""
        if not self._write_bytes or len(data) - start <= self._write_bytes:
            return len(data) - start
        end = data.rfind(b"\n", start, start + self._write_bytes)
        return (end if end >= 0 else data.index(b"\n", start)) + 1 - start

"""Ended children in, their exit codes out. PID 1 of a container inherits every orphan in it and must not leave them as zombies."""

from __future__ import annotations

import asyncio
import os

_EVERY_S = 1.0


def reap() -> dict[int, int]:
    """Collect every child that has ended: exit codes by process id, negative for a signal. Never waits."""
    found: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found[pid] = os.waitstatus_to_exitcode(status)


async def reap_orphans() -> None:
    """Reap now and then until cancelled: for a process 1 without children of its own, whose loop (uvloop) keeps SIGCHLD to itself."""
    while True:
        reap()
        await asyncio.sleep(_EVERY_S)

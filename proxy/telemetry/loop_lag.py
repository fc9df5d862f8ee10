"""A ticker that tells how late the event loop runs. It never blocks and ends with its task."""

from __future__ import annotations

import asyncio

from proxy.telemetry.metrics import Metrics

PERIOD_S = 0.1


async def watch_loop(metrics: Metrics) -> None:
    """Observe the lag of a 100 ms timer until cancelled."""
    loop = asyncio.get_running_loop()
    lag = metrics["loop_lag_seconds"]
    while True:
        due = loop.time() + PERIOD_S
        await asyncio.sleep(PERIOD_S)
        lag.observe(max(loop.time() - due, 0.0))

"""How much one worker can take: CPU and memory of a real `toolgraft serve` for the kinds of turns that people have, for the page on scaling.

    python -m tests.bench.capacity

Starts the service and a scripted upstream on loopback and asks it. Figures are CPU milliseconds of the service alone, from its own
process_cpu_seconds_total, so that a busy machine hardly moves them; turns a second are what one core would take at that cost. A machine is described
by the time that CPython takes for `sum(range(10**7))`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

from pipeline.testing.growth import cpu_seconds
from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream, Seen

CALL = '```json action\n{"tool": "tool_0", "parameters": {"path": "a.txt", "text": "some words"}}\n```'
PROSE = "The tide turns twice a day, as it does along the whole of this coast. " * 40
PIECES = 200
CLIENTS = 8


def tools(count: int, description: str) -> list[dict[str, Any]]:
    """So many tools."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path"]}
    return [
        {"type": "function", "function": {"name": f"tool_{at}", "description": description, "parameters": schema}} for at in range(count)
    ]


def history(rounds: int) -> list[dict[str, Any]]:
    """A conversation of calls and results, then a question."""
    found: list[dict[str, Any]] = []
    for at in range(rounds):
        call = {"id": f"call_{at}", "type": "function", "function": {"name": "tool_0", "arguments": json.dumps({"path": f"{at}.txt"})}}
        found += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        found += [{"role": "tool", "tool_call_id": f"call_{at}", "content": "a line of a file\n" * 40}]
    return [{"role": "user", "content": "What is in these files?"}, *found]


AGENT = {"messages": history(40), "tools": tools(30, "What this tool does, in a good many words. " * 70)}
SMALL = {"messages": [{"role": "user", "content": "What is the tide?"}], "tools": tools(3, "A tool.")}
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "no tools, streamed, 200 pieces": ({"messages": SMALL["messages"], "stream": True, "seed": 2}, 100),
    "3 tools, a call in one body": (SMALL, 300),
    "3 tools, a call, streamed": ({**SMALL, "stream": True}, 300),
    "3 tools, text, streamed, 200 pieces": ({**SMALL, "stream": True, "seed": 2}, 100),
    "an agent's turn: 30 tools, 80 messages": ({**AGENT, "stream": True}, 100),
}


def answer(seen: Seen) -> Script:
    """A call, or prose in pieces where the request's seed says so."""
    if seen.json.get("seed") == 2:
        return Script(text=PROSE, chunk=len(PROSE) // PIECES)
    return Script(text=CALL, chunk=12)


async def ask(url: str, body: dict[str, Any], turns: int) -> None:
    """So many turns from a few clients at once."""
    left = iter(range(turns))
    raw = json.dumps({"model": "m", **body}).encode()

    async def client(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(f"{url}/v1/chat/completions", data=raw, headers={"content-type": "application/json"}) as reply:
                assert reply.status == 200
                await reply.read()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))


async def hold(running: Running, streams: int) -> float:
    """KiB of memory that each waiting stream takes."""
    before = running.total("process_resident_memory_bytes")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        body = {"model": "m", **SMALL, "stream": True, "seed": 3}
        waiting = [asyncio.create_task(session.post(f"{running.url}/v1/chat/completions", json=body)) for _ in range(streams)]
        while running.total("toolgraft_requests_in_flight") < streams:
            await asyncio.sleep(0.2)
        await asyncio.sleep(1.0)
        after = running.total("process_resident_memory_bytes")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return (after - before) / streams / 1024


def answer_late(seen: Seen) -> Script:
    """As `answer`, but some never begin."""
    return Script(text=CALL, delay_before_first_s=120.0) if seen.json.get("seed") == 3 else answer(seen)


def main() -> int:
    """Print the table."""
    machine = cpu_seconds(lambda: sum(range(10**7)), 5)
    print(f"machine {machine:.3f} s")
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedUpstream(answer_late).in_thread() as upstream,
        toolgraft(Path(folder), upstream.url) as running,
    ):
        print(f"{'':42}{'CPU ms a turn':>14}{'turns/s a core':>16}")
        for kind, (body, turns) in KINDS.items():
            asyncio.run(ask(running.url, body, 20))
            spent = running.total("process_cpu_seconds_total")
            asyncio.run(ask(running.url, body, turns))
            cpu = (running.total("process_cpu_seconds_total") - spent) / turns * 1e3
            print(f"{kind:42}{cpu:14.2f}{1000 / cpu:16.0f}")
        print(f"memory: {running.total('process_resident_memory_bytes') / 2**20:.0f} MiB", end="")
        print(f", and {asyncio.run(hold(running, 300)):.0f} KiB for each waiting stream")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One run of the demo: model, tap, proxy and agents up, tasks through, counters at the end, everything down again.

In: which model. Out: an exit code: 0 when all tasks were run and a tool was called from text that the model wrote. A small model does not bring
every task to an answer; how many it did is said.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import anthropic
import openai
from rich.console import Console
from rich.table import Table

from proxy.demo.agents import anthropic_agent, openai_agent
from proxy.demo.scripted_model import ScriptedModel
from proxy.demo.tap import Tap
from proxy.demo.terminal_story import TerminalStory
from proxy.demo.tools import Workbench

START_SECONDS = 60.0
STOP_SECONDS = 10.0
TASKS = ("What is the weather in Oslo?", "What is the weather in Rome?", "Save a note: buy milk and bread")
_COUNTER = re.compile(
    r"^(toolgraft_(?:turns|attempts|attempt_verdicts|blocks|retries|refusals|repairs)_total)(\{[^}]*\})? (\S+)$", re.MULTILINE
)


class DemoError(Exception):
    """The demo cannot go on; the message says why in words for a person."""


@dataclass(frozen=True)
class Endpoint:
    """A model to run the demo against: OpenAI-compatible base URL ending in /v1, its name, its key, what to call it."""

    base_url: str
    model: str
    key: str
    title: str


async def show(endpoint: Endpoint | None, *, real: bool, full: bool, console: Console) -> int:
    """Run the demo against `endpoint`, the real small model, or the scripted one."""
    async with _model(endpoint, real=real) as model:
        console.rule(f"model: {model.title}")
        tap = Tap(model.base_url)
        tapped = await tap.start()
        try:
            async with _proxy(tapped) as (public, admin, log):
                story = TerminalStory(console, tap, full=full)
                bench = Workbench()
                try:
                    answers = [
                        await agent(public, model.model, model.key, task, bench, story)
                        for agent in (openai_agent, anthropic_agent)
                        for task in TASKS
                    ]
                except (openai.APIError, anthropic.APIError) as exc:
                    raise DemoError(f"the model at {model.base_url} did not answer: {exc}") from exc
                await _counters(admin, console)
                answered = sum(map(bool, answers))
                console.print(f"{answered} of {len(answers)} tasks answered, {bench.calls} calls run, notes saved: {bench.notes}")
                console.print(f"log of the proxy: {log}")
                return 0 if bench.calls else 1
        finally:
            await tap.stop()


@asynccontextmanager
async def _model(endpoint: Endpoint | None, *, real: bool) -> AsyncIterator[Endpoint]:
    if endpoint is not None:
        yield endpoint
    elif real:
        port = _free_port()
        async with _process("-m", "proxy.demo.real_model", "--port", str(port)) as process:
            await _until_up(f"http://127.0.0.1:{port}/health", process)
            yield Endpoint(f"http://127.0.0.1:{port}/v1", "smollm2", "demo", "SmolLM2-135M-Instruct (real, llama.cpp, no tool support)")
    else:
        scripted = ScriptedModel()
        yield Endpoint(await scripted.start(), "scripted", "demo", "an embedded script that plays a text-only model")
        await scripted.stop()


# A small model needs a short contract and worked examples; README gives the figures.
_CONFIG = """\
[listen]
port = {public}

[admin]
port = {admin}

[upstreams.model]
url = "{upstream}"

[defaults]
example_turns = 1
contract_max_bytes = 900
"""


@asynccontextmanager
async def _proxy(upstream: str) -> AsyncIterator[tuple[str, str, Path]]:
    public, admin = _free_port(), _free_port()
    folder = Path(tempfile.mkdtemp(prefix="toolgraft-demo-"))
    config = folder / "demo.toml"
    config.write_text(_CONFIG.format(public=public, admin=admin, upstream=upstream))
    log = folder / "log.jsonl"
    with log.open("wb") as out:
        async with _process("-m", "proxy", "serve", "--config", str(config), stdout=out.fileno()) as process:
            await _until_up(f"http://127.0.0.1:{admin}/readyz", process)
            yield f"http://127.0.0.1:{public}", f"http://127.0.0.1:{admin}", log


@asynccontextmanager
async def _process(*arguments: str, stdout: int = asyncio.subprocess.DEVNULL) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=stdout, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _until_up(url: str, process: asyncio.subprocess.Process) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + START_SECONDS
    async with aiohttp.ClientSession() as session:
        while loop.time() < until:
            if process.returncode is not None:
                raise DemoError(f"a process of the demo ended while it started, with code {process.returncode}")
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
    raise DemoError(f"{url} did not come up within {START_SECONDS:.0f} s")


async def _counters(admin: str, console: Console) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{admin}/metrics") as answer:
        text = await answer.text()
    table = Table("counter", "labels", "value", title="counters at the end")
    for name, labels, value in _COUNTER.findall(text):
        if float(value):
            table.add_row(name, labels, f"{float(value):g}")
    console.print(table)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

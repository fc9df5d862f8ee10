"""Clients that never stop asking, and that notice everything: a status, a byte that is missing, an end that is none.

In: a base URL, how many clients. Out: what went wrong, one line each, and how much was done. Every client has a connection of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

from tests.support.scripted_upstream import Script, Seen

TOOL = {
    "type": "function",
    "function": {
        "name": "lookup_tide",
        "description": "Looks up the tide.",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
    },
}
CALL = 'I look it up.\n```json action\n{"tool": "lookup_tide", "parameters": {"port": "Vigo"}}\n```'
WORDS = "The tide at Vigo turns twice a day, as it does along the whole of this coast, and nobody there is surprised by it any more. "


def answer(seen: Seen) -> Script:
    """What the upstream says: as much as the last message asks for, a call where it asks for one."""
    asked = seen.json["messages"][-1]["content"]
    text = CALL if "call" in asked else WORDS * (12 if "long" in asked else 2)
    return Script(text=text, chunk=24, delay_between_s=0.03 if seen.json.get("stream") else 0.0, delay_before_first_s=0.02)


@dataclass
class Tally:
    """What came of it."""

    done: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    rids: list[str] = field(default_factory=list)

    def count(self, kind: str) -> None:
        self.done[kind] = self.done.get(kind, 0) + 1


KINDS = ("stream", "plain", "call", "plain call", "long stream")


class Load:
    """`count` clients against one base URL, from `__aenter__` to `__aexit__`; what they are in the middle of then is finished."""

    def __init__(self, url: str, count: int = 24, pause_s: float = 0.05) -> None:
        self.tally = Tally()
        self._url = url
        self._count = count
        self._pause_s = pause_s
        self._enough = asyncio.Event()
        self._clients: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._clients = [asyncio.create_task(self._client(number)) for number in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._enough.set()
        await asyncio.gather(*self._clients)

    async def until(self, reached: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not reached():
                await asyncio.sleep(0.02)

    async def more(self, count: int) -> None:
        """Wait until so many more requests have been answered."""
        before = sum(self.tally.done.values())
        await self.until(lambda: sum(self.tally.done.values()) + len(self.tally.failed) >= before + count)

    async def _client(self, number: int) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:
            at = number
            while not self._enough.is_set():
                kind = KINDS[at % len(KINDS)]
                at += 1
                try:
                    await ask(session, self._url, kind, self.tally)
                    self.tally.count(kind)
                except (aiohttp.ClientError, TimeoutError, AssertionError, ValueError, OSError) as exc:
                    self.tally.failed.append(f"{kind}: {type(exc).__name__}: {exc}"[:300])
                await asyncio.sleep(self._pause_s)


def request_of(kind: str) -> dict[str, Any]:
    words = " ".join(("long" if "long" in kind else "short", "call" if "call" in kind else "text"))
    return {
        "model": "m",
        "messages": [{"role": "user", "content": f"a {words}, please"}],
        "stream": "plain" not in kind,
        "tools": [TOOL],
    }


async def ask(session: aiohttp.ClientSession, url: str, kind: str, tally: Tally) -> None:
    """One request; raises for anything that is not its whole and right answer."""
    body = request_of(kind)
    async with session.post(f"{url}/v1/chat/completions", json=body) as got:
        rid = got.headers.get("x-request-id", "")
        raw = await got.read()
        assert got.status == 200, f"status {got.status}: {raw[:200]!r}"
        tally.rids.append(rid)
        text, calls, finish = (streamed if body["stream"] else whole)(raw)
        expected = ("I look it up.", ["lookup_tide"], "tool_calls") if "call" in kind else (_words(kind), [], "stop")
        assert (text.strip(), calls, finish) == expected, (text[-100:], calls, finish)


def _words(kind: str) -> str:
    return (WORDS * (12 if "long" in kind else 2)).strip()


def whole(raw: bytes) -> tuple[str, list[str], str]:
    """Text, names of calls and the finish reason of a Chat answer."""
    choice = json.loads(raw)["choices"][0]
    message = choice["message"]
    return message.get("content") or "", [call["function"]["name"] for call in message.get("tool_calls") or ()], choice["finish_reason"]


def streamed(raw: bytes) -> tuple[str, list[str], str]:
    """The same of a stream, which must end with `[DONE]`."""
    assert raw.endswith(b"data: [DONE]\n\n"), f"a stream without its end: {raw[-100:]!r}"
    text, calls, finish = "", [], ""
    for line in raw.splitlines():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            text += choice["delta"].get("content") or ""
            calls += [one["function"]["name"] for one in choice["delta"].get("tool_calls") or () if one["function"].get("name")]
            finish = choice["finish_reason"] or finish
    return text, calls, finish


async def off_loop(work: Callable[..., Any], *arguments: Any) -> Any:
    """Blocking work beside the clients."""
    return await asyncio.to_thread(work, *arguments)

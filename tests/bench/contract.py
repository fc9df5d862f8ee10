"""What the contract costs: rendering the tools of real agents cold, and asking for them again.

    python tests/bench/contract.py           milliseconds cold by tier, hit, whole turn of 1 and of 100 calls, for each agent
    python tests/bench/contract.py AGENT     one of them, such as claude-code

Reads `tests/cases/agent_requests`, needs nothing. Figures are CPU seconds of one core, the best of some rounds. What is aimed at: 24 tools of
64 KB under 5 ms cold, a hit next to nothing (C9).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pipeline import json_values
from pipeline.contract.block import TIERS, Brief, write_tier
from pipeline.contract.cache import ContractCache
from pipeline.dialects import registry
from pipeline.protocols.anthropic_messages.read import read_request as read_messages
from pipeline.protocols.openai_chat.read import read_request as read_chat
from pipeline.protocols.openai_responses.read import read_request as read_responses
from pipeline.settings import Settings
from pipeline.stages.history_guard import HistoryGuard
from pipeline.stages.prompt_contract import PromptContract
from pipeline.testing.growth import cpu_seconds
from pipeline.turn import Arguments, Call, Message, Result, Role, Text, Turn
from pipeline.verdicts import Api

AGENTS = Path(__file__).parents[1] / "cases" / "agent_requests"
ROUNDS = 7


def best(work: Callable[[], object], times: int = 1) -> float:
    """CPU milliseconds of one run, the best of some rounds."""

    def run() -> None:
        for _ in range(times):
            work()

    return min(cpu_seconds(run) for _ in range(ROUNDS)) / times * 1000


def turn_of(path: Path) -> Turn:
    """The recorded request as a turn: its tools, and one user message."""
    body = json_values.loads(path.read_bytes())
    first = body["tools"][0]
    message = {"role": "user", "content": "hi"}
    if "input_schema" in first:
        return read_messages(
            Turn(Api.ANTHROPIC_MESSAGES, body={"model": "m", "max_tokens": 1, "messages": [message], "tools": body["tools"]}),
            unheard,
            strict=False,
        )
    if "function" in first:
        return read_chat(Turn(Api.OPENAI_CHAT, body={"model": "m", "messages": [message], "tools": body["tools"]}), unheard, strict=False)
    return read_responses(
        Turn(Api.OPENAI_RESPONSES, body={"model": "m", "input": [message], "tools": body["tools"]}), unheard, strict=False
    )


def unheard(*_: object, **__: object) -> None:
    """Notes are not measured."""


def long_history(calls: int) -> tuple[Message, ...]:
    """A loop of so many calls, each with a result of 2 KB."""
    history = [Message(Role.USER, (Text("go"),))]
    for at in range(calls):
        history.append(Message(Role.ASSISTANT, (Text("Next."), Call(f"c{at}", "x", Arguments('{"path": "src/app.py", "line": 5}')))))
        history.append(Message(Role.USER, (Result(f"c{at}", (Text("line of a file <b>\n" * 110),)),)))
    return tuple(history)


def measure(path: Path) -> None:
    """Print one agent's row."""
    turn = turn_of(path)
    (dialect,) = registry.load(("json_action",))
    brief = Brief(turn.tools, dialect)
    sizes = [write_tier(brief, tier).size for tier in TIERS]
    cold = [best(lambda tier=tier: write_tier(brief, tier)) for tier in TIERS]
    cache = ContractCache(10**7)
    cache.get(brief)
    hit = best(lambda: cache.get(brief), 20)
    stage, guard = PromptContract(Settings()), HistoryGuard(Settings())
    stage.prepare(turn, unheard)
    short = best(lambda: stage.prepare(turn, unheard), 20)
    long = Turn(turn.api, messages=long_history(100), tools=turn.tools)
    whole = best(lambda: stage.prepare(long, unheard), 3)
    guarded = best(lambda: guard.prepare(long, unheard), 20)
    row = " ".join(f"{size / 1000:6.1f} {ms:6.2f}" for size, ms in zip(sizes, cold, strict=True))
    print(f"{path.stem:26}{len(turn.tools):4} | {row} | {hit:7.3f} {short:7.3f} {whole:7.3f} {guarded:7.3f}")


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1:]
    print(f"{'agent':26}{'n':>4} | {'full kB':>6}     ms {'cut kB':>6}     ms {'names':>6}     ms |     hit  1 turn   100 c   guard  (ms)")
    for path in sorted(AGENTS.glob("*.json")):
        if not wanted or path.stem in wanted:
            measure(path)


if __name__ == "__main__":
    main()

"""One generation of a probe: a task goes down the chain to the upstream, its answer comes back up, as a client would receive it.

In: a task and settings. Out: right or wrong, why, verdict, time, tokens. Retries are off: what counts is what the model does when it is
asked once. Promise: one request upstream (a second one only where the upstream refuses an optional field); no failure raises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Any

import msgspec

from pipeline import json_values
from pipeline.chain import DEFAULT_STAGES, build
from pipeline.commands import Abort, Command, Emit, Ended, Happening, Learn, Lost, Opened, Received, Send
from pipeline.exchange import Exchange
from pipeline.settings import Settings, UpstreamTraits
from pipeline.turn import Turn
from pipeline.verdicts import Api, Verdict
from proxy.probe.tasks import Answer, Task
from proxy.transport import Transport, TransportError

MAX_TOKENS = 800
UPSTREAM = "probed"


class Generation(msgspec.Struct, frozen=True):
    """What came of it. `fault` is empty when the answer is right; `error` names the upstream's failure; tokens may be estimates."""

    task: str
    fault: str
    verdict: Verdict | None
    seconds: float
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether the answer is right."""
        return not self.fault and not self.error


class Prober:
    """Runs generations against one upstream. `timeout_s` bounds one of them, in seconds."""

    def __init__(self, transport: Transport, model: str, timeout_s: float) -> None:
        """The transport must know the upstream by the name UPSTREAM."""
        self._transport = transport
        self._model = model
        self._timeout_s = timeout_s
        self._refused: frozenset[str] = frozenset()

    async def generate(self, task: Task, settings: Settings) -> Generation:
        """Ask once."""
        once = msgspec.structs.replace(settings, max_retries=0)
        turn = _turn(task, self._model)
        began = monotonic()
        exchange = Exchange(build(DEFAULT_STAGES, once), turn, [UpstreamTraits(name=UPSTREAM)], _bind, {UPSTREAM: self._refused}, began)
        error = ""
        body = b""
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await self._drive(exchange)
        except TimeoutError:
            error = f"no answer within {self._timeout_s:g} s"
        seconds = monotonic() - began
        record = exchange.record
        if not error and record.error is not None:
            error = _message(body) or record.error.value
        usage = record.usage
        return Generation(
            task=task.id,
            fault="" if error else task.fault(_answer(body)),
            verdict=record.verdict,
            seconds=seconds,
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            estimated=usage.estimated if usage else False,
            error=error,
        )

    async def _drive(self, exchange: Exchange) -> bytes:
        """Carry the engine's commands out, one upstream request after another; returns the client's body."""
        body = bytearray()
        sends: deque[Send] = deque()
        aborted: set[int] = set()

        def carry(commands: list[Command]) -> None:
            for command in commands:
                if isinstance(command, Send):
                    sends.append(command)
                elif isinstance(command, Emit):
                    body.extend(command.data)
                elif isinstance(command, Abort):
                    aborted.add(command.attempt)
                elif isinstance(command, Learn):
                    self._refused |= {command.parameter}

        def tell(happening: Happening) -> None:
            carry(exchange.receive(happening, monotonic()))

        carry(exchange.start(monotonic()))
        while sends:
            send = sends.popleft()
            try:
                response = await self._transport.send(send.target, send.request)
                try:
                    tell(Opened(send.attempt, response.status, response.headers))
                    async for data in response:
                        tell(Received(send.attempt, data))
                        if send.attempt in aborted:
                            break
                finally:
                    response.abort()
                if send.attempt not in aborted:
                    tell(Ended(send.attempt))
            except TransportError as exc:
                tell(Lost(send.attempt, exc.outcome))
        return bytes(body)


def _turn(task: Task, model: str) -> Turn:
    body = {"model": model, "messages": list(task.messages), "tools": list(task.tools), "temperature": 0, "max_tokens": MAX_TOKENS}
    return Turn(api=Api.OPENAI_CHAT, raw=json_values.dumps_bytes(body), body=body, request_id="probe")


def _bind(stage: str, attempt: int) -> Any:  # noqa: ARG001 - the signature is the engine's
    return _unheard


def _unheard(*_: object, **__: object) -> None:
    """A probe reads the record; what stages say on the way is for logs."""


def _answer(body: bytes) -> Answer:
    """The client's answer; anything unexpected is an empty one."""
    try:
        message: Any = json_values.loads(body)["choices"][0]["message"]  # type: ignore[index]
        functions = [call["function"] for call in message.get("tool_calls") or ()]
        made: Any = tuple((function["name"], json_values.loads(function["arguments"])) for function in functions)
        return Answer(message.get("content") or "", made)
    except (json_values.NotJsonError, KeyError, IndexError, TypeError):
        return Answer("", ())


def _message(body: bytes) -> str:
    try:
        return str(json_values.loads(body)["error"]["message"])  # type: ignore[index]
    except (json_values.NotJsonError, KeyError, TypeError):
        return ""

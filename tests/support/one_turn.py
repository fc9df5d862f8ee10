"""One turn in process: the whole chain behind the real engine, with an upstream that is a list of bytes.

In: a chain, a protocol, a client's request, the pieces of the upstream's body. Out: what the client got. No socket, no clock: for tests that ask
the same question thousands of times. Retries are not served: an attempt beyond the first one is refused a connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.chain import Chain
from pipeline.commands import Command, Done, Emit, Ended, Head, Lost, Opened, Received, Send, TurnRecord
from pipeline.exchange import Exchange
from pipeline.settings import UpstreamTraits
from pipeline.turn import Turn
from pipeline.verdicts import Api, UpstreamOutcome

SSE = "text/event-stream"


@dataclass
class Got:
    """What a client got: one item of `writes` for each write."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)
    clean: bool | None = None
    sent: list[Any] = field(default_factory=list)
    record: TurnRecord | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)


def play(
    chain: Chain,
    api: Api,
    request: Mapping[str, Any],
    pieces: Iterable[bytes],
    *,
    content_type: str = SSE,
    traits: UpstreamTraits | None = None,
) -> Got:
    """Lead one request through the chain; the upstream's body comes in these pieces and ends in order."""
    raw = json.dumps(request).encode()
    turn = Turn(api, body=dict(request), raw=raw, stream=bool(request.get("stream")))
    exchange = Exchange(chain, turn, [traits or UpstreamTraits()], lambda *_: _no_note, {}, 0.0)
    got = Got(record=exchange.record)
    waiting = [*exchange.start(0.0)]
    happenings: list[Any] = []
    now = 0.0
    while waiting or happenings:
        for command in waiting:
            if isinstance(command, Send):
                got.sent.append(json.loads(command.request.body))
                if command.attempt > 1:
                    happenings.append(Lost(command.attempt, UpstreamOutcome.CONNECT))
                else:
                    happenings.append(Opened(1, 200, {"content-type": content_type}))
                    happenings += [Received(1, piece) for piece in pieces]
                    happenings.append(Ended(1))
            else:
                _take(got, command)
        now += 0.001
        waiting = exchange.receive(happenings.pop(0), now) if happenings else []
    return got


def _take(got: Got, command: Command) -> None:
    if isinstance(command, Head):
        assert got.status == 0, "an answer begins once"
        got.status, got.headers = command.status, dict(command.headers)
    elif isinstance(command, Emit):
        assert got.status, "an answer begins before its first byte"
        got.writes.append(command.data)
    elif isinstance(command, Done):
        got.clean = command.clean


def _no_note(*_: object, **__: object) -> None:
    """Nobody listens."""

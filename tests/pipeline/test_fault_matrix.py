"""Every fault of an upstream, in every client protocol, streamed and not: a legal answer or a legal error, never anything between.

The chain is real but for the stages that shape text. Bodies come from the fault table, whole and broken off at every event and inside one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from pipeline.chain import Chain, build
from pipeline.commands import Abort, Done, Emit, Ended, Head, Lost, Opened, Received, Send, Tick
from pipeline.exchange import Exchange
from pipeline.settings import Settings, UpstreamTraits
from pipeline.turn import Turn
from pipeline.verdicts import Api, UpstreamOutcome, Verdict
from tests.cases.upstream_faults import FAULTS, MESSAGES, Fault, call, calls, delta, events, sse
from tests.conformance.answers import read_body, read_stream, violations

STAGES = ("normalize", "history_guard", "upstream", "re_encode")
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
SAID = [{"role": "user", "content": "hi"}]
REQUESTS = {
    Api.OPENAI_CHAT: {"messages": SAID, "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]},
    Api.ANTHROPIC_MESSAGES: {"messages": SAID, "max_tokens": 99, "tools": [{"name": "look", "input_schema": SCHEMA}]},
    Api.OPENAI_RESPONSES: {"input": "hi", "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]},
}
BOTH = [pytest.param(api, stream, id=f"{api}-{'stream' if stream else 'whole'}") for api in Api for stream in (True, False)]
_BUILT: dict[bool, Chain] = {}


@dataclass
class Played:
    """What the client saw of a turn, and the engine's record of it."""

    turn: Turn
    head: Head | None = None
    writes: list[bytes] = field(default_factory=list)
    done: Done | None = None
    verdict: Verdict | None = None
    sends: int = 0

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)


def play(
    api: Api, stream: bool, pieces: Sequence[bytes], lost: UpstreamOutcome | None, traits: UpstreamTraits, live: bool = False
) -> Played:
    """Drive a turn over an upstream that sends these bytes every time it is asked, then ends, is lost, or falls silent."""
    chain = _BUILT.setdefault(live, build(STAGES, Settings(stream_arguments=live)))
    body = {"model": "m", "stream": stream, **REQUESTS[api]}
    turn = Turn(api, raw=json.dumps(body).encode(), body=body, request_id="req_test", model="m")
    exchange = Exchange(chain, turn, [traits], lambda *_: lambda *_, **__: None, {}, 0.0)
    played = Played(turn)
    commands = exchange.start(0.0)
    attempt, now = 0, 0.0
    while played.done is None:
        sent = 0
        for command in commands:
            if isinstance(command, Send):
                sent = command.attempt
                played.sends += 1
            elif isinstance(command, Head):
                assert played.head is None
                played.head = command
            elif isinstance(command, Emit):
                played.writes.append(command.data)
            elif isinstance(command, Done):
                played.done = command
        if played.done is not None:
            break
        assert played.sends < 5, "asks for ever"
        if sent:
            attempt, queue = sent, [Opened(sent, 200, {"content-type": "text/event-stream"}), *(Received(sent, piece) for piece in pieces)]
            queue.append(Ended(sent) if lost is None else Lost(sent, lost))
            if lost is UpstreamOutcome.IDLE_TIMEOUT:
                queue[-1] = Tick()
        if queue:
            happening = queue.pop(0)
            now += 1000.0 if isinstance(happening, Tick) else 0.0
            commands = exchange.receive(happening, now)
            if any(isinstance(command, Abort) and command.attempt == attempt for command in commands):
                queue = []
        else:
            pytest.fail("the engine waits for an upstream that has ended")
    played.verdict = exchange.record.verdict
    assert len(exchange.record.attempt_verdicts) == exchange.record.attempts == played.sends
    return played


def check_legal(played: Played, stream: bool) -> None:
    """An answer, or an error, as the protocol has them; an error ends the connection when the headers were out (E8)."""
    head, turn = played.head, played.turn
    assert head is not None and played.done is not None and played.verdict is not None
    if head.status != 200:
        error = json.loads(played.body)["error"]
        assert 400 <= head.status < 600 and error["message"] and error["type"] and played.done.clean and not head.stream
    elif stream:
        assert violations(turn, played.body) == []
        failed = b'"error"' in played.body and played.verdict is Verdict.UPSTREAM_FAILED
        assert played.done.clean != failed
        if not failed:
            read_stream(turn, played.body)
    else:
        assert played.done.clean
        read_body(turn, played.body)


@pytest.mark.parametrize(("api", "stream"), BOTH)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_every_fault(fault: Fault, api: Api, stream: bool):
    for pieces in ([fault.body], [bytes([one]) for one in fault.body]):
        played = play(api, stream, pieces, None, fault.traits)
        check_legal(played, stream)
        if fault.failed is not None:
            assert played.verdict is Verdict.UPSTREAM_FAILED
        else:
            assert played.head is not None and played.head.status == 200 and played.verdict is not Verdict.UPSTREAM_FAILED
            answer = (read_stream if stream else read_body)(played.turn, played.body)
            assert answer.text == fault.text
            assert len(answer.calls) == len(fault.calls)


STREAMS = {
    "chat": (sse(delta("a"), delta("b é 🌱"), calls(call(0, "c", "look", '{"q":')), calls(call(0, None, None, '"x"}')), delta(finish="tool_calls")), UpstreamTraits()),
    "messages": (next(fault.body for fault in FAULTS if fault.id == "a-call").decode(), MESSAGES),
}  # fmt: skip
LOSSES = [None, UpstreamOutcome.CUT, UpstreamOutcome.IDLE_TIMEOUT]


@pytest.mark.parametrize("lost", LOSSES, ids=["ends", "reset", "stalls"])
@pytest.mark.parametrize(("api", "stream"), BOTH)
@pytest.mark.parametrize("name", STREAMS)
def test_broken_off_at_every_event_and_inside(name: str, api: Api, stream: bool, lost: UpstreamOutcome | None):
    text, traits = STREAMS[name]
    body = text.encode()
    boundaries = [at + 2 for at in range(len(body)) if body[at : at + 2] == b"\n\n"]
    for at in sorted({0, *boundaries, *(boundary - 7 for boundary in boundaries), *(boundary + 9 for boundary in boundaries[:-1])}):
        for live in (False, True):
            played = play(api, stream, [body[:at]] if at else [], lost, traits, live)
            check_legal(played, stream)
            complete = b'finish_reason": "tool_calls' in body[:at] or b'"stop_reason": "tool_use"' in body[:at]
            if not complete:
                assert played.verdict is Verdict.UPSTREAM_FAILED, at
            assert b"[DONE]" not in played.body or played.verdict is not Verdict.UPSTREAM_FAILED


@pytest.mark.parametrize(("api", "stream"), BOTH)
def test_no_connection_and_no_first_byte(api: Api, stream: bool):
    for lost in (UpstreamOutcome.CONNECT, UpstreamOutcome.FIRST_BYTE_TIMEOUT):
        played = play(api, stream, [], lost, UpstreamTraits())
        check_legal(played, stream)
        assert played.head is not None and played.head.status in (502, 504)


def test_an_error_event_of_one_protocol_is_told_in_each():
    body = events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
    heads = [play(api, stream, [body], None, MESSAGES).head for api in Api for stream in (True, False)]
    assert [head.status for head in heads if head is not None] == [503, 503, 529, 529, 503, 503]

"""Faults on both sides of the service through a relay, and clients that leave at every phase.

Whatever happens on the wire: what a client gets is a legal stream or a legal error (judged by `tests/conformance`), every turn has exactly one
canonical line and one verdict, nothing stays in flight, and no task, socket or file descriptor is left behind.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import pytest

from tests.conformance import wire
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.served import open_fds, served, tapped, until
from tests.support.tap import Tap
from tests.support.toxics import Bandwidth, CutAfter, Garble, Latency, Relay, ResetAfter, Slice, Stall, Toxic, reset

IMPATIENT = """
[limits]
header_s = 1
body_s = 1
write_stall_s = 1
[defaults]
first_byte_s = 1
idle_s = 1
keep_alive_first_s = 0.3
keep_alive_s = 0.3
silence_block_s = 0.6
hold_s = 0.5
"""


@dataclass(frozen=True)
class Fault:
    """What a relay does, in both directions."""

    up: tuple[Toxic, ...] = ()
    down: tuple[Toxic, ...] = ()
    nobody: bool = False


UPSTREAM_SIDE = {
    "clear": Fault(),
    "latency": Fault((Latency(0.02),), (Latency(0.05, 0.05),)),
    "one byte at a time": Fault((Slice(1),), (Slice(1),)),
    "little bandwidth": Fault((), (Bandwidth(20_000),)),
    "latency and slices": Fault((), (Latency(0.02), Slice(5))),
    "nobody is there": Fault(nobody=True),
    **{f"silence after {at} bytes": Fault((), (Stall(at),)) for at in (0, 40, 500, 900)},
    **{f"reset after {at} bytes": Fault((), (ResetAfter(at),)) for at in (0, 40, 500, 900, 1500)},
    **{f"cut after {at} bytes": Fault((), (CutAfter(at),)) for at in (0, 40, 500, 900, 1500)},
    "garbage everywhere": Fault((), (Garble(30),)),
    "garbage in the body": Fault((), (Garble(90, start=200),)),
    "garbage now and then": Fault((), (Garble(1000, start=-300),)),
    "garbage at the end": Fault((), (Garble(1, start=1200),)),
    "the request meets silence": Fault((Stall(50),)),
    "the request is reset": Fault((ResetAfter(500),)),
    "the request is cut": Fault((CutAfter(500),)),
    "the request becomes garbage": Fault((Garble(97),)),
}
CLIENT_SIDE = {
    "clear": Fault(),
    "latency": Fault((Latency(0.02),), (Latency(0.02, 0.02),)),
    "one byte at a time": Fault((Slice(1),), (Slice(1),)),
    "little bandwidth": Fault((Bandwidth(20_000),), (Bandwidth(20_000),)),
    **{f"silence after {at} bytes of the request": Fault((Stall(at),)) for at in (0, 20, 400)},
    **{f"reset after {at} bytes of the request": Fault((ResetAfter(at),)) for at in (0, 20, 400)},
    **{f"cut after {at} bytes of the request": Fault((CutAfter(at),)) for at in (0, 20, 400)},
    **{f"silence after {at} bytes of the answer": Fault((), (Stall(at),)) for at in (0, 100, 700)},
    **{f"reset after {at} bytes of the answer": Fault((), (ResetAfter(at),)) for at in (0, 100, 700)},
    **{f"cut after {at} bytes of the answer": Fault((), (CutAfter(at),)) for at in (0, 100, 700)},
    "garbage in the answer": Fault((), (Garble(50),)),
}
GARBAGE_FROM_CLIENTS = {
    "garbage in the head": Fault((Garble(40),)),
    "garbage in the body": Fault((Garble(60, start=250),)),
    "nothing but garbage": Fault((Garble(1),)),
}

SAID = {
    "text": Script(text="The tide at Vigo turns twice a day, as it does along the whole of this coast. " * 2),
    "long": Script(text="A long answer about tides, in many words. " * 60, chunk=40),
    "call": Script(text='I look.\n```json action\n{"tool": "lookup", "parameters": {"port": "Vigo"}}\n```'),
    "broken": Script(text='```json action\n{"tool": "lookup", "parameters": {"port": \n```\nThat was it.'),
    "refusal": Script(text="I'm sorry, but I don't have access to any tools, so I cannot look that up."),
    "thoughts": Script(reasoning="Let me think about tides. " * 4, text="Twice a day."),
    "nothing": Script(text=""),
}
CORRECTED = ("broken", "refusal", "nothing")


class Model:
    """Says what the message names; where it was asked again for that, a call."""

    def __init__(self):
        self.asked = {}

    def __call__(self, seen):
        turn = seen.headers.get("traceparent", "").split("-")[1:2]
        turn = turn[0] if turn else ""
        self.asked[turn] = self.asked.get(turn, 0) + 1
        said = next((name for name in SAID if f"say {name}" in seen.text), "text")
        return SAID["call" if self.asked[turn] > 1 and said in CORRECTED else said]


FUNCTION = {
    "name": "lookup",
    "description": "Looks a port up.",
    "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
}
FORMS = {
    "chat/completions": lambda tools: [{"type": "function", "function": FUNCTION}] if tools else None,
    "messages": lambda tools: [{"name": "lookup", "description": "x", "input_schema": FUNCTION["parameters"]}] if tools else None,
    "responses": lambda tools: [{"type": "function", **FUNCTION}] if tools else None,
}


def request_of(protocol, model, said, *, stream, tools, required=False):
    message = {"role": "user", "content": f"please say {said}"}
    body = {"model": model, "stream": stream, "input" if protocol == "responses" else "messages": [message]}
    if protocol == "messages":
        body["max_tokens"] = 100
    if (offered := FORMS[protocol](tools)) is not None:
        body["tools"] = offered
    if required:
        body["tool_choice"] = {"type": "any"} if protocol == "messages" else "required"
    return body


class Sea:
    """The service between relays: one upstream relay for each fault, reached by a model's name; one client relay for each fault."""

    def __init__(self, service, tap, wild, upstream, relays, upstream_relays):
        self.service = service
        self.tap = tap
        self.wild = wild
        self.upstream = upstream
        self.relays = relays
        self.upstream_relays = upstream_relays
        self.errors = {}

    async def turn(self, entry, protocol, body):
        """One request through one client relay, whatever comes of it."""
        timeout = aiohttp.ClientTimeout(total=20, sock_read=6)
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), timeout=timeout) as session:
                async with session.post(f"http://127.0.0.1:{entry}/v1/{protocol}", json=body) as answer:
                    await answer.read()
                    return answer.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
            self.errors[type(exc).__name__] = self.errors.get(type(exc).__name__, 0) + 1
            return None

    async def calm(self):
        """Wait until every turn is over and every connection is gone; those that only hang are cut, and those that wait for more work too."""
        await self.service.settled()
        for name, relay in self.relays.items():
            if "silence" in name:
                await relay.drop()
        for relay in self.upstream_relays:
            await relay.drop()
        await until(lambda: not any(relay.open for relay in self.relays.values()))
        await until(lambda: self.tasks() == [])

    def tasks(self):
        """Tasks of the service that belong to turns."""
        return [task for task in asyncio.all_tasks() if "/proxy/" in repr(task.get_coro()) and "watch_loop" not in repr(task)]


async def sail(stack):
    """Set everything up."""
    upstream = await stack.enter_async_context(ScriptedUpstream(Model(), chunk=12))
    toml, upstream_relays = IMPATIENT, []
    for at, (name, fault) in enumerate(UPSTREAM_SIDE.items()):
        relay = await stack.enter_async_context(Relay(upstream.port, up=fault.up, down=fault.down))
        upstream_relays.append(relay)
        url = "http://127.0.0.1:9" if fault.nobody else relay.url
        toml += f'[upstreams.u{at}]\nurl = "{url}/v1"\n[[routes]]\nmodel = "{name}"\nupstreams = ["u{at}"]\n'
    service, tap = await stack.enter_async_context(tapped(toml))
    wild = stack.enter_context(Tap(service.port))
    relays = {}
    for name, fault in (CLIENT_SIDE | {f"wild {one}": fault for one, fault in GARBAGE_FROM_CLIENTS.items()}).items():
        target = wild.port if name.startswith("wild ") else tap.port
        relays[name] = await stack.enter_async_context(Relay(target, up=fault.up, down=fault.down))
    return Sea(service, tap, wild, upstream, relays, upstream_relays)


def voyages(seed, count):
    """So many turns: a fault on one side or on both, every protocol, streamed or not, with tools or without."""
    dice = random.Random(seed)
    upstream, client = list(UPSTREAM_SIDE)[1:], list(CLIENT_SIDE)[1:] + [f"wild {one}" for one in GARBAGE_FROM_CLIENTS]
    for at in range(count):
        side = at % 4
        yield (
            dice.choice(client) if side in (1, 3) else "clear",
            dice.choice(upstream) if side in (0, 2, 3) else "clear",
            dice.choice(list(FORMS)),
            dice.choice(list(SAID)),
            {"stream": dice.random() < 0.7, "tools": dice.random() < 0.75},
        )


async def faulty_turns(count, seed, at_once=12):
    async with AsyncExitStack() as stack:
        sea = await sail(stack)
        gate = asyncio.Semaphore(at_once)

        async def one(client, model, protocol, said, options):
            async with gate:
                return await sea.turn(sea.relays[client].port, protocol, request_of(protocol, model, said, **options))

        plan = list(voyages(seed, count))
        third = count // 3
        statuses = await asyncio.gather(*(one(*voyage) for voyage in plan[:third]))
        await sea.calm()
        early = len(open_fds())
        statuses += await asyncio.gather(*(one(*voyage) for voyage in plan[third:]))
        await sea.service.settled()
        # clear water: after all that, the service answers as if nothing had been
        for protocol in FORMS:
            assert await sea.turn(sea.relays["clear"].port, protocol, request_of(protocol, "clear", "call", stream=True, tools=True)) == 200
        await sea.calm()
        assert sea.tasks() == []
        await until(lambda: len(open_fds()) <= early)  # file descriptors do not pile up
        assert sea.service.books() == []
        judge_all(sea)
        # the plan did meet what it is about
        assert len({status for status in statuses if status}) >= 4, statuses
        assert len(sea.errors) >= 2, sea.errors
        assert {line["verdict"] for line in sea.service.turns()} >= {"call", "text", "upstream_failed", "client_gone"}
    # whatever the upstream did not finish it saw closed
    assert all(seen.completed or seen.cancelled.is_set() or seen.json_is_broken for seen in map(Ended, sea.upstream.seen))


class Ended:
    """How a request ended, as the upstream saw it."""

    def __init__(self, seen):
        self.completed = seen.completed
        self.cancelled = seen.cancelled
        try:
            self.json_is_broken = not isinstance(seen.json, dict)
        except ValueError:
            self.json_is_broken = True


def judge_all(sea):
    lines = {line["rid"]: line for line in sea.service.turns()}
    bad = []
    exchanges = sea.tap.exchanges()
    for exchange in exchanges:
        line = lines.get(exchange.headers.get("x-request-id", ""))
        if not exchange.request_body and exchange.status in (0, 408):
            continue  # the request never came
        bad += [f"{exchange.path} {exchange.status} {line}: {one}" for one in wire.judge(exchange, line, silence=True)]
    assert bad == [], bad[:5]
    assert sum(exchange.streamed for exchange in exchanges) > len(exchanges) / 5
    for passed in sea.wild.wires:  # what is garbage cannot be matched with its answer, but an answer it is
        assert passed.got[:9] in (b"", b"HTTP/1.1 ", b"HTTP/1.0 "), passed.got[:100]
        status = passed.got[9:12]
        if status.startswith(b"4"):
            assert b'"error"' in passed.got
        else:
            assert status in (b"", b"200", b"502", b"504")


@pytest.mark.timeout(300)
async def test_150_faulty_turns_end_legally_and_leave_nothing_behind():
    await faulty_turns(150, seed=20)


@pytest.mark.heavy
@pytest.mark.timeout(1800)
async def test_1000_faulty_turns_end_legally_and_leave_nothing_behind():
    await faulty_turns(1000, seed=21)


# --- each fault once, and what becomes of it -----------------------------------------------------------------------------------


OUTCOMES = {
    "clear": "ok",
    "latency": "ok",
    "one byte at a time": "ok",
    "little bandwidth": "ok",
    "latency and slices": "ok",
    "nobody is there": "connect",
    "silence after 0 bytes": "first_byte_timeout",
    "silence after 900 bytes": "idle_timeout",
    "reset after 0 bytes": "cut",
    "reset after 900 bytes": "cut",
    "cut after 40 bytes": "cut",
    "cut after 900 bytes": "cut",
    "the request meets silence": "first_byte_timeout",
    "the request becomes garbage": "http_4xx",
}


@pytest.mark.parametrize("stream", [True, False])
async def test_each_fault_of_an_upstream_is_called_by_its_name(stream):
    async with AsyncExitStack() as stack:
        sea = await sail(stack)
        for model, outcome in OUTCOMES.items():
            at = list(UPSTREAM_SIDE).index(model)
            body = request_of("chat/completions", model, "long", stream=stream, tools=True)
            status = await sea.turn(sea.relays["clear"].port, "chat/completions", body)
            await sea.service.settled()
            assert sea.service.total("toolgraft_upstream_requests_total", upstream=f"u{at}", outcome=outcome) >= 1, model
            turn = sea.service.turns()[-1]
            assert turn["verdict"] == ("text" if outcome == "ok" else "upstream_failed"), (model, turn)
            if outcome == "ok":
                assert status == 200, model
            elif turn["status"] != 200:  # nothing had reached the client: a status that tells, and says when to come back
                assert status == turn["status"] == {"first_byte_timeout": 504, "idle_timeout": 504, "http_4xx": 400}.get(outcome, 502), (
                    model
                )
            else:
                assert status is None, model  # the protocol's error event, and no final chunk
        await sea.calm()
        assert sea.service.books() == []
        judge_all_streams(sea)


def judge_all_streams(sea):
    lines = {line["rid"]: line for line in sea.service.turns()}
    bad = [one for exchange in sea.tap.exchanges() for one in wire.judge(exchange, lines[exchange.headers["x-request-id"]], silence=True)]
    assert bad == []


# --- clients that leave --------------------------------------------------------------------------------------------------------

PATIENT = "[defaults]\nkeep_alive_first_s = 0.2\nkeep_alive_s = 0.2\nhold_s = 100\n"
NEVER = Script(delay_before_first_s=100)
WORDS = "The tide at Vigo turns twice a day, as it does along the whole of this coast, and nobody minds. " * 8


def spoken(text):
    """An answer that says this and then neither goes on nor ends."""
    return Script(text=text, chunk=20, delay_before_end_s=100)


@dataclass(frozen=True)
class Phase:
    """A client leaves when the upstream was asked so often, has begun so many answers, and the client has read this much."""

    scripts: tuple[Script, ...]
    stream: bool = True
    required: bool = False
    asked: int = 1
    begun: int = 0
    reads: bytes = b""
    label: str = "before_first_byte"


PHASES = {
    "before the upstream answered": Phase((NEVER,)),
    "before it answered, after a keep-alive": Phase((NEVER,), reads=b"\n\n", label="mid_stream"),
    "while text is held that may be a refusal": Phase((spoken("I'm sorry, but I don't"),), begun=1),
    "while all is held because a call is mandatory": Phase((spoken(WORDS),), required=True, begun=1),
    "while a call is being written": Phase((spoken('```json action\n{"tool": "lookup", "parameters": {"port": "Vi'),), begun=1),
    "in the middle of the text": Phase((spoken(WORDS),), begun=1, reads=b"coast", label="mid_stream"),
    "while the retry is not answered": Phase((SAID["refusal"], NEVER), asked=2, begun=1),
    "while the retry is held": Phase((SAID["refusal"], spoken("I'm sorry, but I don't")), asked=2, begun=2),
    "while the retry streams": Phase((SAID["refusal"], spoken(WORDS)), asked=2, begun=2, reads=b"coast", label="mid_stream"),
    "not streaming, before the upstream answered": Phase((NEVER,), stream=False),
    "not streaming, while it answers": Phase((Script(raw='{"id": "c", "choices": [', ending="open"),), stream=False, begun=1),
    "not streaming, while the retry is not answered": Phase((SAID["refusal"], NEVER), stream=False, asked=2, begun=1),
}


def request_bytes(protocol, body):
    import json

    data = json.dumps(body).encode()
    return (
        f"POST /v1/{protocol} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    )


@pytest.mark.parametrize("abruptly", [False, True], ids=["in order", "abruptly"])
@pytest.mark.parametrize("protocol", list(FORMS))
async def test_a_client_that_leaves_closes_its_upstreams_at_every_phase(protocol, abruptly):
    for name, phase in PHASES.items():
        async with ScriptedUpstream(list(phase.scripts)) as upstream:
            async with tapped(f'{PATIENT}[upstreams.u]\nurl = "{upstream.url}"\n') as (service, tap):
                reader, writer = await asyncio.open_connection("127.0.0.1", tap.port)
                body = request_of(protocol, "m", "x", stream=phase.stream, tools=True, required=phase.required)
                writer.write(request_bytes(protocol, body))
                await until(lambda asked=phase.asked: len(upstream.seen) == asked)
                await until(lambda begun=phase.begun: service.total("toolgraft_upstream_first_byte_seconds_count") == begun)
                if phase.reads:
                    async with asyncio.timeout(10):
                        await reader.readuntil(b"\r\n\r\n")
                        await reader.readuntil(phase.reads)
                assert not upstream.seen[-1].cancelled.is_set()
                if abruptly:
                    reset(writer)
                else:
                    writer.close()
                assert await upstream.seen[-1].left(5), name
                await service.settled()
                turn = service.turns()[0]
                assert (turn["verdict"], turn["client_gone"], turn["attempts"]) == ("client_gone", True, phase.asked), (name, turn)
                if phase.label == "mid_stream" or not phase.stream:  # a keep-alive may or may not have left meanwhile
                    assert service.total("toolgraft_disconnects_total", phase=phase.label) == 1, name
                assert service.total("toolgraft_disconnects_total") == 1, name
                assert service.books() == [], name
                assert wire.judge(tap.exchanges()[0], turn, silence=True) == [], name


async def test_a_client_that_leaves_the_queue_or_its_upload_asks_no_upstream():
    async with ScriptedUpstream(NEVER) as upstream:
        toml = f'[limits]\nmax_concurrency = 1\nqueue_s = 100\n[upstreams.u]\nurl = "{upstream.url}"\n'
        async with served(toml) as service:
            data = request_bytes("chat/completions", request_of("chat/completions", "m", "x", stream=True, tools=True))
            first = await asyncio.open_connection("127.0.0.1", service.port)
            first[1].write(data)
            await until(lambda: len(upstream.seen) == 1)
            waiting = await asyncio.open_connection("127.0.0.1", service.port)
            waiting[1].write(data)
            uploading = await asyncio.open_connection("127.0.0.1", service.port)
            uploading[1].write(data[:-20])
            await until(lambda: service.total("toolgraft_requests_in_flight") == 3)
            for _, writer in (waiting, uploading):
                writer.close()
            await until(lambda: len(service.turns()) == 2)
            assert {(turn["verdict"], turn["attempts"]) for turn in service.turns()} == {("client_gone", 0)}
            assert service.total("toolgraft_disconnects_total", phase="before_upstream") == 2
            assert len(upstream.seen) == 1
            assert not upstream.seen[0].cancelled.is_set()
            first[1].close()
            assert await upstream.seen[0].left(5)
            await service.settled()
            assert service.books() == []


async def test_a_client_that_closes_only_its_sending_side_is_gone_too():
    """`shutdown(SHUT_WR)` cannot be told from a close; a client that reads on gets nothing more, and the upstream is closed."""
    async with ScriptedUpstream(spoken(WORDS)) as upstream, served(f'[upstreams.u]\nurl = "{upstream.url}"\n') as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(request_bytes("chat/completions", request_of("chat/completions", "m", "x", stream=True, tools=True)))
        await asyncio.wait_for(reader.readuntil(b"coast"), 10)
        writer.write_eof()
        assert await upstream.seen[0].left(5)
        assert b"[DONE]" not in await asyncio.wait_for(reader.read(), 5)
        await service.settled()
        assert service.turns()[0]["verdict"] == "client_gone"
        writer.close()

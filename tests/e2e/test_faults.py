"""Line D of what must be shown, from the client's side: whatever an upstream does over a real connection, a client of each protocol, streaming
or not, gets a legal answer or a legal error.

The upstream plays every row of the fault table, answers broken off at every event and inside one (by a FIN and by a RST), silence, and odd
encodings. A real `toolgraft serve` with the whole chain stands between. What the clients see is judged on the wire when the server has ended
(`tests/conformance/wire.py`); here it is only asked whether the answer came or an error, and that nothing of it is invented or lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from pipeline.verdicts import Api
from tests.cases.upstream_faults import ANTHROPIC, CHAT_FAULTS, Fault, delta, events, sse
from tests.conformance import assemble
from tests.conformance.assemble import Answer
from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import Ending, Script, ScriptedUpstream, Seen

AT_ONCE = 12
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
PATHS = {Api.OPENAI_CHAT: "chat/completions", Api.ANTHROPIC_MESSAGES: "messages", Api.OPENAI_RESPONSES: "responses"}
STREAMS = {
    Api.OPENAI_CHAT: assemble.chat_stream,
    Api.ANTHROPIC_MESSAGES: assemble.messages_stream,
    Api.OPENAI_RESPONSES: assemble.responses_stream,
}
BODIES = {
    Api.OPENAI_CHAT: assemble.chat_body,
    Api.ANTHROPIC_MESSAGES: assemble.messages_body,
    Api.OPENAI_RESPONSES: assemble.responses_body,
}
QUICK = "[defaults]\nmax_retries = 0\nfirst_byte_s = 0.4\nidle_s = 0.4\nexample_turns = 0\n"
_CASE = re.compile(r"case:(\d+):")


def request_of(api: Api, words: str, *, stream: bool) -> dict[str, Any]:
    said = [{"role": "user", "content": words}]
    body: dict[str, Any] = {"model": "m", "stream": stream}
    if api is Api.OPENAI_CHAT:
        return {**body, "messages": said, "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]}
    if api is Api.ANTHROPIC_MESSAGES:
        return {**body, "messages": said, "max_tokens": 99, "tools": [{"name": "look", "input_schema": SCHEMA}]}
    return {**body, "input": said, "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]}


@dataclass
class Outcome:
    """What a client got: an answer, or an error (its status, or 200 for one inside a stream)."""

    status: int
    body: bytes
    answer: Answer | None = None
    cut: bool = False


@dataclass
class Bench:
    """A server over an upstream that plays the script whose number stands in the request."""

    scripts: list[Script] = field(default_factory=list)
    running: Running | None = None

    def choose(self, seen: Seen) -> Script:
        found = _CASE.search(seen.text)
        assert found is not None
        return self.scripts[int(found[1])]

    async def ask(self, session: aiohttp.ClientSession, number: int, api: Api, model: str, *, stream: bool) -> Outcome:
        assert self.running is not None
        body = request_of(api, f"case:{number}: look", stream=stream) | {"model": model}
        async with session.post(f"{self.running.url}/v1/{PATHS[api]}", json=body) as answer:
            raw, cut = b"", False
            try:
                async for piece in answer.content.iter_any():
                    raw += piece
            except aiohttp.ClientPayloadError:
                cut = True
        got = Outcome(answer.status, raw, cut=cut)
        if answer.status == 200 and not cut:
            got.answer = (STREAMS if stream else BODIES)[api](raw)
        return got

    def ask_all(
        self, scripts: Sequence[Script], streams: Sequence[bool] = (True, False), models: Sequence[str] = ()
    ) -> dict[tuple[int, Api, bool], Outcome]:
        """Every script asked for by a client of each protocol, several at a time. Scripts are numbered from 0 in the result."""
        base = len(self.scripts)
        models = models or ["m"] * len(scripts)
        self.scripts += scripts

        async def all_of_them() -> dict[tuple[int, Api, bool], Outcome]:
            places = asyncio.Semaphore(AT_ONCE)
            timeout = aiohttp.ClientTimeout(total=20)
            async with aiohttp.ClientSession(timeout=timeout) as session:

                async def one(number: int, api: Api, stream: bool) -> Outcome:
                    async with places:
                        return await self.ask(session, base + number, api, models[number], stream=stream)

                keys = [(number, api, stream) for number in range(len(scripts)) for api in Api for stream in streams]
                return dict(zip(keys, await asyncio.gather(*(one(*key) for key in keys)), strict=True))

        return asyncio.run(all_of_them())


LENIENT = """
[upstreams.lenient]
url = "{url}"
lenient_end = true

[[routes]]
model = "lenient"
upstreams = ["lenient"]

[[routes]]
model = "*"
upstreams = ["model"]
"""


@pytest.fixture(scope="module", params=["openai_chat", "anthropic_messages"])
def bench(request, tmp_path_factory):
    """One server for all tests of an upstream's protocol."""
    with ExitStack() as stack:
        made = Bench()
        upstream = stack.enter_context(ScriptedUpstream(made.choose).in_thread())
        toml = QUICK + LENIENT.format(url=upstream.url)
        folder = tmp_path_factory.mktemp("faults")
        made.running = stack.enter_context(toolgraft(folder, upstream.url, toml, traits=f'protocol = "{request.param}"'))
        yield request.param, made


def faults_of(protocol: str) -> list[Fault]:
    return CHAT_FAULTS if protocol == "openai_chat" else ANTHROPIC


def models_of(faults: Sequence[Fault]) -> list[str]:
    """The route whose upstream is set as the row wants it."""
    return ["lenient" if fault.traits.lenient_end else "m" for fault in faults]


def failed(outcome: Outcome) -> bool:
    """An error: by its status, or inside a stream, which is cut after it (E8)."""
    return outcome.status != 200 or (outcome.cut and b'"error"' in outcome.body)


def check(fault: Fault, outcome: Outcome, where: object) -> None:
    if fault.failed is not None:
        assert failed(outcome), (fault.id, where, outcome)
        return
    assert outcome.answer is not None, (fault.id, where, outcome)
    assert outcome.answer.text == fault.text, (fault.id, where, outcome)
    assert len(outcome.answer.calls) == len(fault.calls), (fault.id, where, outcome)


def test_every_row_of_the_fault_table(bench):
    protocol, made = bench
    faults = faults_of(protocol)
    for (number, api, stream), outcome in made.ask_all([Script.of(fault.script()) for fault in faults], models=models_of(faults)).items():
        check(faults[number], outcome, (api, stream))


def test_every_row_in_small_pieces(bench):
    """UTF-8 characters, lines and events are split between reads."""
    protocol, made = bench
    faults = [fault for fault in faults_of(protocol) if 0 < len(fault.body) < 900]
    scripts = [Script(bytes_hex=_sliced(fault.body)) for fault in faults]
    for (number, api, stream), outcome in made.ask_all(scripts, (True,), models_of(faults)).items():
        check(faults[number], outcome, (api, stream))


def _sliced(body: bytes) -> list[str]:
    size = max(1, len(body) // 23)
    return [body[at : at + size].hex() for at in range(0, len(body), size)]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_although_not_asked_for(bench, encoding):
    protocol, made = bench
    faults = [fault for fault in faults_of(protocol) if fault.failed is None and _is_text(fault.body)][::3]
    scripts = [Script(raw=fault.body.decode(), content_encoding=encoding) for fault in faults]
    for (number, api, stream), outcome in made.ask_all(scripts, (True,), models_of(faults)).items():
        check(faults[number], outcome, (encoding, api, stream))


def _is_text(body: bytes) -> bool:
    try:
        return body.decode() is not None
    except ValueError:
        return False


BLOCK = '```json action\n{"tool": "look", "parameters": {"q": "é 🌱"}}\n```'
TEXT = "I look into the garden first, as it is near. "


def answer_of(protocol: str) -> bytes:
    """A stream with text, a block in text, and a native call, event by event."""
    pieces = [TEXT[at : at + 15] for at in range(0, len(TEXT), 15)] + [BLOCK[at : at + 17] for at in range(0, len(BLOCK), 17)]
    if protocol == "openai_chat":
        return sse(*(delta(piece) for piece in pieces), delta(finish="stop")).encode()
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = ({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces)
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 7}}
    return events(start, block, *deltas, {"type": "content_block_stop", "index": 0}, ended, {"type": "message_stop"}).encode()


def said_all(body: bytes) -> bool:
    """Whether the model's own end had come."""
    return b'"finish_reason": "stop"}' in body or b'"stop_reason": "end_turn"' in body


def cuts_of(body: bytes) -> list[int]:
    """The start, every end of an event, and a place inside every event."""
    boundaries = [at + 2 for at in range(len(body)) if body[at : at + 2] == b"\n\n"]
    return sorted({0, *boundaries[:-1], *(boundary - 9 for boundary in boundaries)})


@pytest.mark.parametrize("ending", ["clean", "cut", "reset"])
def test_broken_off_at_every_event_and_inside(bench, ending: Ending):
    protocol, made = bench
    body = answer_of(protocol)
    cuts = cuts_of(body)
    scripts = [Script(bytes_hex=[body[:at].hex()] if at else [], raw=None if at else "", ending=ending) for at in cuts]
    for (number, api, stream), outcome in made.ask_all(scripts, (True, False) if ending == "cut" else (True,)).items():
        at = cuts[number]
        assert failed(outcome) or (said_all(body[:at]) and outcome.answer is not None), (at, api, stream, outcome)
        if outcome.answer is not None:
            assert outcome.answer.text == TEXT.strip(), (at, api, stream, outcome)
            assert len(outcome.answer.calls) == 1, (at, api, stream, outcome)


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_a_whole_answer_broken_off(bench, ending: Ending):
    protocol, made = bench
    if protocol == "openai_chat":
        choice = {"index": 0, "message": {"role": "assistant", "content": TEXT + BLOCK}, "finish_reason": "stop"}
        body = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
    else:
        content = [{"type": "text", "text": TEXT + BLOCK}]
        body = json.dumps({"type": "message", "content": content, "stop_reason": "end_turn", "usage": {}}).encode()
    cuts = [1, len(body) // 2, len(body) - 1]
    scripts = [Script(bytes_hex=[body[:at].hex()], headers={"content-type": "application/json"}, ending=ending) for at in cuts]
    for key, outcome in made.ask_all(scripts).items():
        assert failed(outcome), (key, outcome)


def test_silence(bench):
    """Before the first byte, and in the middle: the engine's deadlines end it."""
    protocol, made = bench
    body = answer_of(protocol)
    cuts = [at for at in cuts_of(body)[1::5] if not said_all(body[:at])]
    scripts = [
        Script(raw="", ending="open"),
        Script(delay_before_first_s=3),
        *(Script(bytes_hex=[body[:at].hex()], ending="open") for at in cuts),
    ]
    for key, outcome in made.ask_all(scripts).items():
        assert failed(outcome), (key, outcome)
        if key[0] < 2:
            assert outcome.status == 504, (key, outcome)


def test_refused_with_a_status(bench):
    _, made = bench
    page = "<html><title>502 Bad Gateway</title></html>"
    kinds: list[tuple[int, Any]] = [
        (status, {"error": {"message": "no"}}) for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529)
    ]
    kinds += [(status, page) for status in (302, 404, 429, 502, 504)]
    scripts = [Script(status=status, raw=body) if isinstance(body, str) else Script(status=status, body=body) for status, body in kinds]
    for (number, api, stream), outcome in made.ask_all(scripts).items():
        assert outcome.status >= 400, (kinds[number], api, stream, outcome)
        assert b"<html" not in outcome.body, (kinds[number], api, stream, outcome)

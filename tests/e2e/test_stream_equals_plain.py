"""Line F of what must be shown: the answer is the same streamed and not streamed (E5), for every case of the sieve, in all three protocols.

The whole chain runs in process, behind the real engine. What is compared is what a client puts together from either form (`assemble`); every
stream is judged by the grammar on the way, and every stream of one case says the same, however the upstream cut it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.settings import Settings
from pipeline.verdicts import Api
from tests.conformance import assemble, grammar
from tests.conformance.assemble import Answer
from tests.support.one_turn import play

FILE = Path(__file__).parents[1] / "cases" / "sieve.jsonl"
CASES = [json.loads(line) for line in FILE.read_text().splitlines()]
CUTS = {"stop": (1, 7, 0), "length": (7,)}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
CHAINS = {
    tolerance: build(DEFAULT_STAGES, Settings(tolerance=tolerance, max_retries=0, example_turns=0)) for tolerance in ("narrow", "wide")
}


def request_of(api: Api, case: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    """What a client of this protocol asks, with the case's tools."""
    functions = [tool["function"] for tool in case["tools"]]
    said: list[dict[str, Any]] = [{"role": "user", "content": "go on"}]
    if api is Api.OPENAI_CHAT:
        return {"model": "m", "messages": said, "tools": case["tools"], "stream": stream, "stream_options": {"include_usage": True}}
    schemas = [function.get("parameters") or {"type": "object"} for function in functions]
    about = [{"name": function["name"], "description": function.get("description") or ""} for function in functions]
    if api is Api.ANTHROPIC_MESSAGES:
        tools: list[dict[str, Any]] = [{**one, "input_schema": schema} for one, schema in zip(about, schemas, strict=True)]
        return {"model": "m", "max_tokens": 1000, "messages": said, "tools": tools, "stream": stream}
    tools = [{"type": "function", **one, "parameters": schema} for one, schema in zip(about, schemas, strict=True)]
    return {"model": "m", "input": said, "tools": tools, "stream": stream}


def streamed(case: dict[str, Any], cut: int, finish: str) -> list[bytes]:
    """The upstream's stream: one read a delta; -1 means the case's own pieces."""
    text = case["input"]
    pieces = case["chunks"] if cut < 0 else [text[at : at + (cut or len(text))] for at in range(0, len(text), cut or len(text) or 1)]
    deltas = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    ends = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": USAGE}]
    return [*(b"data: " + json.dumps(one).encode() + b"\n\n" for one in [*deltas, *ends]), b"data: [DONE]\n\n"]


def whole(case: dict[str, Any], finish: str) -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": case["input"]}, "finish_reason": finish}
    return [json.dumps({"object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()]


def answer_of(api: Api, case: dict[str, Any], pieces: list[bytes], *, stream: bool) -> Answer:
    """What the client makes of it; the stream must be legal."""
    chain = CHAINS[case.get("tolerance", "narrow")]
    kind = "text/event-stream" if stream else "application/json"
    got = play(chain, api, request_of(api, case, stream=stream), pieces, content_type=kind)
    assert (got.status, got.clean) == (200, True), got.body
    assert len(got.sent) == 1
    if not stream:
        return BODIES[api](got.body)
    assert grammar.check_writes(got.writes) == []
    assert CHECKS[api](got.body) == []
    return STREAMS[api](got.body)


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
CHECKS = {
    Api.OPENAI_CHAT: lambda raw: grammar.check_chat(raw, include_usage=True),
    Api.ANTHROPIC_MESSAGES: grammar.check_messages,
    Api.OPENAI_RESPONSES: grammar.check_responses,
}


@pytest.mark.parametrize("finish", list(CUTS))
@pytest.mark.parametrize("api", list(Api))
def test_every_case_says_the_same_streamed_and_not(api, finish):
    different = []
    for case in CASES:
        plain = answer_of(api, case, whole(case, finish), stream=False)
        for cut in (*CUTS[finish], *([-1] if "chunks" in case else [])):
            live = answer_of(api, case, streamed(case, cut, finish), stream=True)
            if live != plain:
                different.append((case["id"], cut, live, plain))
    assert not different, (len(different), different[0])


def test_the_protocols_agree_with_each_other():
    """Text and calls are the same in all of them; only where parts have no order (Chat) their order may be lost."""
    for case in CASES:
        said = {}
        for api in Api:
            answer = answer_of(api, case, whole(case, "stop"), stream=False)
            at = 2 if api is Api.OPENAI_RESPONSES else 1  # a namespace stands before the name
            said[api] = (answer.text, [(part[at], json.loads(part[at + 1])) for part in answer.calls])
        assert len({json.dumps(one) for one in said.values()}) == 1, (case["id"], said)

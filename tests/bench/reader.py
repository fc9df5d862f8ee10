"""Microseconds per chunk of the Chat Completions reader: bytes of a stream in, events out.

In: streams of plain text deltas as servers write them. Out: one line a case on stdout: microseconds per chunk, the share of parsing
JSON alone, megabytes a second. Run `python -m tests.bench.reader`; compare lines of one run, not runs of different machines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import orjson

from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Turn
from pipeline.verdicts import Api

CHUNKS = 20_000
ROUNDS = 5
HEAD = {"id": "chatcmpl-bench0001", "object": "chat.completion.chunk", "created": 1760000000, "model": "fast", "system_fingerprint": "fp_1"}
END = [{**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"]


def chunk(**delta: object) -> dict:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}


def frame(value: object) -> bytes:
    return b"data: " + (value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()) + b"\n\n"


def anthropic(text: str) -> bytes:
    value = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return b"event: content_block_delta\n" + frame(value)


def per_chunk(pieces: list[bytes], traits: UpstreamTraits, chunks: int) -> float:
    """The best of some rounds, in microseconds."""
    stage, turn = Upstream(Settings()), Turn(Api.OPENAI_CHAT, stream=True)
    best = float("inf")
    for _ in range(ROUNDS):
        reader = stage.read(turn, traits, "text/event-stream", lambda *_, **__: None)
        feed = reader.feed
        start = time.process_time()
        for piece in pieces:
            feed(piece)
        best = min(best, time.process_time() - start)
    return best / chunks * 1e6


def parse_alone(frames: list[bytes]) -> float:
    bodies = [one[6:-2] for one in frames if one.startswith(b"data: {")]
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for body in bodies:
            orjson.loads(body)
        best = min(best, time.process_time() - start)
    return best / max(len(bodies), 1) * 1e6


def resliced(frames: list[bytes], size: int) -> list[bytes]:
    body = b"".join(frames)
    return [body[at : at + size] for at in range(0, len(body), size)]


def main() -> None:
    text = "twenty characters ok"
    chat, messages = UpstreamTraits(), UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)
    plain = [frame(chunk(content=text))] * CHUNKS + [frame(one) for one in END]
    noisy = [frame(chunk(role="assistant", content=text, reasoning_content=None, tool_calls=None))] * CHUNKS + [frame(one) for one in END]
    thought = [frame(chunk(reasoning_content=text))] * CHUNKS + [frame(one) for one in END]
    crlf = [one.replace(b"\n", b"\r\n") for one in plain]
    cases: dict[str, Callable[[], tuple[list[bytes], UpstreamTraits, list[bytes]]]] = {
        "one chunk a read": lambda: (plain, chat, plain),
        "more keys in the delta": lambda: (noisy, chat, noisy),
        "reasoning": lambda: (thought, chat, thought),
        "64 KiB reads": lambda: (resliced(plain, 65536), chat, plain),
        "100 byte reads": lambda: (resliced(plain, 100), chat, plain),
        "CRLF": lambda: (crlf, chat, plain),
        "Messages": lambda: ([anthropic(text)] * CHUNKS, messages, plain),
    }
    for name, make in cases.items():
        pieces, traits, frames = make()
        cost = per_chunk(pieces, traits, CHUNKS)
        rate = sum(map(len, pieces)) / CHUNKS / cost
        print(f"{name:24} {cost:6.2f} us/chunk   json {parse_alone(frames):5.2f}   {rate:6.0f} MB/s")


if __name__ == "__main__":
    main()

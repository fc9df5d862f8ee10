"""A soak: mixed turns at a rate that keeps one core about so busy, for as long as is asked. Run it by hand:

    python -m tests.e2e.soak --seconds 1200 --busy 0.7

Out: one JSON object. Exit status 0 when memory at the end is within 10 % of that after the warm-up and every turn is accounted for exactly; 1 else.
Clients and upstream are bare sockets with ready-made bytes, so that most of the machine's time goes to the service. The rate follows the CPU time that
the service really takes; on a machine that others use too, `busy` says what was reached.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.running import Running, toolgraft

PIECES_EVERY_S = 0.01
CLIENTS = 48
WORDS = "The tide at Vigo turns twice a day, as it does along the whole of this coast, and nobody minds. "
CALL = '```json action\n{"tool": "lookup", "parameters": {"port": "Vigo"}}\n```'
SAID = {
    "text": WORDS * 4,
    "call": "I look it up. " + CALL,
    "long": WORDS * 40,
    "refusal": "I'm sorry, but I don't have access to any tools, so I cannot look that up.",
    "broken": '```json action\n{"tool": "lookup", "parameters": {"port": \n```\nThere.',
}
FUNCTION = {
    "name": "lookup",
    "description": "Looks a port up.",
    "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
}
TOOLS = {
    "chat/completions": [{"type": "function", "function": FUNCTION}],
    "messages": [{"name": "lookup", "description": "x", "input_schema": FUNCTION["parameters"]}],
    "responses": [{"type": "function", **FUNCTION}],
}


# --- the upstream --------------------------------------------------------------------------------------------------------------


def _sse(delta: dict, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return (
        b"data: "
        + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}).encode()
        + b"\n\n"
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _streamed(text: str) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    deltas = [_sse({"content": text[at : at + 24]}, None) for at in range(0, len(text), 24)]
    grouped = [b"".join(deltas[at : at + 4]) for at in range(0, len(deltas), 4)]
    return [head + _chunk(grouped[0]), *map(_chunk, grouped[1:]), _chunk(_sse({}, "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n"]


def _whole(status: str, body: object) -> list[bytes]:
    data = json.dumps(body).encode()
    return [f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data]


def _said_whole(text: str) -> list[bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return _whole("200 OK", {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


ANSWERS = {(name, True): _streamed(text) for name, text in SAID.items()} | {(name, False): _said_whole(text) for name, text in SAID.items()}
ERROR = _whole("500 Internal Server Error", {"error": {"message": "broken", "type": "server_error"}})


class Upstream(asyncio.Protocol):
    """One connection: requests in, ready-made answers out, piece by piece."""

    asked = 0
    _dice = itertools.cycle((1, 0, 1))

    def __init__(self) -> None:
        self._got = bytearray()
        self._left: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, mark, body = bytes(self._got).partition(b"\r\n\r\n")
        if not mark:
            return
        length = next(int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(body) < length:
            return
        del self._got[: len(head) + 4 + length]
        Upstream.asked += 1
        self._left = list(self._answer(body))
        self._go_on()

    def _answer(self, body: bytes) -> list[bytes]:
        if b"say error" in body:
            return ERROR
        said = next((name for name in SAID if f"say {name}".encode() in body), "text")
        if said in ("refusal", "broken") and not next(self._dice):
            said = "call"  # about every second time, so that retries recover in many turns and not in all
        return ANSWERS[said, b'"stream":true' in body.replace(b" ", b"")]

    def _go_on(self) -> None:
        if self._transport is None or not self._left:
            return
        self._transport.write(self._left.pop(0))
        if self._left:
            asyncio.get_running_loop().call_later(PIECES_EVERY_S, self._go_on)


# --- the clients ---------------------------------------------------------------------------------------------------------------


def _request(protocol: str, said: str, *, stream: bool, tools: bool, filler: int = 0) -> bytes:
    message = {"role": "user", "content": f"please say {said}" + " tides" * filler}
    body: dict = {"model": "m", "stream": stream, "input" if protocol == "responses" else "messages": [message]}
    if protocol == "messages":
        body["max_tokens"] = 100
    if tools:
        body["tools"] = TOOLS[protocol]
    data = json.dumps(body).encode()
    return (
        f"POST /v1/{protocol} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
    )


def _mix() -> list[tuple[str, bytes, bool]]:
    """Name, request, whether its client leaves in the middle."""
    found = []
    for protocol in TOOLS:
        found += [(f"{protocol} {said}", _request(protocol, said, stream=True, tools=True), False) for said in SAID]
        found.append((f"{protocol} whole call", _request(protocol, "call", stream=False, tools=True), False))
        found.append((f"{protocol} plain", _request(protocol, "text", stream=True, tools=False), False))
        found.append((f"{protocol} error", _request(protocol, "error", stream=True, tools=True), False))
        found.append((f"{protocol} large", _request(protocol, "text", stream=True, tools=True, filler=17_000), False))
        found.append((f"{protocol} leaves", _request(protocol, "long", stream=True, tools=True), True))
    broken = b'POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"model":'
    return [*found, ("broken JSON", broken, False)]


class Clients:
    """So many clients that ask one after the other; `pause_s` is what each waits between two requests."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.pause_s = 0.5
        self.asked: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.over = False

    async def run(self, number: int) -> None:
        for name, data, leaves in itertools.islice(itertools.cycle(_mix()), number, None):
            if self.over:
                return
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(data.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n", 1))
                self.asked[name] += 1
                if leaves:
                    await reader.readexactly(3000)
                    self.statuses["left"] += 1
                else:
                    self.statuses[(await reader.read(12))[9:12].decode()] += 1
                    while await reader.read(65536):
                        pass
            finally:
                writer.close()
            await asyncio.sleep(self.pause_s)


# --- the measure ---------------------------------------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def soak(running: Running, seconds: float, warm_s: float, busy: float) -> dict:
    pid = running.process.pid
    clients = Clients(int(running.direct.rpartition(":")[2]))
    tasks = [asyncio.create_task(clients.run(number)) for number in range(CLIENTS)]
    begun, last_cpu, last = time.monotonic(), cpu_s(pid), time.monotonic()
    shares: list[float] = []
    warm: list[float] = []
    recent: list[float] = []
    series: list[tuple[int, float]] = []
    while (passed := time.monotonic() - begun) < seconds:
        await asyncio.sleep(2)
        now, cpu = time.monotonic(), cpu_s(pid)
        share = (cpu - last_cpu) / (now - last)
        last_cpu, last = cpu, now
        clients.pause_s = min(max(clients.pause_s * (0.5 + 0.5 * share / busy) + 0.001 * (share > busy), 0.001), 2.0)
        rss = rss_mib(pid)
        recent = [*recent[-4:], rss]
        if passed < warm_s:
            warm = recent
        else:
            shares.append(share)
        if not series or passed - series[-1][0] >= seconds / 20:
            series.append((round(passed), round(rss, 1)))
    elapsed = time.monotonic() - begun
    cpu_share = statistics.mean(shares) if shares else 0.0
    clients.over = True
    await asyncio.gather(*tasks)
    ended = statistics.median(recent)
    return {
        "seconds": round(elapsed),
        "busy": round(cpu_share, 3),
        "asked": sum(clients.asked.values()),
        "statuses": dict(clients.statuses),
    } | {
        "rss_warm_mib": round(statistics.median(warm), 1),
        "rss_end_mib": round(ended, 1),
        "rss_growth": round(ended / statistics.median(warm) - 1, 4),
        "rss_series": series,
    }


async def books(running: Running, asked: int) -> list[str]:
    """What is wrong with the conservation laws; empty when every turn and every attempt is accounted for."""
    for _ in range(200):
        if running.total("toolgraft_requests_in_flight") == 0:
            break
        await asyncio.sleep(0.05)
    total = running.total
    await asyncio.sleep(1)  # the log has a thread of its own
    turns = Counter(line.get("event") for line in map(json.loads, running.log_file.open("rb")))
    checks = {
        "turns in flight": (total("toolgraft_requests_in_flight"), 0),
        "turns started": (total("toolgraft_turns_started_total"), asked),
        "turns concluded": (total("toolgraft_turns_total"), asked),
        "canonical lines": (turns["turn"] + total("toolgraft_log_lines_dropped_total"), asked),
        "attempt verdicts": (total("toolgraft_attempt_verdicts_total"), total("toolgraft_attempts_total")),
        "upstream requests": (total("toolgraft_upstream_requests_total"), total("toolgraft_attempts_total")),
        "attempts, as the upstream saw them": (Upstream.asked, total("toolgraft_attempts_total")),
        "broken promises": (total("toolgraft_invariant_violations_total"), 0),
        "failed stages": (total("toolgraft_stage_errors_total"), 0),
        "unexpected faults": (turns["unexpected"] + turns["library"], 0),
    }
    return [f"{name}: {is_}, not {should}" for name, (is_, should) in checks.items() if is_ != should]


async def main_of(options: argparse.Namespace) -> int:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=512)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        with toolgraft(Path(folder), url, judged=False) as running:
            found = await soak(running, options.seconds, min(options.warm, options.seconds / 2), options.busy)
            found["verdicts"] = dict(Counter(line["verdict"] for line in running.lines() if line["event"] == "turn"))
            found["unaccounted"] = await books(running, found["asked"])
    server.close()
    print(json.dumps(found, indent=1))
    return int(bool(found["unaccounted"]) or found["rss_growth"] > 0.10)


def main() -> None:
    parser = argparse.ArgumentParser(description="soak")
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument(
        "--warm", type=float, default=120, help="seconds after which memory is taken as the base (at most half of the whole)"
    )
    parser.add_argument("--busy", type=float, default=0.7, help="share of one core that the service should take")
    sys.exit(asyncio.run(main_of(parser.parse_args())))


if __name__ == "__main__":
    main()

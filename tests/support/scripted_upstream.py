"""A real HTTP server on 127.0.0.1 that plays an upstream from a script.

In: scripts, each the answer to one request (the last one repeats), or a function from the request to a script. The fields are those of
the case files' `upstream`. Out: the answer in Chat Completions or Messages form, by the path asked, streamed or not, by the request's
`stream`; and a record of every request: headers, body, the connection it came on, whether the client left before the end.

    async with ScriptedUpstream("Hello") as upstream:                  # in an event loop
        ... upstream.url, upstream.seen[0].json, await upstream.seen[0].left(2.0)
    with ScriptedUpstream({"status": 429}).in_thread() as upstream:     # for synchronous clients
    python -m tests.support.scripted_upstream --port 8099 scripts.jsonl # on its own
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import struct
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from aiohttp import web

_OWN_LOG = logging.getLogger("scripted_upstream")
"""Not aiohttp's: what that one says is about the service under test, where both run in one process."""
_OWN_LOG.propagate = False
_OWN_LOG.addHandler(logging.NullHandler())
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
Ending = Literal["clean", "cut", "reset", "open"]


@dataclass
class Script:
    """One answer. Text is cut into deltas of `chunk` characters (0: one delta). Raw answers replace everything that is made.

    `ending` says how the body ends: in order, by a FIN without the final chunk, by a RST, or not at all (until the client leaves).
    `usage` {} leaves it out of a Chat answer. `slice` writes a raw answer in pieces of so many bytes. `finish_reason` None leaves the finish chunk out, `done` False the `[DONE]`.
    """

    text: str = ""
    reasoning: str = ""
    deltas: list[dict[str, Any]] = field(default_factory=list)
    raw: str | None = None
    bytes_hex: list[str] = field(default_factory=list)
    finish_reason: str | None = "stop"
    usage: dict[str, Any] | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content_encoding: str | None = None
    delay_before_first_s: float = 0.0
    delay_between_s: float = 0.0
    delay_before_end_s: float = 0.0
    generate: dict[str, int] | None = None
    chunk: int | None = None
    slice: int = 0
    ending: Ending = "clean"
    done: bool = True

    @classmethod
    def of(cls, value: Script | str | Mapping[str, Any]) -> Script:
        """A script from plain text or a case's `upstream` object; fields that speak to the test harness are passed over."""
        if isinstance(value, Script):
            return value
        if isinstance(value, str):
            return cls(text=value)
        known = {one.name for one in fields(cls)}
        return cls(**{key: one for key, one in value.items() if key in known})


def scripts_of(value: Any) -> list[Script]:
    """All scripts of a case's `upstream` field: `texts` are successive answers, `second_status` fails the second one."""
    if isinstance(value, list):
        return [Script.of(one) for one in value]
    if isinstance(value, Mapping) and "texts" in value:
        rest = {key: one for key, one in value.items() if key != "texts"}
        found = [Script.of({**rest, "text": text}) for text in value["texts"]]
        if "second_status" in value:
            found[1:] = [Script(status=value["second_status"], body={"error": {"message": "scripted failure"}})]
        return found
    return [Script.of(value)]


@dataclass
class Seen:
    """One request as the server saw it. `client` is the peer's address: equal ones came over one connection."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]
    completed: bool = False
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """All message contents, and the system prompt, joined."""
        body = self.json
        found = [body.get("system", "")] + [message.get("content") for message in body.get("messages", [])]
        return "\n".join(_plain(one) for one in found if one)

    async def left(self, within_s: float) -> bool:
        """Whether the client closed its connection before the answer was complete."""
        try:
            await asyncio.wait_for(self.cancelled.wait(), within_s)
        except TimeoutError:
            return False
        return True


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


Answer = Script | str | Mapping[str, Any]
Chooser = Callable[[Seen], Answer]


class ScriptedUpstream:
    """The server. `url` ends in `/v1`; `seen` holds every request but those for the model list."""

    def __init__(
        self, script: Answer | Sequence[Answer] | Chooser = "ok", *, chunk: int = 0, port: int = 0, models: Sequence[str] = ("demo-chat",)
    ) -> None:
        self._choose = script if callable(script) else None
        self.scripts = [] if callable(script) else scripts_of(script)
        self.chunk = chunk
        self.models = models
        self.seen: list[Seen] = []
        self._port = port
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        options = {"handler_cancellation": True, "access_log": None, "shutdown_timeout": 0.1, "keepalive_timeout": 75, "logger": _OWN_LOG}
        self._runner = web.AppRunner(app, **options)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @contextmanager
    def in_thread(self) -> Iterator[Self]:
        """Serve from a thread with an event loop of its own, for clients that block."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), loop).result(10)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    # --- answering ------------------------------------------------------------------------------------------------------------

    def _next(self, seen: Seen) -> Script:
        if self._choose is not None:
            return Script.of(self._choose(seen))
        return self.scripts[min(len(self.seen), len(self.scripts)) - 1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            listed = [{"id": name, "object": "model", "created": 1, "owned_by": "script"} for name in self.models]
            return web.json_response({"object": "list", "data": listed})
        assert request.transport is not None
        seen = Seen(
            request.method,
            request.path,
            request.query_string,
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
            request.transport.get_extra_info("peername"),
        )
        self.seen.append(seen)
        if seen.body[:1] == b"{" and not _is_json(seen.body):
            return web.json_response({"error": {"message": "the body is no JSON", "type": "invalid_request_error"}}, status=400)
        try:
            return await self._answer(request, seen, self._next(seen))
        except (asyncio.CancelledError, ConnectionResetError):
            seen.cancelled.set()
            raise

    async def _answer(self, request: web.Request, seen: Seen, script: Script) -> web.StreamResponse:
        await asyncio.sleep(script.delay_before_first_s)
        streamed = bool(seen.json.get("stream")) if seen.body[:1] == b"{" else False
        content_type, pieces = self._pieces(script, seen, streamed)
        headers = {"content-type": content_type} | script.headers
        if script.content_encoding:
            headers["content-encoding"] = script.content_encoding
        response = web.StreamResponse(status=script.status, headers=headers)
        await response.prepare(request)
        squeeze = _compressor(script.content_encoding)
        async for piece in pieces:
            await response.write(squeeze(piece))
        if script.content_encoding:
            await response.write(squeeze(None))
        await _end(request, script.ending)
        if script.ending == "clean":
            await response.write_eof()
            seen.completed = True
        return response

    def _pieces(self, script: Script, seen: Seen, streamed: bool) -> tuple[str, AsyncIterator[bytes]]:
        if script.bytes_hex:
            return "text/event-stream", _paced([bytes.fromhex(one) for one in script.bytes_hex], 0.005)
        if script.raw is not None:
            data = script.raw.encode("utf-8", "surrogatepass")
            size = script.slice or len(data) or 1
            pause = script.delay_between_s or (0.002 if script.slice else 0.0)
            return _kind(data), _paced([data[at : at + size] for at in range(0, len(data), size)], pause)
        if script.status != 200 or script.body is not None:
            return "application/json", _paced([json.dumps(script.body if script.body is not None else {}).encode()], 0)
        spoken = Spoken(script, seen.json, self.chunk if script.chunk is None else script.chunk)
        messages = seen.path.endswith("/messages")
        if not streamed:
            return "application/json", spoken.whole_message() if messages else spoken.whole_chat()
        return "text/event-stream; charset=utf-8", spoken.messages() if messages else spoken.chat()


class Spoken:
    """What a script says, in both wire forms."""

    def __init__(self, script: Script, request: dict[str, Any], chunk: int) -> None:
        self.script = script
        self.model = request.get("model", "demo-chat")
        self.asked_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self.usage = script.usage if script.usage is not None else USAGE
        text = script.text
        if script.generate is not None:
            body = "line of text\n" * (script.generate["body_bytes"] // 13 + 1)
            arguments = {"path": "a.txt", "body": body[: script.generate["body_bytes"]]}
            text = f"```json action\n{json.dumps({'tool': 'save_note', 'parameters': arguments})}\n```"
            chunk = script.generate.get("delta_chars", chunk)
        self.deltas = [{"reasoning_content": one} for one in _cut(script.reasoning, chunk)]
        self.deltas += [{"content": one} for one in _cut(text, chunk)]
        self.deltas += script.deltas

    async def chat(self) -> AsyncIterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""}, None)
        for delta in self.deltas:
            yield self._chunk(delta, None)
            if self.script.delay_between_s:
                await asyncio.sleep(self.script.delay_between_s)
        await asyncio.sleep(self.script.delay_before_end_s)
        if self.script.finish_reason is not None:
            yield self._chunk({}, self.script.finish_reason)
        if self.asked_usage and self.usage and self.script.finish_reason is not None:
            yield _sse({**self._envelope("chat.completion.chunk"), "choices": [], "usage": self.usage})
        if self.script.done and self.script.finish_reason is not None:
            yield b"data: [DONE]\n\n"

    async def whole_chat(self) -> AsyncIterator[bytes]:
        await asyncio.sleep(self.script.delay_before_end_s)
        message: dict[str, Any] = {"role": "assistant", "content": self._joined("content")}
        if reasoning := self._joined("reasoning_content"):
            message["reasoning_content"] = reasoning
        if calls := [call for delta in self.deltas for call in delta.get("tool_calls") or []]:
            message["tool_calls"] = _merged(calls)
        choice = {"index": 0, "message": message, "finish_reason": self.script.finish_reason}
        counted = {"usage": self.usage} if self.usage else {}
        yield json.dumps({**self._envelope("chat.completion"), "choices": [choice], **counted}, ensure_ascii=False).encode()

    async def messages(self) -> AsyncIterator[bytes]:
        usage = {"input_tokens": self.usage.get("prompt_tokens", 0), "output_tokens": 1}
        yield _event({"type": "message_start", "message": {**self._message([]), "usage": usage}})
        open_kind: str | None = None
        index = -1
        for delta in self.deltas:
            kind = "thinking" if "reasoning_content" in delta else "text"
            if kind != open_kind:
                if open_kind is not None:
                    yield _event({"type": "content_block_stop", "index": index})
                index, open_kind = index + 1, kind
                block = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
                yield _event({"type": "content_block_start", "index": index, "content_block": block})
            piece = delta["reasoning_content"] if kind == "thinking" else delta.get("content", "")
            yield _event({"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: piece}})
            if self.script.delay_between_s:
                await asyncio.sleep(self.script.delay_between_s)
        if open_kind is not None:
            yield _event({"type": "content_block_stop", "index": index})
        await asyncio.sleep(self.script.delay_before_end_s)
        if self.script.finish_reason is not None:
            ended = {"stop_reason": _stop_reason(self.script.finish_reason), "stop_sequence": None}
            yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": self.usage.get("completion_tokens", 0)}})
            yield _event({"type": "message_stop"})

    async def whole_message(self) -> AsyncIterator[bytes]:
        await asyncio.sleep(self.script.delay_before_end_s)
        content: list[dict[str, Any]] = []
        if reasoning := self._joined("reasoning_content"):
            content.append({"type": "thinking", "thinking": reasoning, "signature": ""})
        if text := self._joined("content"):
            content.append({"type": "text", "text": text})
        usage = {"input_tokens": self.usage.get("prompt_tokens", 0), "output_tokens": self.usage.get("completion_tokens", 0)}
        message = {**self._message(content), "stop_reason": _stop_reason(self.script.finish_reason), "usage": usage}
        yield json.dumps(message, ensure_ascii=False).encode()

    def _joined(self, key: str) -> str:
        return "".join(delta.get(key) or "" for delta in self.deltas)

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-script", "object": kind, "created": 1760000000, "model": self.model}

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": "msg_script", "type": "message", "role": "assistant", "model": self.model}
        return {**head, "content": content, "stop_reason": None, "stop_sequence": None}

    def _chunk(self, delta: dict[str, Any], finish: str | None) -> bytes:
        return _sse({**self._envelope("chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _cut(text: str, chunk: int) -> list[str]:
    size = chunk or len(text) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]


def _stop_reason(finish: str | None) -> str:
    return {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}.get(finish or "", "end_turn")


def _sse(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\n".encode() + _sse(value)


def _merged(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for call in calls:
        function = call.get("function", {})
        one = found.setdefault(call.get("index", 0), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        one["id"] = one["id"] or call.get("id", "")
        one["function"]["name"] += function.get("name") or ""
        one["function"]["arguments"] += function.get("arguments") or ""
    return list(found.values())


def _kind(data: bytes) -> str:
    start = data.lstrip()[:1]
    return "application/json" if start in (b"{", b"[") else "text/html" if start == b"<" else "text/event-stream"


async def _paced(pieces: Sequence[bytes], pause_s: float) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(pause_s)


def _compressor(encoding: str | None) -> Callable[[bytes | None], bytes]:
    """Squeeze each piece so that it can be read at once; None ends the body."""
    if encoding is None:
        return lambda piece: piece or b""
    squeeze = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    return lambda piece: squeeze.flush() if piece is None else squeeze.compress(piece) + squeeze.flush(zlib.Z_SYNC_FLUSH)


async def _end(request: web.Request, ending: Ending) -> None:
    transport = request.transport
    if ending == "clean" or transport is None:
        return
    if ending == "open":
        await asyncio.Event().wait()
    await asyncio.sleep(0.01)  # what was written must leave before the connection dies
    if ending == "reset":
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()


def main() -> None:
    """Serve scripts from a JSON-lines file (one a request, the last one repeats) until interrupted."""
    parser = argparse.ArgumentParser(description="scripted upstream")
    parser.add_argument("scripts", type=Path, nargs="?", help="JSON lines, one script a line")
    parser.add_argument("--text", default="Hello from the script.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=0)
    options = parser.parse_args()
    lines = options.scripts.read_text("utf-8").splitlines() if options.scripts else []
    scripts: list[Answer] = [json.loads(line) for line in lines if line.strip()]

    async def serve() -> None:
        async with ScriptedUpstream(scripts or options.text, chunk=options.chunk, port=options.port) as upstream:
            print(upstream.url, flush=True)
            await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()

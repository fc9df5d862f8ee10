"""Independent checkers of the streams a client receives. They share nothing with the writers they judge.

In: the raw bytes of one response body. Out: a list of rule violations, empty when the stream conforms. The rules are the union of what the
official SDK accumulators, the OpenAPI documents, the Open Responses schema and the agents need. S: framing, C: Chat Completions,
A: Anthropic Messages, R: Responses. A stream that ends in an error event is judged as one: everything before it must still be legal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

Violations = list[str]

CHAT_FINISHES = {"stop", "length", "tool_calls", "content_filter", "function_call"}
STOP_REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}
BLOCK_DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "tool_use": {"input_json_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
}
RESPONSE_EVENTS = {
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.completed",
    "response.failed",
    "response.incomplete",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "error",
}
RESPONSE_KEYS = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
]
CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def events(raw: bytes) -> tuple[list[tuple[str | None, str]], Violations]:
    """(event name, data) of every event, and what is wrong with the framing."""
    bad: Violations = []
    if raw.startswith(b"\xef\xbb\xbf"):
        bad.append("S1 BOM at start of stream")
    if b"\r" in raw:
        bad.append("S2 CR in stream (use LF only)")
    text = raw.decode("utf-8-sig")
    if text and not text.endswith("\n\n"):
        bad.append("S3 last event not terminated by a blank line")
    out = []
    for block in text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        if not block.strip("\n"):
            continue
        name = None
        data = []
        bare = False
        for line in block.split("\n"):
            if line.startswith(":"):
                continue
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "data":
                data.append(value)
            elif key in ("id", "retry"):
                bad.append(f"S4 '{key}:' field present")
                bare = True
            elif line:
                bad.append(f"S5 unknown field {key!r}")
        if len(data) > 1:
            bad.append("S8 data over several lines")
        if data:
            out.append((name, "\n".join(data)))
        elif name is not None or bare:
            bad.append("S6 event without data (breaks the OpenAI SDK)")
    return out, bad


def check_writes(writes: Collection[bytes]) -> Violations:
    """Every write holds whole events (X03)."""
    return [f"S9 write {at} ends inside an event" for at, data in enumerate(writes) if data and not data.endswith(b"\n\n")]


def parse(data: str, bad: Violations) -> dict | None:
    """The JSON object of an event."""
    try:
        value = json.loads(data)
    except ValueError:
        bad.append(f"S7 data is not JSON: {data[:40]!r}")
        return None
    if not isinstance(value, dict):
        bad.append(f"S7 data is no object: {data[:40]!r}")
        return None
    return value


def holds_object(text: object) -> bool:
    """Is this JSON text of an object?"""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def whole(value: object) -> bool:
    """An integer that is no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


# --- Chat Completions -------------------------------------------------------------------------------------------------------------


@dataclass
class _Chat:
    include_usage: bool
    tools: Collection[str] | None
    custom: Collection[str]
    bad: Violations
    chunks: int = 0
    roles: int = 0
    finish: str | None = None
    usage: dict | None = None
    calls: list[dict] = field(default_factory=list)
    legacy: dict | None = None
    stamps: dict[str, set] = field(default_factory=lambda: {"id": set(), "created": set(), "model": set()})

    def chunk(self, chunk: dict) -> None:
        self.chunks += 1
        for key in ("id", "object", "created", "model", "choices"):
            if key not in chunk:
                self.bad.append(f"C4 chunk {self.chunks} lacks {key!r}")
        if chunk.get("object") != "chat.completion.chunk":
            self.bad.append(f"C5 object={chunk.get('object')!r}")
        if not whole(chunk.get("created")):
            self.bad.append("C42 created is no integer")
        for key, seen in self.stamps.items():
            seen.add(chunk.get(key))
        if self.usage is not None:
            self.bad.append("C6 chunk after the usage chunk")
        if not chunk.get("choices"):
            self.last(chunk)
            return
        if self.include_usage and "usage" not in chunk:
            self.bad.append("C11 include_usage: non-final chunks must carry usage:null")
        if not self.include_usage and "usage" in chunk:
            self.bad.append("C43 usage key though include_usage was not asked")
        if chunk.get("usage") is not None:
            self.bad.append("C12 usage on a chunk that has choices")
        for choice in chunk["choices"]:
            self.choice(choice)

    def last(self, chunk: dict) -> None:
        usage = chunk.get("usage")
        if usage is None:
            self.bad.append("C7 empty choices without usage")
            return
        self.usage = usage
        if not self.include_usage:
            self.bad.append("C8 usage chunk though include_usage was not asked")
        if self.finish is None:
            self.bad.append("C9 usage chunk before finish chunk")
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            if not whole(usage.get(key)):
                self.bad.append(f"C10 usage.{key} missing")
        if usage.get("total_tokens") != usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0):
            self.bad.append("C44 total_tokens is not the sum")

    def choice(self, choice: dict) -> None:
        bad = self.bad
        if choice.get("index") != 0:
            bad.append("C13 choice index must be 0 (n=1)")
        for key in ("finish_reason", "logprobs"):
            if key not in choice:
                bad.append(f"C14 {key} key absent")
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            bad.append("C15 delta missing")
            return
        if self.finish is not None:
            bad.append("C16 choice chunk after finish_reason")
        if "role" in delta:
            self.roles += 1
            if delta["role"] != "assistant":
                bad.append("C17 role must be assistant")
            if self.chunks != 1:
                bad.append("C18 role outside the first chunk")
        elif self.chunks == 1:
            bad.append("C45 first chunk without role")
        if delta.get("content") is not None and not isinstance(delta["content"], str):
            bad.append("C19 content must be str or null")
        for call in delta.get("tool_calls") or []:
            self.call(call)
        if "function_call" in delta:
            self.function_call(delta["function_call"])
        if choice.get("finish_reason") is not None:
            self.finish = choice["finish_reason"]
            if self.finish not in CHAT_FINISHES:
                bad.append(f"C29 finish_reason {self.finish!r} not in enum")
            if delta:
                bad.append("C46 finish chunk with a delta")

    def call(self, call: dict) -> None:
        bad = self.bad
        at = call.get("index")
        if not whole(at):
            bad.append("C20 tool_calls[].index missing")
            return
        if at >= len(self.calls):
            if at != len(self.calls):
                bad.append(f"C21 tool index {at} not contiguous from 0")
            kind = call.get("type")
            named = call.get(kind) if kind in ("function", "custom") else None
            if not call.get("id"):
                bad.append("C22 first delta of a call lacks id")
            if not isinstance(named, dict):
                bad.append(f"C23 first delta of a call lacks type (is {kind!r})")
                named = {}
            if kind == "custom" and named.get("name") not in self.custom:
                bad.append(f"C47 custom shape for {named.get('name')!r}, which no client declared")
            if not named.get("name"):
                bad.append("C24 first delta of a call lacks name")
            key = "input" if kind == "custom" else "arguments"
            if key not in named:
                bad.append(f"C25 first delta of a call lacks {key}")
            self.calls.append({"kind": kind, "key": key, "id": call.get("id"), "name": named.get("name"), "text": named.get(key) or ""})
            return
        seen = self.calls[at]
        named = call.get(seen["kind"])
        if call.get("id") is not None or call.get("type") is not None or (named or {}).get("name") is not None:
            bad.append("C26 id/type/name repeated in a later delta")
        if named is None:
            bad.append("C27 tool delta without its function")
        if at != len(self.calls) - 1:
            bad.append("C28 tool deltas interleaved")
        seen["text"] += (named or {}).get(seen["key"]) or ""

    def function_call(self, call: dict) -> None:
        if self.legacy is None:
            if not call.get("name") or "arguments" not in call:
                self.bad.append("C48 first function_call delta lacks name or arguments")
            self.legacy = {"name": call.get("name"), "text": call.get("arguments") or ""}
        else:
            if call.get("name") is not None:
                self.bad.append("C49 function_call name repeated")
            self.legacy["text"] += call.get("arguments") or ""

    def end(self, *, done: bool, failed: bool) -> None:
        bad = self.bad
        for name, seen in self.stamps.items():
            if len(seen) > 1:
                bad.append(f"C36 {name} varies between chunks")
        for call in self.calls:
            if call["id"] and not CALL_ID.fullmatch(call["id"]):
                bad.append("C38 call id illegal elsewhere (charset/40 chars)")
            if self.tools is not None and call["name"] not in self.tools:
                bad.append(f"C39 call to undeclared tool {call['name']!r}")
        if len({call["id"] for call in self.calls}) != len(self.calls):
            bad.append("C40 duplicate call ids")
        if failed:
            if self.finish is not None or done:
                bad.append("C50 finish or [DONE] in a stream that failed")
            return
        if not done:
            bad.append("C30 no [DONE]")
        if self.roles != 1:
            bad.append(f"C31 role sent {self.roles} times")
        if self.finish is None:
            bad.append("C32 no finish_reason")
        if self.calls and self.finish != "tool_calls":
            bad.append(f"C33 tool calls but finish_reason={self.finish}")
        if not self.calls and self.finish == "tool_calls":
            bad.append("C34 finish_reason=tool_calls without calls")
        if (self.legacy is not None) != (self.finish == "function_call"):
            bad.append(f"C51 function_call and finish_reason={self.finish} do not agree")
        if self.include_usage and self.usage is None:
            bad.append("C35 include_usage but no usage chunk")
        for call in [*self.calls, *([self.legacy] if self.legacy else [])]:
            if call.get("kind") != "custom" and not holds_object(call["text"]):
                bad.append(f"C37 arguments are not a JSON object: {call['text'][:30]!r}")


def check_chat(
    raw: bytes, *, include_usage: bool = False, tools: Collection[str] | None = None, custom: Collection[str] = ()
) -> Violations:
    """Rules of a Chat Completions stream. `tools`: names a call may have (None: any). `custom`: custom tools that were declared."""
    found, bad = events(raw)
    state = _Chat(include_usage, tools, custom, bad)
    done = failed = False
    for name, data in found:
        if done or failed:
            bad.append("C1 data after [DONE] or after the error")
            break
        if name is not None:
            bad.append(f"C2 event: field {name!r} on a chat stream")
        if data == "[DONE]":
            done = True
            continue
        chunk = parse(data, bad)
        if chunk is None:
            continue
        if "error" in chunk:
            failed = True
            error = chunk["error"]
            if not isinstance(error, dict) or set(error) < {"message", "type", "param", "code"} or not isinstance(error["message"], str):
                bad.append("C3 error chunk without message, type, param, code")
            continue
        state.chunk(chunk)
    state.end(done=done, failed=failed)
    return bad


# --- Anthropic Messages -----------------------------------------------------------------------------------------------------------


@dataclass
class _Messages:
    tools: Collection[str] | None
    silence: bool
    bad: Violations
    started: bool = False
    ended: bool = False
    failed: bool = False
    open: int | None = None
    blocks: list[dict] = field(default_factory=list)
    deltas: int = 0
    stop_reason: str | None = None

    def event(self, kind: str, event: dict) -> None:
        if self.ended or self.failed:
            self.bad.append(f"A2 {kind} after the end")
            return
        if kind == "ping":
            return
        if kind == "error":
            self.failed = True
            error = event.get("error") or {}
            if not isinstance(error.get("type"), str) or not isinstance(error.get("message"), str):
                self.bad.append("A3 error event lacks error.type/message")
            return
        handler: Callable[[dict], None] | None = {
            "message_start": self.start,
            "content_block_start": self.block_start,
            "content_block_delta": self.block_delta,
            "content_block_stop": self.block_stop,
            "message_delta": self.message_delta,
            "message_stop": self.message_stop,
        }.get(kind)
        if handler is None:
            self.bad.append(f"A28 unknown event type {kind!r}")
            return
        if not self.started and kind != "message_start":
            self.bad.append(f"A10 {kind} before message_start")
        handler(event)

    def start(self, event: dict) -> None:
        bad = self.bad
        if self.started:
            bad.append("A4 second message_start")
        self.started = True
        message = event.get("message") or {}
        for key in ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"):
            if key not in message:
                bad.append(f"A5 message_start.message lacks {key}")
        if message.get("content") != []:
            bad.append("A6 message_start content must be []")
        if message.get("stop_reason") is not None:
            bad.append("A7 stop_reason must be null in message_start")
        for key in ("input_tokens", "output_tokens"):
            if not whole((message.get("usage") or {}).get(key)):
                bad.append(f"A8 message_start usage.{key} missing")
        if not re.fullmatch(r"msg_[A-Za-z0-9_-]+", str(message.get("id"))):
            bad.append("A9 message id should look like msg_...")

    def block_start(self, event: dict) -> None:
        bad = self.bad
        at = event.get("index")
        if self.open is not None:
            bad.append("A11 block started while another is open")
        if at != len(self.blocks):
            bad.append(f"A12 block index {at}, expected {len(self.blocks)}")
        if self.deltas:
            bad.append("A13 block after message_delta")
        block = event.get("content_block") or {}
        kind = block.get("type")
        self.open = len(self.blocks)
        self.blocks.append({"kind": kind, "text": "", "stopped": False, "id": block.get("id"), "name": block.get("name")})
        if kind not in BLOCK_DELTAS:
            bad.append(f"A37 unknown block type {kind!r}")
        if kind == "text" and block.get("text") != "":
            bad.append("A14 text block must start with text:''")
        if kind == "tool_use":
            if block.get("input") != {}:
                bad.append("A15 tool_use must start with input:{}")
            if not CALL_ID.fullmatch(str(block.get("id") or "")):
                bad.append("A16 tool_use id missing/illegal charset")
            if not block.get("name"):
                bad.append("A17 tool_use without name")
            if self.tools is not None and block.get("name") not in self.tools:
                bad.append(f"A18 undeclared tool {block.get('name')!r}")
        if kind == "thinking" and "signature" not in block:
            bad.append("A19 thinking block without signature key")

    def block_delta(self, event: dict) -> None:
        at = event.get("index")
        delta = event.get("delta") or {}
        if at != self.open:
            self.bad.append(f"A20 delta for block {at}, open is {self.open}")
            return
        block = self.blocks[at]
        if delta.get("type") not in BLOCK_DELTAS.get(block["kind"], {delta.get("type")}):
            self.bad.append(f"A21 {delta.get('type')} inside {block['kind']} block")
        block["text"] += delta.get("partial_json") or delta.get("text") or delta.get("thinking") or ""

    def block_stop(self, event: dict) -> None:
        at = event.get("index")
        if at != self.open or self.open is None:
            self.bad.append("A22 stop for a block that is not open")
            return
        self.blocks[self.open]["stopped"] = True
        self.open = None

    def message_delta(self, event: dict) -> None:
        bad = self.bad
        self.deltas += 1
        if self.open is not None:
            bad.append("A23 message_delta while a block is open")
        delta = event.get("delta") or {}
        self.stop_reason = delta.get("stop_reason")
        if "stop_sequence" not in delta:
            bad.append("A24 message_delta.delta lacks stop_sequence")
        if delta.get("stop_sequence") is not None and self.stop_reason != "stop_sequence":
            bad.append("A38 stop_sequence without its stop_reason")
        if self.stop_reason not in STOP_REASONS:
            bad.append(f"A25 stop_reason {self.stop_reason!r} not in enum")
        for rule, key in (("A26", "output_tokens"), ("A27", "input_tokens")):
            if not whole((event.get("usage") or {}).get(key)):
                bad.append(f"{rule} message_delta.usage.{key} missing")

    def message_stop(self, event: dict) -> None:
        self.ended = True

    def end(self) -> None:
        bad = self.bad
        calls = [block for block in self.blocks if block["kind"] == "tool_use"]
        ids = [block["id"] for block in calls]
        if len(set(ids)) != len(ids):
            bad.append("A36 duplicate tool_use ids")
        if self.failed:
            return
        if not self.ended:
            bad.append("A29 no message_stop")
        if self.deltas != 1:
            bad.append(f"A30 {self.deltas} message_delta events, want exactly 1")
        if calls and self.stop_reason != "tool_use":
            bad.append(f"A31 tool_use blocks but stop_reason={self.stop_reason}")
        if not calls and self.stop_reason == "tool_use":
            bad.append("A32 stop_reason=tool_use without tool_use")
        bad += [f"A33 tool input is not a JSON object: {block['text'][:30]!r}" for block in calls if not holds_object(block["text"])]
        if not self.silence and any(block["kind"] == "text" and not block["text"] for block in self.blocks):
            bad.append("A34 empty text block (clients replay it -> 400 on Anthropic)")
        bad += [f"A35 block {at} never stopped" for at, block in enumerate(self.blocks) if not block["stopped"]]


def check_messages(raw: bytes, *, tools: Collection[str] | None = None, silence: bool = False) -> Violations:
    """Rules of a Messages stream. `silence`: an empty text block is the one that long silence opened (E7)."""
    found, bad = events(raw)
    state = _Messages(tools, silence, bad)
    for name, data in found:
        event = parse(data, bad)
        if event is None:
            continue
        kind = event.get("type")
        if name != kind:
            bad.append(f"A1 event line {name!r} != type {kind!r}")
        state.event(str(kind), event)
    state.end()
    return bad


# --- Responses --------------------------------------------------------------------------------------------------------------------


@dataclass
class _Responses:
    tools: Collection[str] | None
    bad: Violations
    number: int = -1
    id: str | None = None
    terminal: str | None = None
    added: list[dict] = field(default_factory=list)
    done: list[dict] = field(default_factory=list)
    text: str = ""
    parts: int = 0

    def event(self, kind: str, event: dict) -> None:
        bad = self.bad
        if kind not in RESPONSE_EVENTS:
            bad.append(f"R39 unknown event type {kind!r}")
        if event.get("sequence_number") != self.number + 1:
            bad.append(f"R5 sequence_number {event.get('sequence_number')} after {self.number}")
        self.number = event["sequence_number"] if whole(event.get("sequence_number")) else self.number + 1
        if self.terminal:
            bad.append(f"R6 {kind} after terminal event")
        if kind == "error":
            self.error(event)
            return
        if self.id is None and kind != "response.created":
            bad.append(f"R15 {kind} before response.created")
        if "response" in event:
            self.response(kind, event["response"])
        elif kind == "response.output_item.added":
            self.item_added(event)
        else:
            self.item_event(kind, event)

    def error(self, event: dict) -> None:
        error = event.get("error")
        keys = {"type", "code", "message", "param"}
        if not isinstance(error, dict) or not keys <= set(error) or not {"code", "message", "param"} <= set(event):
            self.bad.append("R14 error event must carry code, message, param, and nest {type,code,message,param} under error")

    def response(self, kind: str, response: dict) -> None:
        bad = self.bad
        missing = [key for key in RESPONSE_KEYS if key not in response]
        if missing:
            bad.append(f"R40 response lacks {missing}")
        if kind == "response.created":
            if self.id is not None:
                bad.append("R7 second response.created")
            self.id = response.get("id")
        if response.get("id") != self.id:
            bad.append("R9 response.id changes")
        state = kind.removeprefix("response.")
        if state not in ("completed", "failed", "incomplete"):
            return
        self.terminal = state
        if response.get("status") != state:
            bad.append(f"R10 {kind} with status {response.get('status')}")
        if response.get("output") != self.done:
            bad.append("R12 final output differs from the items that were done")
        if state == "failed":
            if not isinstance((response.get("error") or {}).get("message"), str):
                bad.append("R13 failed without response.error.message")
            return
        usage = response.get("usage") or {}
        for key in ("input_tokens", "output_tokens", "total_tokens"):
            if not whole(usage.get(key)):
                bad.append(f"R11 usage.{key} missing")
        if {"cached_tokens", "cache_write_tokens"} - set(usage.get("input_tokens_details") or {}):
            bad.append("R11 usage.input_tokens_details incomplete")
        if {"reasoning_tokens"} - set(usage.get("output_tokens_details") or {}):
            bad.append("R11 usage.output_tokens_details incomplete")
        if (state == "incomplete") != (response.get("incomplete_details") is not None):
            bad.append("R41 incomplete_details and status do not agree")
        if state == "incomplete" and self.done and self.done[-1].get("status") != "incomplete":
            bad.append("R42 last item of an incomplete response is not incomplete")
        if len(self.added) != len(self.done):
            bad.append("R38 item never done")

    def item_added(self, event: dict) -> None:
        bad = self.bad
        item = event.get("item") or {}
        if event.get("output_index") != len(self.added):
            bad.append(f"R16 output_index {event.get('output_index')}, expected {len(self.added)}")
        if len(self.done) != len(self.added):
            bad.append("R17 item added before the previous one was done")
        self.added.append(item)
        self.text = ""
        self.parts = 0
        if not item.get("id") or item["id"] in {one.get("id") for one in self.added[:-1]}:
            bad.append("R18 item without an id of its own")
        if item.get("status") != "in_progress":
            bad.append("R19 added item must be status=in_progress")
        if item.get("type") == "message" and item.get("content") != []:
            bad.append("R43 added message must have content []")
        if item.get("type") in ("function_call", "custom_tool_call"):
            key = "arguments" if item["type"] == "function_call" else "input"
            if item.get(key) != "":
                bad.append(f"R21 added {item['type']} must have {key} ''")
            if not item.get("name"):
                bad.append("R20 call lacks name")
            if not CALL_ID.fullmatch(str(item.get("call_id") or "")):
                bad.append("R22 call_id missing or illegal")
            full = f"{item['namespace']}.{item.get('name')}" if "namespace" in item else item.get("name")
            if self.tools is not None and full not in self.tools:
                bad.append(f"R23 undeclared tool {full}")

    def item_event(self, kind: str, event: dict) -> None:
        bad = self.bad
        if not self.added or event.get("output_index") != len(self.added) - 1 or len(self.done) == len(self.added):
            bad.append(f"R24 {kind} for output_index {event.get('output_index')}, which is not open")
            return
        item = self.added[-1]
        if kind == "response.output_item.done":
            self.item_done(event.get("item") or {})
            return
        if event.get("item_id") != item.get("id"):
            bad.append(f"R25 {kind} item_id mismatch")
        index = "summary_index" if "summary" in kind else "content_index" if "content_part" in kind or "output_text" in kind else None
        if index is not None and not whole(event.get(index)):
            bad.append(f"R44 {kind} lacks {index}")
        if kind.endswith("part.added"):
            self.parts += 1
        elif kind.endswith(".delta"):
            if ("output_text" in kind or "summary_text" in kind) and not self.parts:
                bad.append("R26 text delta before its part was added")
            if "output_text" in kind and "logprobs" not in event:
                bad.append("R27 text delta lacks logprobs (SDK strict mode)")
            self.text += event.get("delta", "")
        elif kind == "response.function_call_arguments.done":
            if event.get("arguments") != self.text:
                bad.append("R29 arguments.done differs from the deltas (langchain needs deltas)")
            if event.get("name") != item.get("name"):
                bad.append("R30 arguments.done lacks name (OpenAPI requires it)")
            if not holds_object(event.get("arguments")):
                bad.append("R31 arguments are not a JSON object")
        elif kind == "response.custom_tool_call_input.done":
            if event.get("input") != self.text:
                bad.append("R45 input.done differs from the deltas")
        elif kind.endswith("_text.done") and event.get("text") != self.text:
            bad.append("R28 text.done differs from the deltas")

    def item_done(self, item: dict) -> None:
        bad = self.bad
        added = self.added[-1]
        for key in ("id", "type", "call_id", "name", "namespace"):
            if item.get(key) != added.get(key):
                bad.append(f"R32 item.{key} changes between added and done")
        if item.get("status") not in ("completed", "incomplete"):
            bad.append("R33 done item without final status")
        told = {
            "function_call": lambda: item.get("arguments"),
            "custom_tool_call": lambda: item.get("input"),
            "message": lambda: "".join(part.get("text", "") for part in item.get("content", ())),
            "reasoning": lambda: "".join(part.get("text", "") for part in item.get("summary", ())),
        }.get(str(item.get("type")))
        if told is None:
            bad.append(f"R46 unknown item type {item.get('type')!r}")
        elif told() != self.text:
            bad.append("R34 done item differs from its deltas")
        self.done.append(item)


def check_responses(raw: bytes, *, tools: Collection[str] | None = None) -> Violations:
    """Rules of a Responses stream."""
    found, bad = events(raw)
    state = _Responses(tools, bad)
    done = False
    for name, data in found:
        if done:
            bad.append("R1 data after [DONE]")
        if data == "[DONE]":
            done = True
            continue
        event = parse(data, bad)
        if event is None:
            continue
        kind = event.get("type")
        if name != kind:
            bad.append(f"R2 event line {name!r} != type {kind!r}")
        state.event(str(kind), event)
    if state.id is None:
        bad.append("R35 no response.created")
    if state.terminal is None:
        bad.append("R36 no terminal event")
    if done == (state.terminal == "failed"):
        bad.append("R37 [DONE] after a failure, or none after an answer")
    return bad

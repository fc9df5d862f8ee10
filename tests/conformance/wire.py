"""Judges what a client of Toolgraft saw on the wire, whatever client it was: headers, framing, the grammar of streams, error bodies.

In: an exchange as a tap wrote it down, and its turn's canonical line. Out: rule violations, empty when all is legal. It shares nothing with
what it judges. Rules with X and E are those of the protocol reference and the specification; streams are judged by `grammar`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.conformance import grammar
from tests.support.tap import Exchange

CHAT, MESSAGES, RESPONSES = "chat/completions", "messages", "responses"


def protocol_of(path: str) -> str | None:
    """The protocol of a path that generates, or None."""
    last = path.rstrip("/").removeprefix("/v1").strip("/")
    return last if last in (CHAT, MESSAGES, RESPONSES) else None


def judge(exchange: Exchange, turn: Mapping[str, Any] | None = None, *, silence: bool = False) -> grammar.Violations:
    """Everything that is wrong with an exchange. `turn` is its log line; `silence`: an empty text block may come from E7."""
    if exchange.status == 0:
        return [] if exchange.client_left else ["W1 no answer"]
    bad: grammar.Violations = []
    headers = exchange.headers
    if not headers.get("x-request-id") or headers.get("x-request-id") != headers.get("request-id"):
        bad.append("X13 x-request-id and request-id must stand on every answer, with one value")
    if exchange.method == "HEAD":
        return bad
    if exchange.status >= 400:
        return bad + _error(exchange)
    if (turn or {}).get("verdict") == "passed" or (turn or {}).get("passed_through"):
        return bad  # the upstream's own bytes
    if not exchange.streamed:
        if not exchange.complete and not exchange.client_left:
            bad.append("W2 a whole answer that is not whole")
        return bad + (_json(exchange) if exchange.complete else [])
    return bad + _stream(exchange, silence=silence)


def _json(exchange: Exchange) -> grammar.Violations:
    if not exchange.headers.get("content-type", "").startswith("application/json"):
        return [f"W3 content type {exchange.headers.get('content-type')!r}"]
    try:
        body = json.loads(exchange.body)
    except ValueError:
        return ["W4 the body is no JSON"]
    kind = {CHAT: "chat.completion", RESPONSES: "response"}.get(protocol_of(exchange.path) or "")
    if kind is not None and body.get("object") != kind:
        return [f"W5 object is {body.get('object')!r}"]
    return []


def _error(exchange: Exchange) -> grammar.Violations:
    """X19 to X21: the dialect follows the path; E8: a 429 says when to come back."""
    bad = _json_type(exchange)
    if exchange.status == 429 and "retry-after" not in exchange.headers:
        bad.append("E8 429 without Retry-After")
    try:
        body = json.loads(exchange.body)
    except ValueError:
        return [*bad, "X21 the error body is no JSON"]
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str) or not isinstance(error.get("type"), str):
        return [*bad, "X19 the error body has no error.message and error.type"]
    if "/messages" in exchange.path:
        if body.get("type") != "error" or body.get("request_id") != exchange.headers.get("request-id"):
            bad.append("X20 a Messages error needs type and request_id")
    elif not {"param", "code"} <= set(error):
        bad.append("X19 an error needs the keys param and code")
    return bad


def _json_type(exchange: Exchange) -> grammar.Violations:
    kind = exchange.headers.get("content-type", "")
    return [] if kind.startswith("application/json") else [f"X21 an error with content type {kind!r}"]


def _stream(exchange: Exchange, *, silence: bool) -> grammar.Violations:
    bad: grammar.Violations = []
    headers = exchange.headers
    if headers.get("cache-control") != "no-cache" or headers.get("x-accel-buffering") != "no":
        bad.append("X01 a stream needs cache-control: no-cache and x-accel-buffering: no")
    if "content-encoding" in headers:
        bad.append("X01 a stream is not compressed")
    if exchange.client_left:
        whole = [one for one in exchange.writes if one.endswith(b"\n\n")]
        return bad if len(whole) >= len(exchange.writes) - 1 else [*bad, "X03 a write ended inside an event"]
    bad += grammar.check_writes(exchange.writes)
    raw = exchange.body
    protocol = protocol_of(exchange.path)
    request = exchange.request or {}
    if protocol == CHAT:
        options = request.get("stream_options") or {}
        custom = [tool["custom"]["name"] for tool in request.get("tools") or () if tool.get("type") == "custom"]
        bad += grammar.check_chat(raw, include_usage=bool(options.get("include_usage")), custom=custom)
    elif protocol == MESSAGES:
        bad += grammar.check_messages(raw, silence=silence)
    else:
        bad += grammar.check_responses(raw)
    failed = _failed(protocol, raw)
    if exchange.complete and failed:
        bad.append("E8 a stream that failed was ended with its final chunk")
    if not exchange.complete and not failed:
        bad.append("E8 a stream was cut without the protocol's error event")
    return bad


def _failed(protocol: str | None, raw: bytes) -> bool:
    for name, data in grammar.events(raw)[0]:
        if name == "error" or name == "response.failed" or (protocol == CHAT and data.startswith('{"error"')):
            return True
    return False

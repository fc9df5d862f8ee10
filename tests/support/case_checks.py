"""The checks of the exchange cases: {at, path, op, value} against what the client and the upstream saw.

In: an `Observed`. Out: nothing, or an AssertionError that names the check. An op that is not known fails: no check is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.events import CallDone
from pipeline.sieve.sieve import Sieve
from pipeline.verdicts import FinishReason

MISSING = object()


@dataclass
class Observed:
    """One exchange as seen from both ends."""

    case: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: bytes
    upstream: list[dict[str, Any]]
    upstream_raw: list[bytes]
    cut: bool = False
    keep_alives_before_content: int = 0
    upstream_left: bool = False
    metrics: Callable[[str], float] | None = None
    _sse: dict[str, Any] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        """The client's body as JSON."""
        return json.loads(self.body)

    @property
    def sse(self) -> dict[str, Any]:
        """The client's stream, assembled once."""
        if not self._sse:
            self._sse = assemble(self.case["api"], self.body)
        return self._sse


def frames(body: bytes) -> list[tuple[str | None, str]]:
    """(event, data) of each event."""
    found = []
    for block in body.decode().split("\n\n"):
        event = next((line[7:] for line in block.splitlines() if line.startswith("event: ")), None)
        data = [line[6:] for line in block.splitlines() if line.startswith("data: ")]
        if data:
            found.append((event, "\n".join(data)))
    return found


def assemble(api: str, body: bytes) -> dict[str, Any]:
    """What a careful client makes of a stream."""
    return _chat(body) if api == "openai" else _messages(body)


def _chat(body: bytes) -> dict[str, Any]:
    content, finishes, usage, error, after = "", [], MISSING, MISSING, False
    calls: dict[int, dict[str, str]] = {}
    order: list[int] = []
    last = ""
    for _, data in frames(body):
        last = data
        if data == "[DONE]":
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            error = chunk["error"]
            continue
        if chunk.get("usage"):
            usage = chunk["usage"]
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if finishes and (delta.get("content") or delta.get("tool_calls")):
                after = True
            content += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                if call["index"] not in calls:
                    order.append(call["index"])
                    calls[call["index"]] = {"id": call["id"], "name": call["function"]["name"], "arguments": ""}
                calls[call["index"]]["arguments"] += call["function"].get("arguments") or ""
            if choice.get("finish_reason"):
                finishes.append(choice["finish_reason"])
    return {
        "content": content,
        "finish_reason": finishes,
        "usage": usage,
        "error": error,
        "tool_calls": list(calls.values()),
        "arguments": [call["arguments"] for call in calls.values()],
        "deltas": order,
        "after_finish": after,
        "last": last,
    }


def _messages(body: bytes) -> dict[str, Any]:
    parsed = [(event, json.loads(data)) for event, data in frames(body)]
    starts = [data for event, data in parsed if event == "content_block_start"]
    inputs: dict[int, str] = {data["index"]: "" for data in starts if data["content_block"]["type"] == "tool_use"}
    for event, data in parsed:
        if event == "content_block_delta" and data["delta"]["type"] == "input_json_delta":
            inputs[data["index"]] += data["delta"]["partial_json"]
    deltas = [data for event, data in parsed if event == "message_delta"]
    kinds = [data["content_block"]["type"] for data in starts]
    found: dict[str, Any] = {
        "events": [event for event, _ in parsed],
        "blocks": kinds,
        "block_indices": [data["index"] for data in starts],
        "input_json": [text or "{}" for text in inputs.values()],
        "input": json.loads(next(iter(inputs.values()), "") or "{}"),
        "message_delta": deltas,
        "message_start": next((data for event, data in parsed if event == "message_start"), MISSING),
        "stop_reason": deltas[0]["delta"]["stop_reason"] if deltas else MISSING,
        "tool_calls": [one for one in kinds if one == "tool_use"],
        "content": "".join(
            data["delta"]["text"] for event, data in parsed if event == "content_block_delta" and data["delta"]["type"] == "text_delta"
        ),
    }
    return found


def values(root: Any, path: str) -> Any:
    """The value at a path such as `a.b[0].c`, `a[*].b` (a list) or `a[?type=x]` (those that fit)."""
    found = root
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\]]+)\]", path):
        if isinstance(found, _Many):
            found = _Many(_step(one, name, index) for one in found)
            found = _Many(one for one in found if one is not MISSING)
        else:
            found = _step(found, name, index)
        if found is MISSING:
            return MISSING
    return found


class _Many(list[Any]):
    """Values of a path with a star."""


def _step(value: Any, name: str, index: str) -> Any:
    if name:
        return value.get(name, MISSING) if isinstance(value, dict) else MISSING
    if not isinstance(value, list):
        return MISSING
    if index == "*":
        return _Many(value)
    if index.startswith("?"):
        key, _, wanted = index[1:].partition("=")
        return [one for one in value if one.get(key) == wanted]
    at = int(index)
    return value[at] if -len(value) <= at < len(value) else MISSING


def plain(content: Any) -> str:
    """Text of a content field."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def check(observed: Observed, at: str, path: str, op: str, value: Any) -> None:
    """One check of a case."""
    found = _found(observed, at, path)
    assert OPS[op](found, value, observed), (at, path, op, value, found if found is not MISSING else "MISSING")


def _found(observed: Observed, at: str, path: str) -> Any:
    if at == "client.status":
        return observed.status
    if at == "client.headers":
        return observed.headers.get(path, MISSING)
    if at == "client.json":
        return values(observed.json, path)
    if at == "client.connection":
        return observed.cut
    if at == "client.sse" and path.startswith("message_delta."):
        return values(observed.sse["message_delta"][0], path.removeprefix("message_delta."))
    if at == "client.sse":
        return (
            {"max_silence_s": observed.keep_alives_before_content, "first_content_s": observed.sse["content"]}.get(path, MISSING)
            if (path in ("max_silence_s", "first_content_s"))
            else values(observed.sse, path)
        )
    if at == "upstream.requests":
        return len(observed.upstream)
    if at == "upstream.connection":
        return observed.upstream_left
    if at == "upstream.request":
        if not observed.upstream:
            return MISSING
        request = observed.upstream[0]
        if path == "text":
            return "\n".join(plain(message.get("content")) for message in request["messages"])
        if path == "body":
            return observed.upstream_raw[0].decode()
        messages = [message for message in request["messages"] if not _is_contract(message, observed)]
        return values({**request, "messages": messages}, path)
    return MISSING


def _is_contract(message: dict[str, Any], observed: Observed) -> bool:
    """A system message that we put in; the cases count messages as the client wrote them."""
    system = observed.case["request"].get("system") or any(
        one.get("role") in ("system", "developer") for one in observed.case["request"]["messages"]
    )
    return message["role"] == "system" and not system


def _in_order(text: Any, wanted: list[str]) -> bool:
    at = 0
    for one in wanted:
        at = text.find(one, at) if isinstance(text, str) else -1
        if at < 0:
            return False
        at += len(one)
    return True


def _holds(found: Any, value: Any) -> bool:
    if isinstance(found, list):
        return any(_holds(one, value) for one in found)
    return value in plain(found) if isinstance(value, str) else False


def _no_dangling(messages: Any, *_: Any) -> bool:
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                return False
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return False
        open_ids = [call["id"] for call in message.get("tool_calls") or []]
    return not open_ids


def _roundtrip(found: Any, value: Any, observed: Observed) -> bool:
    sieve = Sieve(load(["json_action", "dsml"]), ParserOptions(), unescape=True)
    events = sieve.feed(plain(found)) + sieve.close(FinishReason.STOP)
    calls = [{"name": one.name, "arguments": json.loads(one.arguments)} for one in events if isinstance(one, CallDone)]
    return calls == value


def _declared_only(text: Any, _: Any, observed: Observed) -> bool:
    declared = {tool.get("name") or tool["function"]["name"] for tool in observed.case["request"]["tools"]}
    named = set(re.findall(r'"tool":\s*"([^"]+)"', text)) | set(re.findall(r'invoke name="([^"]+)"', text))
    return bool(named) and named <= declared


def _order_ok(events: list[str], *_: Any) -> bool:
    depth = 0
    for event in events:
        depth += {"content_block_start": 1, "content_block_stop": -1}.get(event, 0)
        if depth not in (0, 1):
            return False
    return events[0] == "message_start" and events[-1] == "message_stop" and depth == 0


def _wrapper_closed_once(text: Any, *_: Any) -> bool:
    opened = re.findall(r"<(tool_result\w*)[ >]", text)
    return (
        bool(opened)
        and all(text.count(f"</{tag}>") == opened.count(tag) for tag in set(opened))
        and "<|DSML|tool_calls>" not in (text[text.rfind(f"<{opened[-1]}") :])
    )


OPS: dict[str, Callable[[Any, Any, Observed], bool]] = {
    "eq": lambda found, value, _: found == value,
    "ne": lambda found, value, _: found != value,
    "in": lambda found, value, _: found in value,
    "not_in": lambda found, value, _: found is not MISSING and found not in value,
    "exists": lambda found, _, __: found is not MISSING and found is not None,
    "absent": lambda found, _, __: found in (MISSING, None, []) or (isinstance(found, list) and not [one for one in found if one]),
    "contains": lambda found, value, _: _holds(found, value),
    "contains_in_order": lambda found, value, _: _in_order(plain(found), value),
    "not_contains": lambda found, value, _: found is not MISSING and not _holds(found, value),
    "len": lambda found, value, _: (0 if found is MISSING else len(found)) == value,
    "count": lambda found, value, _: (found if isinstance(found, int) else len(found)) == value,
    "gt": lambda found, value, _: found is not MISSING and found > value,
    "lt": lambda found, value, _: found if isinstance(found, bool) else bool(found),
    "lte": lambda found, value, _: found <= value,
    "subset": lambda found, value, _: set(found) <= set(value),
    "once": lambda found, value, _: found == [value],
    "all_strings": lambda found, _, __: all(isinstance(one, str) for one in found),
    "none_empty": lambda found, _, __: all(one not in ("", None, []) for one in found),
    "has_part": lambda found, value, _: any(isinstance(one, list) and any(part["type"] == value for part in one) for one in found),
    "eq_json": lambda found, value, _: json.loads(found) == (json.loads(value) if isinstance(value, str) else value),
    "eq_ws": lambda found, value, _: " ".join(found.split()) == " ".join(value.split()),
    "eq_request": lambda found, _, observed: found == observed.case["request"]["messages"],
    "valid_json": lambda found, _, __: json.loads(found) is not None,
    "each_valid_json": lambda found, _, __: bool(found) and all(isinstance(json.loads(one), dict) for one in found),
    "no_dangling_calls": _no_dangling,
    "sieve_roundtrip": _roundtrip,
    "wrapper_closed_once": _wrapper_closed_once,
    "only_declared_tool_names": _declared_only,
    "order_ok": _order_ok,
    "contiguous": lambda found, _, __: bool(found) and found == list(range(len(found))),
    "tool_indices": lambda found, value, _: found == value,
    "no_content": lambda found, _, __: found is False,
    "no_duplicate_text": lambda found, _, observed: bool(found) and observed.case["upstream"]["texts"][0].startswith(found.rstrip()),
    "closed": lambda found, _, __: found is True,
    "closed_within_s": lambda found, _, __: found is True,
    "matches": lambda found, value, _: re.search(value, found) is not None,
}

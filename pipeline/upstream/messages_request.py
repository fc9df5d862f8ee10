"""A turn as an Anthropic Messages request.

In: a prepared turn, the upstream's traits, the optional fields it is known to refuse. Out: the body as a JSON-ready dict, the same one
for the same turn. Promise: what that API demands holds: a system prompt beside the messages, a user message first, strict alternation,
results before words, no empty text, a token limit; under emulation no tool field is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pipeline.protocols import placeholders, tool_forms
from pipeline.protocols.collector import Collector
from pipeline.settings import UpstreamTraits
from pipeline.turn import Call, ChoiceMode, Image, Media, Message, Part, Result, Role, Text, Tool, Turn, text_of
from pipeline.upstream.fold import DATA_URL, bent, data_url, fold
from pipeline.upstream.native import names_of, offered, taught
from pipeline.upstream.refused import NEEDED, leave_out, lose, refuse_choices
from pipeline.upstream.wire_names import WireIds, WireNames
from pipeline.verdicts import DroppedParameter, Mode

DEFAULT_MAX_TOKENS = 8192
"""The API takes no request without a limit, OpenAI clients often send none."""

VERSION_HEADER = ("anthropic-version", "2023-06-01")

_NUMBERS = ("temperature", "top_p", "top_k")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_MAX_USER_CHARS = 256
_CONTINUE = "(continue)"
_NEEDED = NEEDED | {"max_tokens"}


def messages_body(turn: Turn, traits: UpstreamTraits, without: frozenset[str], mode: Mode, lost: Collector) -> dict[str, object]:
    """The request body. Field order and content depend on the turn alone. Raises StageError for what this upstream cannot be asked."""
    if turn.emulation is None:
        refuse_choices(turn)
    shaped = msgspec.structs.replace(bent(traits, without), alternate_roles=True, developer_role=False)
    tools = offered(turn, mode)
    names = names_of(turn)
    messages = fold(turn.messages, shaped, turn.api, lost)
    body: dict[str, object] = {"model": turn.upstream_model or turn.model}
    if messages and messages[0].role is Role.SYSTEM:
        system = text_of(messages.pop(0).parts)
        if system.strip():
            body["system"] = system
    body["messages"] = _messages(messages or [Message(Role.USER, ())], names)
    body["max_tokens"] = turn.max_tokens if turn.max_tokens is not None else DEFAULT_MAX_TOKENS
    body["stream"] = turn.stream
    if turn.emulation is None:
        stops = [stop for stop in turn.stop if stop.strip()]
        if stops:
            body["stop_sequences"] = stops
    if tools:
        body["tools"] = [_tool(tool, names) for tool in tools]
        choice = _choice(turn, names)
        if choice:
            body["tool_choice"] = choice
    body |= _sampling(turn, traits, without, lost)
    return leave_out(body, without, lost, _NEEDED)


def _sampling(turn: Turn, traits: UpstreamTraits, without: frozenset[str], lost: Collector) -> dict[str, object]:
    """The further fields in this protocol's spelling; those that have none are told as lost."""
    kept: dict[str, object] = {}
    output: dict[str, object] = {}
    configurable = "output_config" not in without
    for key, value in turn.sampling.items():
        effort = _EFFORTS.get(value) if key == "reasoning_effort" and isinstance(value, str) else None
        if key in _NUMBERS and isinstance(value, int | float):
            kept[key] = min(value, 1) if key == "temperature" else value
        elif effort is not None and traits.reasoning_effort and configurable:
            output["effort"] = effort
        elif key == "user" and isinstance(value, str) and len(value) <= _MAX_USER_CHARS:
            kept["metadata"] = {"user_id": value}
        elif not (key == "reasoning_effort" and value == "none"):
            lose(key, value, lost)
    wanted = turn.response_format
    if wanted is not None and not taught(turn):
        if wanted.schema is not None and configurable:
            output["format"] = {"type": "json_schema", "schema": wanted.schema}
        else:
            lost.drop(DroppedParameter.RESPONSE_FORMAT)
    if output:
        kept["output_config"] = output
    return kept


def _messages(messages: Sequence[Message], names: WireNames) -> list[dict[str, object]]:
    ids = WireIds()
    out: list[dict[str, object]] = []
    for at, message in enumerate(messages):
        blocks = _blocks(message.parts, names, ids)
        if message.role is Role.ASSISTANT and at == len(messages) - 1 and blocks and blocks[-1].get("type") == "text":
            # A reply that the model is to go on with may not end in white space.
            blocks[-1] = {"type": "text", "text": str(blocks[-1]["text"]).rstrip()}
        if not blocks:
            blocks = [{"type": "text", "text": _CONTINUE}]
        out.append({"role": message.role.value, "content": blocks})
    return out


def _blocks(parts: Iterable[Part], names: WireNames, ids: WireIds) -> list[dict[str, object]]:
    """Results first (AR11), no empty text (AR14)."""
    results: list[dict[str, object]] = []
    others: list[dict[str, object]] = []
    for part in parts:
        if isinstance(part, Result):
            results.append(_result(part, ids))
        elif isinstance(part, Call):
            function = part.arguments.value()
            others.append({"type": "tool_use", "id": ids.wire(part.id), "name": names.wire(part.name), "input": function or {}})
        elif isinstance(part, Text):
            if part.text.strip():
                others.append({"type": "text", "text": part.text})
        else:
            others.append(_medium(part))
    return results + others


def _result(result: Result, ids: WireIds) -> dict[str, object]:
    out: dict[str, object] = {"type": "tool_result", "tool_use_id": ids.wire(result.call_id)}
    content = [
        {"type": "text", "text": part.text} if isinstance(part, Text) else _medium(part)
        for part in result.content
        if not isinstance(part, Text) or part.text.strip()
    ]
    if content:
        out["content"] = content
    if result.is_error:
        out["is_error"] = True
    return out


def _medium(part: Image | Media) -> dict[str, object]:
    if isinstance(part, Image):
        return {"type": "image", "source": _source(part.url)}
    data = data_url(part)
    if data is not None:
        return {"type": "document", "source": _source(data)}
    return {"type": "text", "text": placeholders.omitted(part.kind)}


def _source(url: str) -> dict[str, object]:
    inline = DATA_URL.match(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1].lower(), "data": url[inline.end() :]}


def _tool(tool: Tool, names: WireNames) -> dict[str, object]:
    out: dict[str, object] = {"name": names.wire(tool.name)}
    description = tool_forms.described(tool)
    if description:
        out["description"] = description
    out["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
    return out


def _choice(turn: Turn, names: WireNames) -> dict[str, object]:
    choice = turn.tool_choice
    if choice.mode is ChoiceMode.NONE:
        return {"type": "none"}
    out: dict[str, object] = {}
    if choice.mode is ChoiceMode.NAMED and choice.name is not None:
        out = {"type": "tool", "name": names.wire(choice.name)}
    elif choice.mode is ChoiceMode.REQUIRED:
        out = {"type": "any"}
    if not turn.parallel_calls:
        out = {"type": "auto", **out, "disable_parallel_tool_use": True}
    return out

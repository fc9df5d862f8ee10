"""A turn as an OpenAI Chat Completions request.

In: a prepared turn, the upstream's traits, the optional fields it is known to refuse. Out: the body as a JSON-ready dict, the same one
for the same turn. Promise: under emulation no tool field is in it (SPEC section 1); fields an upstream does not take are left out or
written its way (U12); what cannot be sent leaves a stated placeholder; what is lost is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from pipeline.protocols import tool_forms
from pipeline.protocols.collector import Collector
from pipeline.settings import UpstreamTraits
from pipeline.turn import Call, ChoiceMode, Image, Media, Message, Result, Role, Text, Tool, ToolChoice, Turn, text_of
from pipeline.upstream.fold import bent, fold
from pipeline.upstream.native import names_of, offered, taught
from pipeline.upstream.refused import leave_out, lose, refuse_choices
from pipeline.upstream.wire_names import WireIds, WireNames
from pipeline.verdicts import Mode

OWN_FIELDS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "parallel_tool_calls",
        "stop",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
    }
)
"""Fields with a rule of their own."""
STANDARD_FIELDS = frozenset(
    {
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "seed",
        "logit_bias",
        "n",
        "user",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
    }
)
"""Fields that are no extra of one vendor's, beside those with a rule of their own."""
# One answer is read, and no token of it but its text (CR08, CR09).
_NOT_READ = frozenset({"n", "logprobs", "top_logprobs"})
# These ask for what blocks would spoil, or what would spoil blocks (CR13).
_NOT_EMULATED = frozenset({"prediction", "web_search_options", "modalities", "audio"})
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_SPEAKER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_OUTPUT = "(no output)"


def chat_body(turn: Turn, traits: UpstreamTraits, without: frozenset[str], mode: Mode, lost: Collector) -> dict[str, object]:
    """The request body. Field order and content depend on the turn alone. Raises StageError for what this upstream cannot be asked."""
    if turn.emulation is None:
        refuse_choices(turn)
    traits = bent(traits, without)
    tools = offered(turn, mode)
    names = names_of(turn)
    body: dict[str, object] = {
        "model": turn.upstream_model or turn.model,
        "messages": _messages(fold(turn.messages, traits, turn.api, lost), traits, names),
        "stream": turn.stream,
    }
    if turn.stream and traits.stream_options:
        body["stream_options"] = {"include_usage": True}
    if turn.max_tokens is not None:
        limit: str = traits.max_tokens_field
        body[_OTHER_LIMIT[limit] if limit in without else limit] = turn.max_tokens
    if turn.stop and turn.emulation is None:
        body["stop"] = list(turn.stop)
    if turn.response_format is not None and not taught(turn):
        body["response_format"] = turn.response_format.native
    if tools:
        body["tools"] = [_tool(tool, names) for tool in tools]
        choice = _choice(turn.tool_choice, names)
        if choice is not None:
            body["tool_choice"] = choice
        if not turn.parallel_calls and traits.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    body |= _sampling(turn, traits, lost)
    return leave_out(body, without, lost)


def _sampling(turn: Turn, traits: UpstreamTraits, lost: Collector) -> dict[str, object]:
    """Every further field that this upstream takes and this turn can do with."""
    unwanted = _NOT_READ if turn.emulation is None else _NOT_READ | _NOT_EMULATED
    kept: dict[str, object] = {}
    for key, value in turn.sampling.items():
        if key in OWN_FIELDS or value is None:
            continue
        taken = traits.reasoning_effort if key == "reasoning_effort" else traits.extra_fields or key in STANDARD_FIELDS
        if taken and key not in unwanted:
            kept[key] = value
        else:
            lose(key, value, lost)
    return kept


def _messages(messages: Iterable[Message], traits: UpstreamTraits, names: WireNames) -> list[dict[str, object]]:
    ids = WireIds()
    out: list[dict[str, object]] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            out.append(_assistant(message, traits, names, ids))
        elif message.role is Role.USER:
            out += _user(message, traits, ids)
        else:
            out.append({"role": message.role.value, "content": text_of(message.parts)})
    return out


def _assistant(message: Message, traits: UpstreamTraits, names: WireNames, ids: WireIds) -> dict[str, object]:
    text = text_of(message.parts)
    calls = [_call(part, names, ids, extra=traits.extra_fields) for part in message.parts if isinstance(part, Call)]
    out: dict[str, object] = {"role": "assistant", "content": text if text or not (calls and traits.null_content) else None}
    if calls:
        out["tool_calls"] = calls
    return out


def _call(call: Call, names: WireNames, ids: WireIds, *, extra: bool) -> dict[str, object]:
    function = {"name": names.wire(call.name), "arguments": call.arguments.text()}
    out: dict[str, object] = {"id": ids.wire(call.id), "type": "function", "function": function}
    if call.extra is not None and extra:
        out["extra_content"] = call.extra  # U09: Gemini refuses a call that comes back without its thought signature
    return out


def _user(message: Message, traits: UpstreamTraits, ids: WireIds) -> list[dict[str, object]]:
    """Results first, each a tool message; what a tool message cannot hold, and the user's own words, behind them (AR11, E-image)."""
    out: list[dict[str, object]] = []
    attached: list[Text | Image | Media] = []
    own: list[Text | Image | Media] = []
    for part in message.parts:
        if isinstance(part, Result):
            media = [one for one in part.content if not isinstance(one, Text)]
            out.append({"role": "tool", "tool_call_id": ids.wire(part.call_id), "content": _result_text(part, attached=bool(media))})
            attached += media
        elif not isinstance(part, Call):
            own.append(part)
    if attached or own:
        said: dict[str, object] = {"role": "user", "content": _content([*attached, *own])}
        if message.name and traits.extra_fields and _SPEAKER.fullmatch(message.name):
            said["name"] = message.name
        out.append(said)
    return out


def _result_text(result: Result, *, attached: bool) -> str:
    text = text_of(result.content)
    if not text.strip():
        text = "(the output is attached to the next message)" if attached else _NO_OUTPUT
    return f"ERROR: {text}" if result.is_error and not text.lstrip().lower().startswith("error") else text


def _content(parts: list[Text | Image | Media]) -> str | list[Mapping[str, object]]:
    """One string where it is all text: plain chat servers take nothing else."""
    if all(isinstance(part, Text) for part in parts):
        return text_of(parts)
    return [_part(part) for part in parts]


def _part(part: Text | Image | Media) -> Mapping[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media):
        return part.part
    return {"type": "image_url", "image_url": {"url": part.url} | ({"detail": part.detail} if part.detail else {})}


def _tool(tool: Tool, names: WireNames) -> Mapping[str, object]:
    """The caller's own entry where it is one of this protocol, fields and all; else made from what is known. A grammar stays (CR03)."""
    name = names.wire(tool.name)
    native = tool.native or tool_forms.native_form(tool)
    function = native.get("function")
    if not isinstance(function, Mapping):
        return _tool(msgspec.structs.replace(tool, native=None), names)
    return native if function.get("name") == name else {**native, "function": {**function, "name": name}}


def _choice(choice: ToolChoice, names: WireNames) -> object:
    if choice.mode is ChoiceMode.NAMED and choice.name is not None:
        return {"type": "function", "function": {"name": names.wire(choice.name)}}
    return None if choice.mode is ChoiceMode.AUTO else choice.mode.value

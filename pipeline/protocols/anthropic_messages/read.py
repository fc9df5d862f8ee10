"""An Anthropic Messages request into a turn (AR01 to AR15).

In: a Turn with `api`, `body` and `headers`. Out: the same turn with the whole request in it. Raises StageError for a malformed request, naming
the field; unknown fields never fail. With `turn.count_only` no `max_tokens` is needed.
"""

from __future__ import annotations

import re

from msgspec import structs

from pipeline.protocols import fields, limits, tool_forms
from pipeline.protocols.anthropic_messages.blocks import Blocks
from pipeline.protocols.anthropic_messages.builtin_tools import builtin_tool
from pipeline.protocols.collector import Collector, silent
from pipeline.protocols.fields import Json, Place
from pipeline.protocols.response_format import read_response_format
from pipeline.protocols.transcript import Transcript
from pipeline.stage import Note
from pipeline.turn import Call, ChoiceMode, Message, Part, ResponseFormat, Result, Role, Text, Tool, ToolChoice, Turn
from pipeline.verdicts import DroppedParameter, ErrorKind

# AR02: Claude Code opens its system prompt with a line that looks like a header and is for the vendor's billing alone.
_BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n?")
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
# X15: this version of the API refuses what older ones took; `strict` does so too.
_STRICT_SINCE = "2026-10-21"
_SAMPLING_NUMBERS = ("temperature", "top_p")


def read_request(turn: Turn, note: Note = silent, *, strict: bool = False) -> Turn:
    """Read the body. `strict` holds the request to the limits of the original API. Raises StageError."""
    body = turn.body
    place = Place(turn.api)
    got = Collector()
    model = fields.required_text(body, "model", place)
    max_tokens = fields.whole(body, "max_tokens", place)
    if max_tokens is None and not turn.count_only:
        raise place.at("max_tokens").missing()
    if strict and turn.headers.get("anthropic-version", "") >= _STRICT_SINCE:
        _refuse_retired(body, place)
    blocks = Blocks(got)
    messages = _messages(body, place, blocks)
    tools, hosted = _tools(body, place, got, strict=strict)
    choice, parallel = _choice(body, place, tools, hosted)
    called = {part.name for message in messages for part in message.parts if isinstance(part, Call)}
    kept = _not_deferred(
        tools, blocks.referenced | called | {choice.name or ""}, search_dropped=DroppedParameter.TOOL_SEARCH in got.dropped
    )
    read = structs.replace(turn, model=model, messages=messages, tools=kept, tool_choice=choice)
    if kept or not read.has_tool_history:
        tool_forms.check_choice(choice, kept, place.at("tool_choice"))
    read = structs.replace(
        read,
        parallel_calls=parallel,
        stream=fields.flag(body, "stream", place),
        include_usage=True,
        max_tokens=max_tokens,
        stop=fields.texts(body, "stop_sequences", place),
        response_format=_response_format(body, place),
        reasoning_wanted=_wants_reasoning(body, place),
        sampling=_sampling(body, place),
        warnings=(*turn.warnings, *got.warnings()),
    )
    got.tell(note)
    return read


def _messages(body: Json, place: Place, blocks: Blocks) -> tuple[Message, ...]:
    transcript = Transcript()
    system = body.get("system")
    if system is not None:
        texts = blocks.text_only(system, place.at("system"))
        if texts:
            texts[0] = Text(
                _BILLING.sub("", texts[0].text, count=1) if texts[0].text.startswith("x-anthropic-billing-header:") else texts[0].text
            )
        joined = "\n\n".join(part.text for part in texts if part.text)
        transcript.add(Role.SYSTEM, [Text(joined)] if joined else [])
    if body.get("messages") is None:
        raise place.at("messages").missing()
    count = 0
    for count, (entry, here) in enumerate(fields.objects(body, "messages", place), start=1):
        if count > limits.MAX_ITEMS:
            raise place.at("messages").wrong(f"at most {limits.MAX_ITEMS} messages are allowed")
        name = fields.required_text(entry, "role", here)
        role = _ROLES.get(name)
        if role is None:
            raise here.at("role").wrong("Input should be 'user', 'assistant' or 'system'")
        if role is Role.SYSTEM:
            transcript.add(role, blocks.text_only(entry.get("content"), here.at("content")))
        else:
            _join(transcript, role, blocks.of_message(entry.get("content"), here.at("content"), role))
    if not count:
        raise place.at("messages").wrong("at least one message is required")
    return tuple(map(_results_first, transcript.messages()))


def _join(transcript: Transcript, role: Role, parts: list[Part]) -> None:
    """Neighbours of one role are one turn (AR03). Their texts stay apart, so that no words are glued and no marker forms."""
    last = transcript.last
    if parts and last is not None and last[0] is role and last[1] and isinstance(last[1][-1], Text) and isinstance(parts[0], Text):
        parts.insert(0, Text("\n\n"))
    transcript.join(role, parts)


def _results_first(message: Message) -> Message:
    """Results before words (AR11), also where the two came as neighbours; the same object where they stand so."""
    if message.role is not Role.USER:
        return message
    others = False
    for part in message.parts:
        if not isinstance(part, Result):
            others = True
        elif others:
            return structs.replace(message, parts=tuple(sorted(message.parts, key=lambda part: not isinstance(part, Result))))
    return message


def _tools(body: Json, place: Place, got: Collector, *, strict: bool) -> tuple[list[tuple[Tool, bool]], frozenset[str]]:
    """The tools, each with whether it is deferred, and the names of those left out."""
    tools: list[tuple[Tool, bool]] = []
    hosted: set[str] = set()
    for entry, here in fields.objects(body, "tools", place):
        kind = fields.optional_text(entry, "type", here) or "custom"
        deferred = fields.flag(entry, "defer_loading", here)
        builtin = builtin_tool(kind)
        if builtin is not None:
            described = {"name": builtin.name, "description": builtin.description, **entry, "input_schema": builtin.parameters}
            tools.append((tool_forms.function_tool(described, here, schema_key="input_schema", strict=strict), deferred))
        elif kind in ("custom", "function"):
            tools.append((tool_forms.function_tool(entry, here, schema_key="input_schema", strict=strict), deferred))
        else:
            got.drop(tool_forms.hosted_kind(kind))
            hosted.add(fields.optional_text(entry, "name", here) or kind)
    if fields.elements(body, "mcp_servers", place):
        got.drop(DroppedParameter.MCP_SERVERS)
    tool_forms.check_list([tool for tool, _ in tools], place, strict=strict)
    return tools, frozenset(hosted)


def _not_deferred(tools: list[tuple[Tool, bool]], named: set[str], *, search_dropped: bool) -> tuple[Tool, ...]:
    """AR07: a deferred tool stays out until something names it; where nobody can search for it, all are shown."""
    kept = tuple(tool for tool, deferred in tools if search_dropped or not deferred or tool.name in named)
    return kept or tuple(tool for tool, _ in tools)


def _choice(body: Json, place: Place, tools: list[tuple[Tool, bool]], hosted: frozenset[str]) -> tuple[ToolChoice, bool]:
    """The choice, and whether calls may go together."""
    value = fields.optional_object(body, "tool_choice", place)
    if value is None:
        return ToolChoice(), True
    here = place.at("tool_choice")
    kind = fields.required_text(value, "type", here)
    parallel = not fields.flag(value, "disable_parallel_tool_use", here)
    if kind == "tool":
        name = fields.required_text(value, "name", here)
        if name in hosted and all(tool.name != name for tool, _ in tools):
            raise tool_forms.refuse_hosted(here)
        return ToolChoice(ChoiceMode.NAMED, name), parallel
    if kind == "any":
        if hosted and not tools:
            raise tool_forms.refuse_hosted(here)
        return ToolChoice(ChoiceMode.REQUIRED), parallel
    if kind in ("auto", "none"):
        return ToolChoice(ChoiceMode(kind)), parallel
    raise here.at("type").wrong("Input should be 'auto', 'any', 'tool' or 'none'")


def _response_format(body: Json, place: Place) -> ResponseFormat | None:
    config = fields.optional_object(body, "output_config", place)
    if config is not None and config.get("format") is not None:
        return read_response_format(config["format"], place.at("output_config").at("format"))
    # The name it had while it was a beta.
    return read_response_format(body.get("output_format"), place.at("output_format"))


def _wants_reasoning(body: Json, place: Place) -> bool:
    thinking = fields.optional_object(body, "thinking", place)
    if thinking is None:
        return False
    here = place.at("thinking")
    shown = fields.optional_text(thinking, "display", here) != "omitted"
    return fields.required_text(thinking, "type", here) != "disabled" and shown


def _sampling(body: Json, place: Place) -> dict[str, object]:
    sampling: dict[str, object] = {}
    for key in _SAMPLING_NUMBERS:
        value = fields.number(body, key, place)
        if value is not None:
            sampling[key] = value
    top_k = fields.whole(body, "top_k", place)
    if top_k is not None:
        sampling["top_k"] = top_k
    config = fields.optional_object(body, "output_config", place) or {}
    effort = fields.optional_text(config, "effort", place.at("output_config"))
    if effort:
        sampling["reasoning_effort"] = effort
    return sampling


def _refuse_retired(body: Json, place: Place) -> None:
    for key in (*_SAMPLING_NUMBERS, "top_k"):
        if body.get(key) is not None:
            raise place.at(key).wrong(f"is not supported since version {_STRICT_SINCE}", ErrorKind.UNSUPPORTED_PARAMETER)
    for entry, here in fields.objects(body, "messages", place):
        role = entry.get("role")
        if not isinstance(entry.get("content"), list):
            continue
        for block, inside in fields.objects(entry, "content", here):
            if role == "assistant" and block.get("type") == "document":
                raise inside.wrong(f"document blocks in assistant messages are not supported since version {_STRICT_SINCE}")
            if role == "user" and block.get("type") == "text" and block.get("citations"):
                raise inside.at("citations").wrong(f"must be empty in user messages since version {_STRICT_SINCE}")

"""An OpenAI Chat Completions request into a turn (CR01 to CR13, CM01 to CM07).

In: a Turn with `api` and `body`. Out: the same turn with the whole request in it. Raises StageError for a malformed request, naming the field;
unknown fields never fail and travel in `sampling`.
"""

from __future__ import annotations

from msgspec import structs

from pipeline.protocols import fields, limits, placeholders, tool_forms
from pipeline.protocols.collector import Collector, silent
from pipeline.protocols.fields import Json, Place
from pipeline.protocols.openai_content import content_parts
from pipeline.protocols.response_format import read_response_format
from pipeline.protocols.transcript import Transcript
from pipeline.stage import Note
from pipeline.turn import CUSTOM_INPUT, Arguments, Call, ChoiceMode, Message, Part, Result, Role, Text, Tool, ToolChoice, ToolKind, Turn
from pipeline.verdicts import DroppedParameter, ErrorKind, ReplacedContent

_MAX_STOPS = 4
_MAX_CHOICES = 128

# Fields that have a place of their own in a turn, or none at all.
_READ = frozenset({
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "stream", "stream_options", "stop",
    "max_tokens", "max_completion_tokens", "response_format",
})  # fmt: skip
_NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_WHOLES = ("seed", "top_logprobs")
_OBJECTS = ("logit_bias", "metadata", "prediction", "web_search_options", "audio")
_TEXTS = ("user", "reasoning_effort", "verbosity", "service_tier", "safety_identifier", "prompt_cache_key")
# CR09, CR13: what shows or steers tokens that are not the answer's once blocks are in play.
_DROPPED_WITH_TOOLS = (
    DroppedParameter.LOGPROBS,
    DroppedParameter.TOP_LOGPROBS,
    DroppedParameter.PREDICTION,
    DroppedParameter.WEB_SEARCH_OPTIONS,
    DroppedParameter.MODERATION,
    # An answer that is made anew here is stored nowhere.
    DroppedParameter.STORE,
)


def read_request(turn: Turn, note: Note = silent, *, strict: bool = False) -> Turn:
    """Read the body. `strict` holds the request to the limits of the original API. Raises StageError."""
    body = turn.body
    place = Place(turn.api)
    got = Collector()
    model = fields.required_text(body, "model", place)
    messages, called_the_old_way = _messages(body, place, got)
    tools, legacy, hosted = _tools(body, place, got, strict=strict)
    here = place.at("function_call" if legacy and body.get("tool_choice") is None else "tool_choice")
    choice = _choice(body.get(str(here)), here, hosted_only=bool(hosted) and not tools)
    read = structs.replace(turn, model=model, messages=messages, tools=tools, tool_choice=choice)
    history = read.has_tool_history
    if tools or not history:
        tool_forms.check_choice(choice, tools, here)
    legacy = legacy or (called_the_old_way and not tools)
    stream = fields.flag(body, "stream", place)
    options = fields.optional_object(body, "stream_options", place) or {}
    sampling = _sampling(body, place, got, in_play=bool(tools) or history)
    if strict:
        limits.bounded_metadata(body, place)
    parallel = True
    if "parallel_tool_calls" in body:
        if body["parallel_tool_calls"] is None:
            raise place.at("parallel_tool_calls").expected("a boolean", None)
        parallel = fields.flag(body, "parallel_tool_calls", place, default=True)
    limit = _limit(body, "max_completion_tokens", place, strict=strict)
    older_limit = _limit(body, "max_tokens", place, strict=strict)
    read = structs.replace(
        read,
        parallel_calls=parallel and not legacy,
        stream=stream,
        include_usage=fields.flag(options, "include_usage", place.at("stream_options")) and stream,
        max_tokens=older_limit if limit is None else limit,
        stop=_stop(body, place, strict=strict),
        response_format=read_response_format(body.get("response_format"), place.at("response_format")),
        reasoning_wanted=True,
        legacy_functions=legacy,
        sampling=sampling,
        warnings=(*turn.warnings, *got.warnings(), *_prefill_warning(read)),
    )
    got.tell(note)
    return read


def _prefill_warning(turn: Turn) -> tuple[str, ...]:
    """CM06: a last message of the assistant's goes on as it is, but few servers continue it, and a call cannot begin in it."""
    prefill = bool(turn.tools) and turn.messages[-1].role is Role.ASSISTANT and not isinstance(turn.messages[-1].parts[-1], Call)
    return ("assistant prefill",) if prefill else ()


def _messages(body: Json, place: Place, got: Collector) -> tuple[tuple[Message, ...], bool]:
    if body.get("messages") is None:
        raise place.at("messages").missing()
    transcript = Transcript()
    old_calls = _OldCalls()
    count = 0
    for count, (entry, here) in enumerate(fields.objects(body, "messages", place), start=1):
        if count > limits.MAX_ITEMS:
            raise place.at("messages").wrong(f"must have at most {limits.MAX_ITEMS} messages")
        _message(entry, here, got, transcript, old_calls)
    if not count:
        raise place.at("messages").wrong("must have at least one message")
    return transcript.messages(), old_calls.only


def _message(entry: Json, place: Place, got: Collector, transcript: Transcript, old_calls: _OldCalls) -> None:
    role = fields.required_text(entry, "role", place)
    content = entry.get("content")
    inside = place.at("content")
    name = fields.optional_text(entry, "name", place)
    if role == "user":
        transcript.add(Role.USER, content_parts(content, inside, got, rich=True), name)
    elif role == "assistant":
        parts: list[Part] = list(content_parts(content, inside, got, rich=False))
        parts += _assistant_extras(entry, place, got, old_calls)
        transcript.add(Role.ASSISTANT, parts, name)
    elif role == "tool":
        if entry.get("tool_call_id") is None:
            raise place.at("tool_call_id").missing()
        call_id = fields.as_text(entry["tool_call_id"], place.at("tool_call_id"))
        result = Result(call_id, tuple(content_parts(content, inside, got, rich=True)), name)
        transcript.add(Role.USER, [result])
    elif role == "function":
        called = fields.required_text(entry, "name", place)
        result = Result(old_calls.answered(called), tuple(content_parts(content, inside, got, rich=True)), called)
        transcript.add(Role.USER, [result])
    elif role in ("system", "developer"):
        transcript.add(Role(role), content_parts(content, inside, got, rich=False), name)
    else:
        allowed = "'system', 'developer', 'user', 'assistant', 'tool' and 'function'"
        raise place.at("role").wrong(f"supported values are {allowed}", ErrorKind.UNSUPPORTED_VALUE)


def _assistant_extras(entry: Json, place: Place, got: Collector, old_calls: _OldCalls) -> list[Part]:
    """What an assistant message holds beside its content: a refusal, a spoken answer, calls. Its reasoning is dropped."""
    parts: list[Part] = []
    refusal = fields.optional_text(entry, "refusal", place)
    if refusal:
        parts.append(Text(refusal))
    if entry.get("audio") is not None:
        got.replace(ReplacedContent.AUDIO)
        parts.append(Text(placeholders.omitted("audio")))
    for call, here in fields.objects(entry, "tool_calls", place):
        parts.append(_call(call, here, got))
        old_calls.only = False
    old = fields.optional_object(entry, "function_call", place)
    if old is not None:
        called = fields.optional_text(old, "name", place.at("function_call")) or ""
        parts.append(_named_call(called, old.get("arguments"), old_calls.made(called), got))
    return parts


def _call(call: Json, place: Place, got: Collector) -> Part:
    call_id = fields.optional_text(call, "id", place) or ""
    custom = fields.optional_object(call, "custom", place)
    if custom is not None:
        here = place.at("custom")
        called = fields.optional_text(custom, "name", here) or ""
        raw = {CUSTOM_INPUT: fields.optional_text(custom, "input", here) or ""}
        return _named_call(called, raw, call_id, got, ToolKind.CUSTOM)
    function = fields.optional_object(call, "function", place)
    if function is None:
        raise place.at("function").missing()
    called = fields.optional_text(function, "name", place.at("function")) or ""
    made = _named_call(called, function.get("arguments"), call_id, got)
    extra = call.get("extra_content")
    # U09: what the upstream that made the call wants back with it. Nobody else reads it, so its shape is not ours to judge.
    return structs.replace(made, extra=extra) if isinstance(made, Call) and isinstance(extra, dict) and extra else made


def _named_call(name: str, raw: object, call_id: str, got: Collector, kind: ToolKind = ToolKind.FUNCTION) -> Part:
    if name.strip():
        return Call(call_id, name, Arguments(raw), kind)
    # Some upstream wrote it and the client cannot unwrite it: refusing would end the conversation for good.
    got.replace(ReplacedContent.NAMELESS_CALL)
    return Text(placeholders.record("call without a tool name", raw))


class _OldCalls:
    """Pairs `function` messages with the `function_call`s before them, which carry no ids (CR07)."""

    __slots__ = ("_count", "_open", "only")

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []
        self.only = True

    def made(self, name: str) -> str:
        """The id for a new call."""
        self._count += 1
        call_id = f"function_call_{self._count}"
        self._open.append((name, call_id))
        return call_id

    def answered(self, name: str) -> str:
        """The id of the nearest preceding open call of this name, else an id that no call has."""
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at][0] == name:
                return self._open.pop(at)[1]
        self._count += 1
        return f"function_result_{self._count}"


def _tools(body: Json, place: Place, got: Collector, *, strict: bool) -> tuple[tuple[Tool, ...], bool, frozenset[str]]:
    """The tools, whether they came as legacy functions, and the types of those left out."""
    old = fields.elements(body, "functions", place)
    if old and fields.elements(body, "tools", place):
        raise place.at("functions").wrong("cannot be given together with 'tools'")
    tools: list[Tool] = []
    hosted: set[str] = set()
    for entry, here in fields.objects(body, "functions", place):
        tools.append(tool_forms.function_tool(entry, here, schema_key="parameters", strict=strict))
    for entry, here in fields.objects(body, "tools", place):
        kind = fields.optional_text(entry, "type", here) or "function"
        if kind == "function":
            inner = entry if "function" not in entry and "name" in entry else fields.optional_object(entry, "function", here)
            if inner is None:
                raise here.at("function").missing()
            inside = here if inner is entry else here.at("function")
            native = None if inner is entry else entry
            tools.append(tool_forms.function_tool(inner, inside, schema_key="parameters", strict=strict, native=native))
        elif kind == "custom":
            inner = entry if "custom" not in entry and "name" in entry else fields.optional_object(entry, "custom", here)
            if inner is None:
                raise here.at("custom").missing()
            tools.append(tool_forms.custom_tool(inner, here if inner is entry else here.at("custom"), strict=strict))
        else:
            got.drop(tool_forms.hosted_kind(kind))
            hosted.add(kind)
    tool_forms.check_list(tools, place, strict=strict)
    return tuple(tools), bool(old), frozenset(hosted)


def _choice(value: object, here: Place, *, hosted_only: bool) -> ToolChoice:
    if value is None:
        return ToolChoice()
    if isinstance(value, str):
        choice = tool_forms.plain_choice(value, here)
        if choice.mandatory and hosted_only:
            raise tool_forms.refuse_hosted(here)
        return choice
    choice_object = fields.as_object(value, here)
    kind = fields.optional_text(choice_object, "type", here) or "function"
    if kind in ("function", "custom"):
        nested = fields.optional_object(choice_object, kind, here)
        inner, inside = (nested, here.at(kind)) if nested is not None else (choice_object, here)
        return ToolChoice(ChoiceMode.NAMED, fields.required_text(inner, "name", inside))
    if kind == "allowed_tools":
        nested = fields.optional_object(choice_object, "allowed_tools", here)
        inner, inside = (nested, here.at("allowed_tools")) if nested is not None else (choice_object, here)
        return _allowed(inner, inside)
    if kind in ("auto", "none", "required", "any"):
        return tool_forms.plain_choice(kind, here.at("type"))
    raise tool_forms.refuse_hosted(here)


def _allowed(inner: Json, inside: Place) -> ToolChoice:
    mode = tool_forms.plain_choice(fields.optional_text(inner, "mode", inside) or "auto", inside.at("mode")).mode
    names: set[str] = set()
    for entry, here in fields.objects(inner, "tools", inside):
        kind = fields.optional_text(entry, "type", here) or "function"
        if kind not in ("function", "custom"):
            continue
        nested = fields.optional_object(entry, kind, here)
        names.add(fields.required_text(entry if nested is None else nested, "name", here if nested is None else here.at(kind)))
    return tool_forms.allow_only(mode, frozenset(names), inside)


def _sampling(body: Json, place: Place, got: Collector, *, in_play: bool) -> dict[str, object]:
    """Every further field in its own spelling, types checked where they are known; nulls are left out."""
    for key in _NUMBERS:
        fields.number(body, key, place)
    for key in _WHOLES:
        fields.whole(body, key, place, least=-(1 << 63))
    for key in _OBJECTS:
        fields.optional_object(body, key, place)
    for key in _TEXTS:
        fields.optional_text(body, key, place)
    for key in ("logprobs", "store"):
        fields.flag(body, key, place)
    sampling = {key: value for key, value in body.items() if key not in _READ and value is not None}
    choices = fields.whole(body, "n", place, least=1) or 1
    if choices > _MAX_CHOICES:
        raise place.at("n").wrong(f"must be at most {_MAX_CHOICES}")
    if choices == 1:
        sampling.pop("n", None)
    elif in_play:
        raise place.at("n").wrong("must be 1 when tools are in play", ErrorKind.UNSUPPORTED_VALUE)
    modalities = fields.texts(body, "modalities", place)
    if in_play:
        if "audio" in modalities or "audio" in sampling:
            raise place.at("modalities").wrong("audio is not available when tools are in play", ErrorKind.UNSUPPORTED_VALUE)
        sampling.pop("modalities", None)
        for name in _DROPPED_WITH_TOOLS:
            if sampling.pop(name, False) not in (False, 0):
                got.drop(name)
    return sampling


def _limit(body: Json, key: str, place: Place, *, strict: bool) -> int | None:
    """A token limit of 1 or more. Local servers take a negative one for "no limit", and their clients send it."""
    limit = fields.whole(body, key, place, least=1 if strict else -(1 << 31))
    if limit == 0:
        raise place.at(key).wrong("must be at least 1")
    return limit if limit is not None and limit > 0 else None


def _stop(body: Json, place: Place, *, strict: bool) -> tuple[str, ...]:
    value = body.get("stop")
    if isinstance(value, str):
        return (fields.as_text(value, place.at("stop")),) if value else ()
    stops = fields.texts(body, "stop", place)
    if strict and len(stops) > _MAX_STOPS:
        raise place.at("stop").wrong(f"must have at most {_MAX_STOPS} entries")
    return stops

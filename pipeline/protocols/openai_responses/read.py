"""An OpenAI Responses request into a turn (RQ01 to RQ05, RN01, RN02).

In: a Turn with `api` and `body`. Out: the same turn with the whole request in it, and in `echo` every request value that the response object
repeats, normalised: never a raw null where the schema has none. Raises StageError for a malformed request, and for what needs stored state.
"""

from __future__ import annotations

from msgspec import structs

from pipeline.protocols import fields, limits, tool_forms
from pipeline.protocols.collector import Collector, silent
from pipeline.protocols.fields import Json, Place
from pipeline.protocols.openai_responses.items import Items
from pipeline.protocols.response_format import read_response_format
from pipeline.protocols.transcript import Transcript
from pipeline.stage import Note
from pipeline.turn import ChoiceMode, Role, Text, Tool, ToolChoice, Turn
from pipeline.verdicts import DroppedParameter, ErrorKind

_LEAST_OUTPUT_TOKENS = 16
# The response object repeats these, and its schema bounds them: range of numbers, length of texts.
_NUMBERS = {"temperature": (0, 2), "top_p": (0, 1), "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2)}
_TEXTS = {"user": 1 << 16, "safety_identifier": 64, "prompt_cache_key": 1 << 16, "service_tier": 64}
# Words that the response object may repeat. Others go to the upstream, which may know them, and are not repeated.
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
_VERBOSITIES = frozenset({"low", "medium", "high"})
_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
_TRUNCATIONS = frozenset({"auto", "disabled"})
# RQ05: without stored responses these cannot be honoured.
_UNSUPPORTED = ("conversation", "background", "prompt")


def read_request(turn: Turn, note: Note = silent, *, strict: bool = False) -> Turn:
    """Read the body. `strict` holds the request to the limits of the original API. Raises StageError."""
    body = turn.body
    place = Place(turn.api)
    got = Collector()
    model = fields.required_text(body, "model", place)
    _refuse_state(body, place)
    transcript = Transcript()
    instructions = fields.optional_text(body, "instructions", place)
    if instructions:
        transcript.add(Role.SYSTEM, [Text(instructions)])
    items = Items(transcript, got, strict=strict)
    _input(body, place, transcript, items)
    offered = _Offered(got, strict=strict)
    offered.read(body, place)
    tool_forms.check_list(offered.tools, place, strict=strict)
    tools = (*offered.tools, *_brought_along(items, offered, got, strict=strict))
    choice = _choice(body, place, tools, hosted_only=offered.hosted and not tools)
    read = structs.replace(turn, model=model, messages=transcript.messages(), tools=tools, tool_choice=choice)
    if tools or not read.has_tool_history:
        tool_forms.check_choice(choice, tools, place.at("tool_choice"))
    text = fields.optional_object(body, "text", place) or {}
    reasoning = fields.optional_object(body, "reasoning", place) or {}
    read = structs.replace(
        read,
        parallel_calls=fields.flag(body, "parallel_tool_calls", place, default=True),
        stream=fields.flag(body, "stream", place),
        include_usage=True,
        max_tokens=fields.whole(body, "max_output_tokens", place, least=_LEAST_OUTPUT_TOKENS if strict else 1),
        response_format=read_response_format(text.get("format"), place.at("text").at("format")),
        reasoning_wanted=_wants_reasoning(reasoning, place.at("reasoning")),
        sampling=_sampling(body, place, got),
        warnings=(*turn.warnings, *got.warnings()),
    )
    got.tell(note)
    return structs.replace(read, echo={**turn.echo, **_echo(read, place, offered.echo, instructions)})


def _refuse_state(body: Json, place: Place) -> None:
    if fields.optional_text(body, "previous_response_id", place):
        here = place.at("previous_response_id")
        raise here.wrong("no response is stored here; send the whole conversation in 'input'", code="previous_response_not_found")
    fields.flag(body, "background", place)
    for key in _UNSUPPORTED:
        if body.get(key) not in (None, False):
            raise place.at(key).wrong("is not supported: nothing is stored here", ErrorKind.UNSUPPORTED_PARAMETER)


def _input(body: Json, place: Place, transcript: Transcript, items: Items) -> None:
    value = body.get("input")
    if value is None:
        raise place.at("input").missing()
    if isinstance(value, str):
        text = fields.as_text(value, place.at("input"))
        transcript.add(Role.USER, [Text(text)] if text else [])
        return
    if not isinstance(value, list):
        raise place.at("input").expected("a string or an array of items", value)
    if not value:
        raise place.at("input").wrong("must have at least one item")
    if len(value) > limits.MAX_ITEMS:
        raise place.at("input").wrong(f"must have at most {limits.MAX_ITEMS} items")
    for item, here in fields.objects(body, "input", place):
        items.add(item, here)


class _Offered:
    """The tools of a request: flat ones, those in namespaces, those left out."""

    __slots__ = ("_got", "_strict", "echo", "hosted", "tools")

    def __init__(self, got: Collector, *, strict: bool) -> None:
        self._got = got
        self._strict = strict
        self.tools: list[Tool] = []
        self.echo: list[dict[str, object]] = []
        self.hosted = False

    def read(self, holder: Json, place: Place) -> None:
        """Read the `tools` array of the request. Deferred tools are shown: tool search, which would find them, is left out (RQ03)."""
        for entry, here in fields.objects(holder, "tools", place):
            self._entry(entry, here)

    def _entry(self, entry: Json, place: Place) -> None:
        kind = fields.optional_text(entry, "type", place) or "function"
        if kind == "namespace":
            self._namespace(entry, place)
        elif kind in ("function", "custom"):
            tool, echo = self._tool(kind, entry, place)
            self.tools.append(tool)
            self.echo.append(echo)
        else:
            self._got.drop(tool_forms.hosted_kind(kind))
            self.hosted = True

    def _tool(self, kind: str, entry: Json, place: Place) -> tuple[Tool, dict[str, object]]:
        nested = fields.optional_object(entry, kind, place)
        inner, here = (nested, place.at(kind)) if nested is not None else (entry, place)
        if kind == "custom":
            tool = tool_forms.custom_tool(inner, here, strict=self._strict)
            shown = fields.optional_text(inner, "description", here) or ""
            return tool, {"type": "custom", "name": tool.name, "description": shown, "format": tool.format}
        tool = tool_forms.function_tool(inner, here, schema_key="parameters", strict=self._strict)
        return tool, {
            "type": "function",
            "name": tool.name,
            "description": tool.description or None,
            "parameters": tool.parameters,
            "strict": tool.strict,
        }

    def _namespace(self, entry: Json, place: Place) -> None:
        """Flatten `ns{tools}` to `ns.name`. What the namespace says of itself opens the description of its first tool."""
        space = tool_forms.tool_name(entry, place, strict=self._strict)
        about = fields.optional_text(entry, "description", place) or ""
        inner_echo: list[dict[str, object]] = []
        for inner, here in fields.objects(entry, "tools", place):
            kind = fields.optional_text(inner, "type", here) or "function"
            if kind not in ("function", "custom"):
                self._got.drop(tool_forms.hosted_kind(kind))
                continue
            tool, echo = self._tool(kind, inner, here)
            inner_echo.append(echo)
            description = tool.description
            if about and len(inner_echo) == 1:
                description = f"{about}\n{description}" if description else about
            self.tools.append(_in_namespace(tool, space, description))
        if inner_echo:
            self.echo.append({"type": "namespace", "name": space, "description": about, "tools": inner_echo})


def _brought_along(items: Items, offered: _Offered, got: Collector, *, strict: bool) -> list[Tool]:
    """Tools that items of the history brought; what the request itself offers stands, and of two items the later one."""
    known = {tool.name for tool in offered.tools}
    fresh: dict[str, Tool] = {}
    for holder, where in items.tool_lists:
        more = _Offered(got, strict=strict)
        more.read(holder, where)
        fresh.update({tool.name: tool for tool in more.tools if tool.name not in known})
    return list(fresh.values())


def _in_namespace(tool: Tool, space: str, description: str) -> Tool:
    spaced = structs.replace(tool, name=f"{space}.{tool.name}", namespace=space, description=description)
    return structs.replace(spaced, native=tool_forms.native_form(spaced))


def _choice(body: Json, place: Place, tools: tuple[Tool, ...], *, hosted_only: bool) -> ToolChoice:
    value = body.get("tool_choice")
    here = place.at("tool_choice")
    if value is None:
        return ToolChoice()
    if isinstance(value, str):
        choice = tool_forms.plain_choice(value, here)
    else:
        wanted = fields.as_object(value, here)
        kind = fields.optional_text(wanted, "type", here) or "function"
        if kind in ("function", "custom"):
            return ToolChoice(ChoiceMode.NAMED, _name_in(wanted, kind, here, tools))
        if kind == "allowed_tools":
            return _allowed(wanted, here, tools)
        if kind not in ("auto", "none", "required", "any"):
            raise tool_forms.refuse_hosted(here)
        choice = tool_forms.plain_choice(kind, here.at("type"))
    if choice.mandatory and hosted_only:
        raise tool_forms.refuse_hosted(here)
    return choice


def _allowed(wanted: Json, here: Place, tools: tuple[Tool, ...]) -> ToolChoice:
    nested = fields.optional_object(wanted, "allowed_tools", here)
    inner, inside = (nested, here.at("allowed_tools")) if nested is not None else (wanted, here)
    mode = tool_forms.plain_choice(fields.optional_text(inner, "mode", inside) or "auto", inside.at("mode")).mode
    names: set[str] = set()
    for entry, at in fields.objects(inner, "tools", inside):
        kind = fields.optional_text(entry, "type", at) or "function"
        if kind in ("function", "custom"):
            names.add(_name_in(entry, kind, at, tools))
        elif kind == "namespace":
            space = fields.required_text(entry, "name", at)
            names.update(tool.name for tool in tools if tool.namespace == space)
    return tool_forms.allow_only(mode, frozenset(names), inside)


def _name_in(entry: Json, kind: str, place: Place, tools: tuple[Tool, ...]) -> str:
    """The full name of the tool that a choice means: with its namespace, or without one where only one namespace has it."""
    nested = fields.optional_object(entry, kind, place)
    inner, here = (nested, place.at(kind)) if nested is not None else (entry, place)
    name = fields.required_text(inner, "name", here)
    space = fields.optional_text(inner, "namespace", here)
    if space:
        return f"{space}.{name}"
    if any(tool.name == name for tool in tools):
        return name
    spaced = [tool.name for tool in tools if tool.namespace is not None and tool.name == f"{tool.namespace}.{name}"]
    return spaced[0] if len(spaced) == 1 else name


def _sampling(body: Json, place: Place, got: Collector) -> dict[str, object]:
    sampling: dict[str, object] = {}
    for key, (least, most) in _NUMBERS.items():
        value = fields.number(body, key, place)
        if value is not None:
            if not least <= value <= most:
                raise place.at(key).wrong(f"must be between {least} and {most}")
            sampling[key] = value
    for key, longest in _TEXTS.items():
        text = fields.optional_text(body, key, place)
        if text is not None:
            if len(text) > longest:
                raise place.at(key).wrong(f"must have at most {longest} characters")
            sampling[key] = text
    metadata = limits.bounded_metadata(body, place)
    if metadata:
        sampling["metadata"] = metadata
    reasoning = fields.optional_object(body, "reasoning", place) or {}
    effort = fields.optional_text(reasoning, "effort", place.at("reasoning"))
    if effort is not None:
        sampling["reasoning_effort"] = effort
    answer = fields.optional_object(body, "text", place) or {}
    verbosity = fields.optional_text(answer, "verbosity", place.at("text"))
    if verbosity is not None:
        sampling["verbosity"] = verbosity
    # Our output items hold no logprobs; those of the upstream would show the tokens of blocks (CR09).
    if fields.whole(body, "top_logprobs", place):
        got.drop(DroppedParameter.TOP_LOGPROBS)
    if body.get("moderation") is not None:
        got.drop(DroppedParameter.MODERATION)
    return sampling


def _wants_reasoning(reasoning: Json, place: Place) -> bool:
    """E-think: a reasoning item only where reasoning was asked for: an effort other than none, or a summary."""
    effort = fields.optional_text(reasoning, "effort", place)
    summary = fields.optional_text(reasoning, "summary", place) or fields.optional_text(reasoning, "generate_summary", place)
    return effort != "none" and bool(effort or summary)


def _echo(read: Turn, place: Place, tools: list[dict[str, object]], instructions: str | None) -> dict[str, object]:
    """What the response object repeats (RN01), with the API's defaults where the request was silent, and what is true of us: no store."""
    body, sampling = read.body, read.sampling
    text = fields.optional_object(body, "text", place) or {}
    reasoning = fields.optional_object(body, "reasoning", place) or {}
    summary = reasoning.get("summary") or reasoning.get("generate_summary")
    verbosity = _known(text.get("verbosity"), _VERBOSITIES)
    fields.flag(body, "store", place)
    echo: dict[str, object] = {
        "previous_response_id": None,
        "instructions": instructions,
        "tools": tools,
        "tool_choice": _echoed_choice(read, place),
        "truncation": _known(fields.optional_text(body, "truncation", place), _TRUNCATIONS) or "disabled",
        "parallel_tool_calls": read.parallel_calls,
        "text": {"format": _echoed_format(read)} | ({"verbosity": verbosity} if verbosity else {}),
        "temperature": sampling.get("temperature", 1.0),
        "top_p": sampling.get("top_p", 1.0),
        "presence_penalty": sampling.get("presence_penalty", 0.0),
        "frequency_penalty": sampling.get("frequency_penalty", 0.0),
        "top_logprobs": 0,
        "reasoning": {"effort": _known(reasoning.get("effort"), _EFFORTS), "summary": _known(summary, _SUMMARIES)},
        "max_output_tokens": read.max_tokens,
        "max_tool_calls": fields.whole(body, "max_tool_calls", place),
        "store": False,
        "background": False,
        "service_tier": _known(sampling.get("service_tier"), _TIERS) or "default",
        "metadata": sampling.get("metadata", {}),
        "safety_identifier": sampling.get("safety_identifier"),
        "prompt_cache_key": sampling.get("prompt_cache_key"),
    }
    if "user" in sampling:
        echo["user"] = sampling["user"]
    return echo


def _known(word: object, words: frozenset[str]) -> str | None:
    return word if isinstance(word, str) and word in words else None


def _echoed_choice(read: Turn, place: Place) -> object:
    choice = read.tool_choice
    if choice.allowed is not None:
        here = place.at("tool_choice")
        wanted = fields.as_object(read.body.get("tool_choice"), here)
        inner = fields.optional_object(wanted, "allowed_tools", here) or wanted
        return {"type": "allowed_tools", "mode": choice.mode.value, "tools": fields.elements(inner, "tools", here)}
    if choice.mode is not ChoiceMode.NAMED:
        return choice.mode.value
    tool = next((tool for tool in read.tools if tool.name == choice.name), None)
    if tool is None:
        return {"type": "function", "name": choice.name}
    bare = tool.name.removeprefix(f"{tool.namespace}.") if tool.namespace else tool.name
    return {"type": tool.kind.value, "name": bare} | ({"namespace": tool.namespace} if tool.namespace else {})


def _echoed_format(read: Turn) -> object:
    if read.response_format is None:
        return {"type": "text"}
    native = read.response_format.native
    schema = native.get("json_schema")
    return {"type": "json_schema", **schema} if isinstance(schema, dict) else native

"""The nouns of a request: a turn, its messages and parts, tools, choice, calls.

Values are frozen; a stage that changes something makes a new one with `msgspec.structs.replace` and returns it, and
returns the very same object when it changed nothing. Knows nobody but the enums and the JSON leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from pipeline import json_values
from pipeline.verdicts import Api, Cause, EmulationReason, HistoryState, Tier


class Role(StrEnum):
    """Who speaks. Tool results are parts of a user message here, as `Result`."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class ToolKind(StrEnum):
    """A function takes a JSON object, a custom tool takes one raw text."""

    FUNCTION = "function"
    CUSTOM = "custom"


CUSTOM_INPUT = "input"
"""The one argument, a text, under which the raw input of a custom tool travels: in its schema, in history and in calls that come back."""


class ChoiceMode(StrEnum):
    """How free the model is to call."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


class Arguments:
    """Arguments of one call as somebody wrote them, parsed once at the most (G4).

    `raw` is JSON text, or a value that a protocol carries as an object already. Poison (G1) is what has no object in it.
    """

    __slots__ = ("_parsed", "_value", "raw")

    def __init__(self, raw: object) -> None:
        """Take JSON text or a JSON value; nothing is parsed yet."""
        self.raw = raw
        self._parsed = False
        self._value: dict[str, object] | None = None

    def value(self) -> dict[str, object] | None:
        """The object, or None for poison. Empty, blank and null are `{}`; a JSON string holding an object is unwrapped once."""
        if not self._parsed:
            self._parsed = True
            self._value = _object_in(self.raw, unwrap=True)
        return self._value

    def text(self) -> str:
        """JSON text of the object: the client's own bytes where they are one, else compact JSON; for poison the raw text.

        The one thing changed in those bytes are lone surrogates (N5), which strict readers refuse even as escapes.
        """
        value = self.value()
        if value is None:
            return self.raw if isinstance(self.raw, str) else json_values.dumps(self.raw)
        if isinstance(self.raw, str) and self.raw.lstrip()[:1] == "{":
            return json_values.whole_pairs(self.raw)
        return json_values.dumps(value)

    def __eq__(self, other: object) -> bool:
        """Equal when both hold the same object, or the same poison."""
        if not isinstance(other, Arguments):
            return NotImplemented
        mine, theirs = self.value(), other.value()
        return mine == theirs if mine is not None or theirs is not None else self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Sizes only: arguments never reach a log by accident."""
        return f"Arguments(<{len(self.raw) if isinstance(self.raw, str) else type(self.raw).__name__}>)"


def _object_in(raw: object, *, unwrap: bool) -> dict[str, object] | None:
    if raw is None:
        return {}
    if isinstance(raw, dict):
        return raw
    if not isinstance(raw, str):
        return None
    if not raw or raw.isspace():
        return {}
    try:
        value = json_values.loads(raw)
    except json_values.NotJsonError:
        return None
    if isinstance(value, str) and unwrap and value.strip():
        return _object_in(value, unwrap=False)
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


class Text(msgspec.Struct, frozen=True, tag=True):
    """Plain text."""

    text: str


class Image(msgspec.Struct, frozen=True, tag=True):
    """An image: an http(s) URL or a data: URL."""

    url: str
    detail: str | None = None


class Media(msgspec.Struct, frozen=True, tag=True):
    """A part that only some upstreams take (file, audio): its OpenAI Chat form, carried untouched."""

    kind: str
    part: Mapping[str, object]


class Call(msgspec.Struct, frozen=True, tag=True):
    """A call in the history. `id` is the client's, opaque. `name` as the model sees it (`namespace` folded in, as in Tool).

    The arguments of a custom call are an object with the raw input under `CUSTOM_INPUT`. `extra` is what the upstream that made
    the call wants back with it, untouched (U09: `extra_content`).
    """

    id: str
    name: str
    arguments: Arguments
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str | None = None
    extra: Mapping[str, object] | None = None


class Result(msgspec.Struct, frozen=True, tag=True):
    """What a call returned. `name` is filled where the protocol says it or the guard paired it."""

    call_id: str
    content: tuple[Text | Image | Media, ...] = ()
    name: str | None = None
    is_error: bool = False
    is_partial: bool = False
    is_missing: bool = False


Part = Text | Image | Media | Call | Result


def text_of(parts: Iterable[Part]) -> str:
    """Text parts as one text. Blocks that do not bring their own white space are parted by a line break, so that no words are glued."""
    out: list[str] = []
    for part in parts:
        if isinstance(part, Text) and part.text:
            if out and not out[-1][-1].isspace() and not part.text[0].isspace():
                out.append("\n")
            out.append(part.text)
    return "".join(out)


class Message(msgspec.Struct, frozen=True):
    """One message: parts in order. Calls stand in assistant messages, results in user messages."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None


class Tool(msgspec.Struct, frozen=True):
    """A tool the caller offers. `name` is what the model writes; `namespace` (Responses) is its part before the first dot."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = {}
    kind: ToolKind = ToolKind.FUNCTION
    strict: bool = False
    namespace: str | None = None
    format: Mapping[str, object] | None = None
    native: Mapping[str, object] | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """What the caller demands. `allowed` is a hard filter of names, or None."""

    mode: ChoiceMode = ChoiceMode.AUTO
    name: str | None = None
    allowed: frozenset[str] | None = None

    @property
    def mandatory(self) -> bool:
        """Must the answer hold a call?"""
        return self.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED)


class ResponseFormat(msgspec.Struct, frozen=True):
    """JSON asked for as the answer: any object, or one that fits `schema`. `native` is the OpenAI Chat form."""

    schema: Mapping[str, object] | None
    native: Mapping[str, object]


class Usage(msgspec.Struct, frozen=True):
    """Token counts in OpenAI's sense: input includes cached."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False


class Emulation(msgspec.Struct, frozen=True):
    """Set by prompt_contract on a turn whose answer goes through the sieve.

    `dialect` is the taught one. `tools` are those a call may name. `quotes` are texts of this request that hold JSON fences
    (S8: a verbatim quote is never run). `escaped` says that C10 escapes were put in, so the sieve must undo them.
    """

    dialect: str
    tools: tuple[Tool, ...]
    injected: bool = True
    tier: Tier | None = None
    contract_bytes: int = 0
    escaped: bool = False
    quotes: tuple[str, ...] = ()


class Correction(msgspec.Struct, frozen=True):
    """Why and how the next attempt asks again (R4). `discarded` is what the model wrote, `fault` what is wrong with it and where.

    `answer_allowed` says that a final answer in plain text would do as well as a call.
    """

    cause: Cause
    number: int
    discarded: str = ""
    fault: str = ""
    tool: str | None = None
    neutral: bool = False
    dialect: str | None = None
    answer_allowed: bool = False


class Turn(msgspec.Struct, frozen=True):
    """One client request on its way through the chain.

    The handler fills `api`, `raw`, `body`, `headers` (lower-case names, only those a protocol reads) and `request_id`;
    normalize fills the rest of the request; prompt_contract sets `emulation` and rewrites `messages`.
    `sampling` holds further request fields in their OpenAI Chat spelling, `echo` what a response must repeat. `results_failed` says
    that one of the results just returned is marked as an error (R2).
    `count_only` marks a request that asks for its token count alone, which needs no `max_tokens` (AR15).
    """

    api: Api
    raw: bytes = b""
    body: Mapping[str, object] = {}
    headers: Mapping[str, str] = {}
    request_id: str = ""
    count_only: bool = False
    model: str = ""
    upstream_model: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    tools_rebuilt: bool = False
    tool_choice: ToolChoice = ToolChoice()
    parallel_calls: bool = True
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    response_format: ResponseFormat | None = None
    reasoning_wanted: bool = False
    legacy_functions: bool = False
    sampling: Mapping[str, object] = {}
    echo: Mapping[str, object] = {}
    state: HistoryState = HistoryState.AWAITING_DECISION
    results_failed: bool = False
    warnings: tuple[str, ...] = ()
    emulation: Emulation | None = None
    emulation_reason: EmulationReason = EmulationReason.NO_TOOLS
    correction: Correction | None = None

    @property
    def has_tool_history(self) -> bool:
        """Do the messages hold calls or results?"""
        return any(isinstance(part, Call | Result) for message in self.messages for part in message.parts)

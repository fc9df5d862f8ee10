"""What the writers of the three protocols share: the parts of an answer, and what a call becomes on its way to a client.

In: events of the attempt that is delivered, those of a begun call together (`InOrder` sees to that). Out: hooks, called one part at a
time. Promise: a whole call and a begun one end in the same shape; a call that is not whole is never passed off as one (E4); nothing comes
after the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from pipeline import json_values
from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, Dropped, Event, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.protocols.count_tokens import count
from pipeline.turn import CUSTOM_INPUT, Arguments, ToolKind, Turn, Usage
from pipeline.verdicts import ErrorKind, FinishReason

JSON_TYPE = "application/json"
# X01. The charset is part of the type: some proxies guess without it.
STREAM_TYPE = "text/event-stream; charset=utf-8"
# X06: a comment line, which every consumer of Chat and Responses streams skips.
COMMENT = b": keep-alive\n\n"

# E7: from here on pings do not keep Claude Code alive, text deltas do.
SILENCE_BLOCK_S = 60.0

quote = json_values.dumps_bytes
"""A JSON string of this text, as bytes."""


class WriterOptions(msgspec.Struct, frozen=True):
    """What a route chooses about how answers are written.

    `unseen_tokens` of the input are left out of estimates (X39, `usage = "client"`). `silence_block_s` is when Messages puts empty text
    deltas in the place of pings (E7). `reasoning_keys` are the fields of Chat answers in which reasoning stands (CS13).
    """

    unseen_tokens: int = 0
    silence_block_s: float = SILENCE_BLOCK_S
    reasoning_keys: tuple[str, ...] = ("reasoning_content",)


DEFAULT_OPTIONS = WriterOptions()


class BrokenAnswerError(Exception):
    """The answer is none: a call was begun and its arguments never became an object (E4). `failed` is what the client is told."""

    def __init__(self) -> None:
        """Say it in the words that a client reads."""
        self.failed = Failed(ErrorKind.BROKEN_CALL, "the model's tool call ended before its arguments were complete")
        super().__init__(self.failed.message)


class CallOut:
    """A call as the client sees it: a plain name and its namespace, an id, and the arguments (for a custom tool: the raw text)."""

    __slots__ = ("custom", "event_index", "extra", "extra_sent", "id", "index", "name", "namespace", "sent", "text")

    def __init__(self, index: int, event_index: int, name: str, *, custom: bool, namespace: str | None, extra: str | None = None) -> None:
        """Number it within the answer; `name` as the model wrote it. RQ03: `ns.name` goes back as name and namespace. `extra` as in events."""
        self.index = index
        self.event_index = event_index
        self.id = ""
        self.name = name
        self.namespace = namespace
        self.custom = custom
        self.extra = extra
        self.extra_sent = False
        self.sent: list[str] = []
        self.text = ""
        if namespace is not None:
            self.name = name.removeprefix(f"{namespace}.")


class Writer(ABC):
    """One turn's answer in one protocol. Subclasses write the parts; this class decides when each begins and ends.

    `finish` and `fail` end it. `feed` and `finish` may raise BrokenAnswerError and nothing else; after it `fail` still works.
    """

    content_type = JSON_TYPE
    _custom_tools = True
    _namespaces = False
    _one_call = False

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Take the turn as it goes upstream."""
        self._turn = turn
        self._options = options
        self._special = {tool.name: tool for tool in turn.tools if tool.kind is ToolKind.CUSTOM or tool.namespace}
        created = turn.echo.get("created")
        self._created = created if isinstance(created, int) else 0
        self._shows_reasoning = turn.reasoning_wanted
        self._calls = 0
        self._open: CallOut | None = None
        self._size = 0
        self._out: list[bytes] = []
        self._over = False

    # --- the Encoder's doors --------------------------------------------------------------------------------------------------

    def feed(self, events: Sequence[Event]) -> bytes:
        """Whole wire events for these (pipeline.stage.Encoder)."""
        if self._over:
            return b""
        for event in events:
            if type(event) is TextDelta and self._open is None:
                if event.text:
                    self._size += len(event.text)
                    self._text(event.text)
            else:
                self._take(event)
        return self._flush()

    def finish(self, finish: Finish) -> bytes:
        """The end of the answer. Raises BrokenAnswerError when a begun call has no object for arguments."""
        if self._over:
            return b""
        self._settle()
        self._end(finish)
        self._over = True
        return self._flush()

    def fail(self, failed: Failed) -> bytes:
        """The protocol's error event."""
        if self._over:
            return b""
        self._over = True
        self._error(failed)
        return self._flush()

    def keep_alive(self, silence_s: float) -> bytes:  # noqa: ARG002 - only Messages looks at how long it was
        """A sign of life."""
        return b""

    # --- hooks ----------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _text(self, text: str) -> None: ...

    @abstractmethod
    def _reasoning(self, text: str) -> None: ...

    @abstractmethod
    def _begin(self, call: CallOut) -> None: ...

    @abstractmethod
    def _arguments(self, call: CallOut, text: str) -> None: ...

    @abstractmethod
    def _done(self, call: CallOut) -> None: ...

    @abstractmethod
    def _end(self, finish: Finish) -> None: ...

    @abstractmethod
    def _error(self, failed: Failed) -> None: ...

    # --- the parts ------------------------------------------------------------------------------------------------------------

    def _flush(self) -> bytes:
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def _take(self, event: Event) -> None:
        call = self._open
        if call is not None:
            if isinstance(event, ArgumentsDelta) and event.index == call.event_index:
                call.sent.append(event.text)
                # The text of a custom tool stands inside a JSON string: it can be told from the whole only.
                if event.text and not call.custom:
                    self._arguments(call, event.text)
                return
            if isinstance(event, CallDone) and event.index == call.event_index:
                call.extra = event.extra or call.extra
                self._complete(call, event.arguments)
                return
            if isinstance(event, BlockSeen | Dropped | Finish | Failed):
                return
            self._settle()
        if isinstance(event, TextDelta):
            if event.text:
                self._size += len(event.text)
                self._text(event.text)
        elif isinstance(event, ReasoningDelta):
            self._size += len(event.text)
            if event.text and self._shows_reasoning:
                self._reasoning(event.text)
        elif isinstance(event, CallDone):
            whole = self._call(event.index, event.name, event.kind, event.extra)
            if whole is not None:
                self._complete(whole, event.arguments)
        elif isinstance(event, CallBegun):
            self._call(event.index, event.name, ToolKind.FUNCTION, event.extra)

    def _settle(self) -> None:
        """End a call that was begun and never done: whole if its deltas made an object, else the answer is broken."""
        call = self._open
        if call is None:
            return
        sent = "".join(call.sent)
        if not sent.strip() or Arguments(sent).value() is None:
            raise BrokenAnswerError
        self._complete(call, sent)

    def _call(self, event_index: int, name: str, kind: ToolKind, extra: str | None) -> CallOut | None:
        if self._one_call and self._calls:
            return None
        tool = self._special.get(name)
        custom = self._custom_tools and (kind is ToolKind.CUSTOM or (tool is not None and tool.kind is ToolKind.CUSTOM))
        namespace = tool.namespace if self._namespaces and tool is not None else None
        call = CallOut(self._calls, event_index, name, custom=custom, namespace=namespace, extra=extra)
        self._calls += 1
        self._open = call
        self._begin(call)
        return call

    def _complete(self, call: CallOut, arguments: str) -> None:
        sent = "".join(call.sent)
        if not arguments or arguments.isspace():
            arguments = "{}"  # X34: never empty
        if call.custom:
            self._size += len(arguments)
            call.text = custom_input(arguments)
            if call.text:
                self._arguments(call, call.text)
        else:
            rest = arguments if not sent or sent.isspace() else arguments[len(sent) :] if arguments.startswith(sent) else ""
            if rest:
                self._arguments(call, rest)
            call.text = sent + rest
            self._size += len(call.text)
        self._done(call)
        self._open = None

    # --- the end --------------------------------------------------------------------------------------------------------------

    def _usage(self, finish: Finish) -> Usage:
        """The attempt's usage; an estimate where there is none, since the fields are mandatory (X42)."""
        if finish.usage is not None:
            return finish.usage
        return Usage(input_tokens=self._input_estimate(), output_tokens=max(1, -(-self._size // 4)), estimated=True)

    def _input_estimate(self) -> int:
        return max(1, count(self._turn) - self._options.unseen_tokens)

    def _reason(self, finish: Finish) -> FinishReason:
        """Calls decide: an agent loop goes on whenever there is a complete one (CN06, E-cut), and never without one."""
        if self._calls:
            return FinishReason.TOOL_CALLS
        return FinishReason.STOP if finish.reason is FinishReason.TOOL_CALLS else finish.reason


class TextPart:
    """A run of text or reasoning."""

    __slots__ = ("pieces", "reasoning")

    def __init__(self, *, reasoning: bool) -> None:
        """Begin empty."""
        self.reasoning = reasoning
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """The whole run."""
        return "".join(self.pieces)


class BodyWriter(Writer):
    """Collects the parts of an answer that goes out as one JSON body. Subclasses write `_body` and `_error`."""

    def __init__(self, turn: Turn, options: WriterOptions = DEFAULT_OPTIONS) -> None:
        """Begin without parts."""
        super().__init__(turn, options)
        self._parts: list[TextPart | CallOut] = []

    @abstractmethod
    def _body(self, finish: Finish) -> bytes: ...

    def _text(self, text: str) -> None:
        self._run(reasoning=False).pieces.append(text)

    def _reasoning(self, text: str) -> None:
        self._run(reasoning=True).pieces.append(text)

    def _run(self, *, reasoning: bool) -> TextPart:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, TextPart) and last.reasoning is reasoning:
            return last
        part = TextPart(reasoning=reasoning)
        self._parts.append(part)
        return part

    def _begin(self, call: CallOut) -> None:
        self._parts.append(call)

    def _arguments(self, call: CallOut, text: str) -> None:
        """Nothing to do: `call.text` holds them in the end."""

    def _done(self, call: CallOut) -> None:
        """Nothing to do."""

    def _end(self, finish: Finish) -> None:
        self._out.append(self._body(finish))


def custom_input(arguments: str) -> str:
    """The raw text for a custom tool, out of the object that stands for it: `{"input": TEXT}`.

    Models miss the key at times; a single text under another key is that text, anything else is handed on as the JSON it is.
    """
    value = Arguments(arguments).value()
    if value is None:
        return arguments
    if not value:
        return ""
    inner: object = value
    if CUSTOM_INPUT in value:
        inner = value[CUSTOM_INPUT]
    elif len(value) == 1:
        inner = next(iter(value.values()))
    return inner if isinstance(inner, str) else json_values.dumps(inner)

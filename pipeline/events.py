"""What comes back from an attempt, in the order the model wrote it.

Spans are (start, end) offsets, in characters, into the visible upstream text of the attempt (reasoning that arrives in its own
field has no span). The law: over an attempt, the spans of all events cut that text into text, call, reasoning, trimmed,
swallowed and cut, with no gap and no overlap. Hot objects: msgspec structs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.turn import ToolKind, Usage
from pipeline.verdicts import BlockOutcome, ErrorKind, FinishReason, Repair, SpanKind

Span = tuple[int, int]
NO_SPAN: Span = (0, 0)


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of visible text."""

    text: str
    span: Span = NO_SPAN


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the model's reasoning. A call inside is never run (S11)."""

    text: str
    span: Span = NO_SPAN


class CallBegun(msgspec.Struct, frozen=True, gc=False):
    """A call is committed before it is complete (E4, `stream_arguments`, or a native upstream). `index` counts calls from 0.

    `extra` is JSON text of what a native upstream hung on the call and wants back with it (U09), as far as it is known by now.
    """

    index: int
    name: str
    span: Span = NO_SPAN
    native: bool = False
    extra: str | None = None


class ArgumentsDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of JSON text of a begun call's arguments."""

    index: int
    text: str
    span: Span = NO_SPAN


class CallDone(msgspec.Struct, frozen=True, gc=False):
    """A complete call. `arguments` is JSON text of an object. After `CallBegun` it is the whole text that the deltas added up to.

    `extra` as in `CallBegun`.
    """

    index: int
    name: str
    arguments: str
    span: Span = NO_SPAN
    native: bool = False
    kind: ToolKind = ToolKind.FUNCTION
    extra: str | None = None


class BlockSeen(msgspec.Struct, frozen=True, gc=False):
    """A block was recognised; what became of it. Its text or calls come as events of their own.

    `fault` says in a few plain words what is wrong and `fault_at` where (offset into the attempt's text), for the retry message.
    `text` is the block as written where it was refused (bounded), else empty.
    """

    dialect: str
    outcome: BlockOutcome
    span: Span
    repairs: tuple[Repair, ...] = ()
    names: tuple[str, ...] = ()
    fault: str = ""
    fault_at: int = 0
    text: str = ""


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """Upstream text that reaches nobody, and why: trimmed white space, a swallowed spare closer, a cut invented result."""

    kind: SpanKind
    span: Span


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The attempt ended in order. `usage` is None where the upstream gave none.

    `stop_details` is what a Messages upstream said about a refusal (AN05).
    """

    reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    stop_sequence: str | None = None
    stop_details: Mapping[str, object] | None = None


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The attempt, or the turn, failed.

    `status` is the upstream's HTTP status where it had one. `message` is safe to show a client. `parameter` names the request
    field at fault; `dropped` the optional field an upstream refused, which can be left out on a second try (U06).
    """

    kind: ErrorKind
    message: str
    status: int | None = None
    parameter: str | None = None
    code: str | None = None
    retry_after: str | None = None
    retryable: bool = False
    dropped: str | None = None


End = Finish | Failed
Event = TextDelta | ReasoningDelta | CallBegun | ArgumentsDelta | CallDone | BlockSeen | Dropped | Finish | Failed

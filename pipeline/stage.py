"""What a stage is.

A request goes down the chain through `prepare`, in order; the answer of each attempt comes back through the receivers that
`open` made, in the same order, each feeding the next. `note` is a stage's only side channel: the driver binds it to a log
event and counters through one table, a test binds it to a list. Nothing in here knows a concrete stage.

Four rooms have a second door, found by its shape when the chain is built: the Requester (speaks to an upstream), the Judge
(may ask for another attempt) and the Encoding (writes what the client reads). Everything else is a plain Stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from pipeline.events import BlockSeen, CallDone, End, Event, Failed, Finish
from pipeline.settings import UpstreamTraits
from pipeline.turn import Correction, Turn
from pipeline.verdicts import Cause, DroppedParameter, Hold, RefusalKind, ReplacedContent, SkipReason, Verdict

Note = Callable[..., None]
"""`note(outcome: Noted, /, **small_fields)`, the outcome by position alone: enums, names from the configuration, counts. Never message text, arguments or keys."""


class StageError(Exception):
    """A stage's own named failure towards the client: the request cannot be served. Anything else a stage raises fails open."""

    def __init__(self, failed: Failed) -> None:
        """Carry what the client is told."""
        super().__init__(failed.message)
        self.failed = failed


class Receiver(Protocol):
    """One attempt's answer on its way through one stage."""

    def feed(self, event: Event) -> list[Event]:
        """Take one event that is no End, return those that go on."""

    def close(self, end: End) -> list[Event]:
        """Take the End; return what was still held back, then an End as the last one."""


@runtime_checkable
class Stage(Protocol):
    """A stage. `per_attempt` stages, and all behind the first of them, prepare anew for every attempt."""

    name: str
    per_attempt: bool

    def prepare(self, turn: Turn, note: Note) -> Turn:
        """Shape the request. Returning the same object means: changed nothing."""

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        """A receiver for the answer of one attempt, or None to stay out of its way."""


class UpstreamRequest(msgspec.Struct, frozen=True):
    """What goes over the wire to an upstream. `path` is below the upstream's base URL; authentication is the transport's.

    `dropped` and `replaced` are what of the client's request is not in it because this upstream does not take it: fields, and
    content (kind, count) for which a placeholder stands. The client is warned of them.
    """

    path: str
    body: bytes
    stream: bool
    headers: tuple[tuple[str, str], ...] = ()
    dropped: tuple[DroppedParameter, ...] = ()
    replaced: tuple[tuple[ReplacedContent, int], ...] = ()


class Reader(Protocol):
    """Bytes of one upstream answer in, events out. Never raises on any bytes."""

    @property
    def finishing(self) -> bool:
        """The model has stopped, but the upstream's own end (usage, `[DONE]`, end of the body) is still due.

        An upstream that leaves its connection open here gets a short grace (U03: 2 s); then `close` gives the Finish.
        """

    def feed(self, data: bytes) -> list[Event]:
        """Take what one read brought. The last event may be an End; after it nothing more comes."""

    def close(self) -> list[Event]:
        """The upstream's body ended: return what is left, with an End as the last event unless one came already."""


@runtime_checkable
class Requester(Protocol):
    """The stage that speaks to an upstream."""

    name: str

    def build(self, turn: Turn, traits: UpstreamTraits, without: frozenset[str]) -> UpstreamRequest:
        """The request for this upstream, leaving out the optional fields named in `without`.

        Raises StageError for what this upstream cannot be asked at all.
        """

    def read(self, turn: Turn, traits: UpstreamTraits, content_type: str, note: Note) -> Reader:
        """A reader for an answer with status 200."""

    def failure(self, traits: UpstreamTraits, status: int, headers: Mapping[str, str], body: bytes) -> Failed:
        """What an answer with another status means."""


class Outcome(msgspec.Struct, frozen=True):
    """What one attempt came to, for the judge. `text` is all visible text, `released` whether any of it reached the client."""

    attempt: int
    text: str
    calls: tuple[CallDone, ...]
    blocks: tuple[BlockSeen, ...]
    end: End
    reasoned: bool = False
    released: bool = False
    retries_left: int = 0
    seconds_left: float = 0.0


class Retry(msgspec.Struct, frozen=True):
    """Ask again. `verdict` is what the discarded attempt counts as, `delivered` what it counts as if it is delivered after all (R7, R9).

    `hit` is the refusal that was found in the answer: kind, language, phrase id.
    """

    cause: Cause
    correction: Correction
    verdict: Verdict
    delivered: Verdict | None = None
    hit: tuple[RefusalKind, str, str] | None = None


class Accept(msgspec.Struct, frozen=True):
    """Deliver. `wanted` and `skipped` say which retry was due and why it did not happen.

    `came` is what the answer was where a demand that it did not meet made another verdict of it (R9); `hit` as in `Retry`.
    """

    verdict: Verdict
    wanted: Cause | None = None
    skipped: SkipReason | None = None
    came: Verdict | None = None
    hit: tuple[RefusalKind, str, str] | None = None


class Watch(Protocol):
    """Reads an attempt's events as they come and says how long they must stay held (R6)."""

    def feed(self, event: Event) -> Hold:
        """Answer for all events so far. After RELEASE or REFUSE it is not asked again."""

    @property
    def hit(self) -> tuple[RefusalKind, str, str] | None:
        """The refusal found: kind, language, phrase id."""


@runtime_checkable
class Judge(Protocol):
    """The stage that may ask for another attempt. Pure: the engine acts, and it alone owns the hold."""

    name: str

    def watch(self, turn: Turn, note: Note) -> Watch:
        """A watch for one attempt."""

    def judge(self, turn: Turn, outcome: Outcome, note: Note) -> Retry | Accept:
        """Accept the attempt or ask again."""


class Encoder(Protocol):
    """One turn's answer as the client reads it. Lives over all attempts; events of discarded attempts never reach it.

    It keeps what it was fed even where that made no bytes yet. `stopped` turns true when nothing more is wanted (a stop sequence, E10):
    abort the attempt and finish. `calls_written` counts the calls that went to the client.
    """

    content_type: str

    @property
    def stopped(self) -> bool:
        """Whether a stop sequence of the client's ended the answer."""

    @property
    def calls_written(self) -> int:
        """Calls begun or written whole so far."""

    def feed(self, events: Sequence[Event]) -> bytes:
        """Whole wire events for these, to be sent in one write; empty while nothing is due (always, when not streaming)."""

    def finish(self, finish: Finish) -> bytes:
        """The end of the stream, or the whole body when not streaming.

        Raises StageError when there is no answer to end: a call was begun and never became whole (E4). Then `fail` is due.
        """

    def fail(self, failed: Failed) -> bytes:
        """The protocol's error event for a stream whose headers are out."""

    def keep_alive(self, silence_s: float) -> bytes:
        """A sign of life after so many seconds without content; empty when not streaming."""


@runtime_checkable
class Encoding(Protocol):
    """The stage that writes what the client reads."""

    name: str

    def encode(self, turn: Turn, note: Note) -> Encoder:
        """An encoder for this turn."""

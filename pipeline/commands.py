"""What passes between the engine and its driver.

In: happenings, things that occurred on a socket or a clock. Out: commands, things to do. All plain values; times are the driver's
monotonic seconds. The driver carries commands out in order and in full before it hands in the next happening.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.stage import UpstreamRequest
from pipeline.turn import Usage
from pipeline.verdicts import Api, Cause, EmulationReason, ErrorKind, FinishReason, HistoryState, SkipReason, Tier, UpstreamOutcome, Verdict

# --- happenings ---------------------------------------------------------------------------------------------------------------


class Opened(msgspec.Struct, frozen=True):
    """An upstream answered with a status line and headers (lower-case names)."""

    attempt: int
    status: int
    headers: Mapping[str, str]


class Received(msgspec.Struct, frozen=True, gc=False):
    """One read of an upstream's body."""

    attempt: int
    data: bytes


class Ended(msgspec.Struct, frozen=True):
    """An upstream's body ended in order (its last chunk, or its full length)."""

    attempt: int


class Lost(msgspec.Struct, frozen=True):
    """An upstream request failed on the wire. `outcome` is CONNECT or CUT."""

    attempt: int
    outcome: UpstreamOutcome


class Tick(msgspec.Struct, frozen=True):
    """The time asked for by `Wait` has come."""


class ClientGone(msgspec.Struct, frozen=True):
    """The client closed its connection, or does not read any more."""


class Draining(msgspec.Struct, frozen=True):
    """The process must end now: close this turn with the protocol's error."""


Happening = Opened | Received | Ended | Lost | Tick | ClientGone | Draining

# --- commands -----------------------------------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Start an upstream request. Every one has a number and a cause, so attempts add up."""

    attempt: int
    target: str
    cause: Cause
    request: UpstreamRequest


class Abort(msgspec.Struct, frozen=True):
    """Close an upstream request at once."""

    attempt: int


class Head(msgspec.Struct, frozen=True):
    """Begin the client's response. Comes once, before the first Emit. `stream` False: one Emit with the whole body follows."""

    status: int
    headers: tuple[tuple[str, str], ...]
    stream: bool


class Emit(msgspec.Struct, frozen=True, gc=False):
    """Whole wire events for the client, to be sent in one write."""

    data: bytes


class Wait(msgspec.Struct, frozen=True):
    """Send a Tick at this time. Replaces the Wait before it."""

    until: float


class Learn(msgspec.Struct, frozen=True):
    """Leave this optional request field out from now on: this upstream refuses it (U06)."""

    target: str
    parameter: str


class Done(msgspec.Struct, frozen=True):
    """The turn is over. `clean` False: close the client's connection without its final chunk (E8)."""

    clean: bool


Command = Send | Abort | Head | Emit | Wait | Learn | Done

# --- the record ---------------------------------------------------------------------------------------------------------------


class TurnRecord(msgspec.Struct):
    """The canonical line of one turn as the engine knows it. Enums, counts and names from the configuration only. Times in seconds.

    `calls` and `native_calls` went to the client; `calls_dropped` were made beside the one that the client wanted (R8).
    """

    api: Api
    read: bool = False
    """Whether the request was read: before that, what is said about its tools and its history means nothing."""
    stream: bool = False
    verdict: Verdict | None = None
    status: int = 0
    error: ErrorKind | None = None
    finish: FinishReason | None = None
    passed_through: bool = False
    emulated: bool = False
    emulation_reason: EmulationReason = EmulationReason.NO_TOOLS
    dialect: str | None = None
    tier: Tier | None = None
    contract_bytes: int = 0
    tools_offered: int = 0
    tools_rebuilt: bool = False
    tool_choice: str = "auto"
    history: bool = False
    state: HistoryState | None = None
    attempts: int = 0
    causes: list[Cause] = []
    attempt_verdicts: list[Verdict] = []
    targets: list[str] = []
    retry_skipped: SkipReason | None = None
    refusal: str | None = None
    refusal_kind: str | None = None
    blocks: dict[str, int] = {}
    repairs: dict[str, int] = {}
    history_repairs: int = 0
    calls: int = 0
    native_calls: int = 0
    calls_dropped: int = 0
    text_chars: int = 0
    started: float = 0.0
    first_upstream_byte: float | None = None
    first_client_byte: float | None = None
    first_content: float | None = None
    held_s: float = 0.0
    ended: float = 0.0
    usage: Usage | None = None
    warnings: int = 0
    client_gone: bool = False

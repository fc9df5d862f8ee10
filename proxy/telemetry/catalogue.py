"""Every metric the process exports: name, kind, help, labels, buckets. Data alone.

Labels take their values from `DOMAINS`: enums, or names that stand in the configuration (`models`, `upstreams`, `dialects`, `stages`).
Nothing a client sends is ever a label value; what is not known counts as `other`. Dashboards, rules and tests read this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from pipeline.verdicts import (
    Api,
    BlockOutcome,
    Cause,
    EmulationReason,
    HistoryRepair,
    Invariant,
    Noted,
    RefusalKind,
    Repair,
    RetryResult,
    SkipReason,
    UpstreamOutcome,
    Verdict,
)

PREFIX = "toolgraft_"
OTHER = "other"


class Phase(StrEnum):
    """Where a turn stood when its client left."""

    BEFORE_UPSTREAM = "before_upstream"
    BEFORE_FIRST_BYTE = "before_first_byte"
    MID_STREAM = "mid_stream"


class Reject(StrEnum):
    """Why a request was not let in."""

    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    DRAINING = "draining"


class TokenType(StrEnum):
    """Which tokens."""

    INPUT = "input"
    OUTPUT = "output"
    REASONING = "reasoning"


Kind = Literal["counter", "gauge", "histogram"]

SECONDS = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
SHORT_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
HELD_SECONDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0, 120.0)
BYTES = (1024.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 98304.0, 262144.0)
GEN_AI_SECONDS = (0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 81.92, 300.0, 600.0)
GEN_AI_TOKENS = tuple(float(4**power) for power in range(14))
FIRST_TOKEN_SECONDS = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metric(msgspec.Struct, frozen=True):
    """One metric. `name` is full; a counter's sample adds `_total`, which the name here leaves out. `domains` overrides a label's values."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    domains: Mapping[str, str] = {}

    @property
    def sample(self) -> str:
        """The name as it stands in a query for the value (a histogram's count for histograms)."""
        return {"counter": f"{self.name}_total", "gauge": self.name, "histogram": f"{self.name}_count"}[self.kind]

    def domain(self, label: str) -> str:
        """The name of the domain that this label's values come from."""
        return self.domains.get(label, label)


def _counter(name: str, text: str, *labels: str, **domains: str) -> Metric:
    return Metric(PREFIX + name, "counter", text, labels, (), domains)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "gauge", text, labels)


def _histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Metric:
    return Metric(PREFIX + name, "histogram", text, labels, tuple(buckets))


GEN_AI_OPERATION = "chat"
GEN_AI_PROVIDER = "toolgraft"
"""Who answers, as the convention asks of what a server measures itself. What the upstream is stands in `toolgraft_upstream_requests`."""
_GEN_AI_LABELS = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_GEN_AI_DOMAINS = dict(zip(_GEN_AI_LABELS, ("gen_ai_operation", "gen_ai_provider", "model"), strict=True))

CATALOGUE: tuple[Metric, ...] = (
    # edge
    _counter("requests", "Requests answered, by protocol and status code.", "api", "code"),
    _gauge("requests_in_flight", "Turns that were started and not yet concluded.", "api"),
    _histogram("request_seconds", "Time from the request's first byte read to the last byte of its answer.", SECONDS, "api", "stream"),
    _histogram("first_byte_seconds", "Time from the request to the first byte of its answer.", SECONDS, "api", "stream"),
    _histogram(
        "overhead_seconds", "Time spent in this process: the whole turn minus waiting for upstream and client.", SHORT_SECONDS, "api"
    ),
    _histogram(
        "overhead_excess_seconds",
        "Overhead beyond what the length of the upstream's answer explains: 1 ms for each piece read of it.",
        SHORT_SECONDS,
    ),
    _histogram("held_seconds", "How long text of a stream was withheld before it was released or became a call.", HELD_SECONDS, "dialect"),
    _counter("upstream_requests", "Requests to an upstream, by how they ended.", "upstream", "outcome"),
    _histogram("upstream_first_byte_seconds", "Time to the first byte of an upstream's answer.", SECONDS, "upstream"),
    _counter("disconnects", "Clients that left before their answer was complete.", "phase"),
    _counter("tokens", "Tokens of winning attempts as the upstream counted them, estimates where it did not.", "model", "type"),
    _histogram("contract_bytes", "Size of the contract put into the prompt.", BYTES, "model"),
    _counter("auth_failures", "Requests without a valid client key."),
    _counter("admission_rejects", "Requests turned away before they became work.", "why"),
    _gauge("admission_limit", "How many turns may run at once; 0 means no limit."),
    # turns
    _counter("turns_started", "Turns started.", "api"),
    _counter("turns", "Turns concluded, each with exactly one verdict.", "model", "verdict"),
    _counter("emulation", "Turns by why they are emulated, or why they are not.", "reason"),
    _counter("calls", "Calls delivered to clients: parsed from text, or native.", "model", "origin"),
    _counter("attempts", "Requests sent upstream, by cause.", "model", "cause"),
    _counter("attempt_verdicts", "Attempts concluded, each with exactly one verdict.", "model", "verdict"),
    _counter("first_attempt_verdicts", "First attempts of emulated turns, by verdict.", "model", "verdict"),
    _counter("refusals", "Refusals recognised.", "kind", "lang", "action", kind="refusal_kind"),
    _counter("retries", "Retries, by cause and by what they brought.", "cause", "result"),
    _counter("retry_skips", "Retries that were due and did not happen.", "why", why="skip"),
    _counter("blocks", "Blocks seen, by what became of them.", "dialect", "result", result="block"),
    _counter("repairs", "Repairs of blocks.", "dialect", "kind", kind="repair"),
    _counter("marker_text", "Answers whose delivered text holds a dialect marker outside code.", "dialect"),
    _counter("history_repairs", "Repairs of the client's history.", "kind", kind="history_repair"),
    _counter("events", "What stages said, by event: one count for every possible log line.", "event"),
    _histogram("stage_seconds", "Time of a stage's request side.", SHORT_SECONDS, "stage"),
    _counter("stage_errors", "Failures inside a stage: open means that the turn went on without it.", "stage", "mode"),
    _counter("invariant_violations", "Broken promises of the state machine.", "invariant"),
    # process
    _histogram("loop_lag_seconds", "How late a 100 ms ticker of the event loop ran.", SHORT_SECONDS),
    _counter("log_lines_dropped", "Log lines dropped because nobody read standard output."),
    _counter("telemetry_errors", "Notes that the telemetry table could not book."),
    _counter("unexpected", "Exceptions of this program where none was expected."),
    _counter("config_reloads", "Reloads of the configuration.", "result", result="reload"),
    _gauge("draining", "1 while the process drains."),
    # the conventions of OpenTelemetry for generative AI, so that stock dashboards work
    Metric(
        "gen_ai_client_token_usage",
        "histogram",
        "Tokens per turn (OpenTelemetry convention).",
        (*_GEN_AI_LABELS, "gen_ai_token_type"),
        GEN_AI_TOKENS,
        {**_GEN_AI_DOMAINS, "gen_ai_token_type": "gen_ai_token"},
    ),
    Metric(
        "gen_ai_server_request_duration_seconds",
        "histogram",
        "Duration of a turn (OpenTelemetry convention).",
        _GEN_AI_LABELS,
        GEN_AI_SECONDS,
        _GEN_AI_DOMAINS,
    ),
    Metric(
        "gen_ai_server_time_to_first_token_seconds",
        "histogram",
        "Time to the first content (OpenTelemetry convention).",
        _GEN_AI_LABELS,
        FIRST_TOKEN_SECONDS,
        _GEN_AI_DOMAINS,
    ),
)

CODES: tuple[str, ...] = tuple(
    str(code) for code in (200, 400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 417, 422, 429, 499, 500, 502, 503, 504, 529)
)
LANGUAGES = ("en", "zh", "ja", "es", "fr", "de", "ru")


class Names(msgspec.Struct, frozen=True):
    """The names of one configuration that may be label values. `models` are route labels, never what a client wrote."""

    models: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ("json_action", "dsml")
    stages: tuple[str, ...] = ()


def domains(names: Names) -> dict[str, tuple[str, ...]]:
    """Every value each domain can take. Open domains end with `other`."""
    return {
        "api": (*Api, OTHER),
        "stream": ("true", "false"),
        "code": (*CODES, "4xx", "5xx", OTHER),
        "model": _open(names.models),
        "upstream": _open(names.upstreams),
        "dialect": _open(names.dialects),
        "stage": _open((*names.stages, "engine")),
        "verdict": tuple(Verdict),
        "cause": tuple(Cause),
        "outcome": tuple(UpstreamOutcome),
        "phase": tuple(Phase),
        "why": tuple(Reject),
        "skip": tuple(SkipReason),
        "type": tuple(TokenType),
        "gen_ai_operation": (GEN_AI_OPERATION,),
        "gen_ai_provider": (GEN_AI_PROVIDER,),
        "gen_ai_token": ("input", "output"),
        "reason": tuple(EmulationReason),
        "origin": ("text", "native"),
        "refusal_kind": tuple(RefusalKind),
        "lang": _open(LANGUAGES),
        "action": ("retried", "delivered"),
        "result": tuple(RetryResult),
        "block": tuple(BlockOutcome),
        "repair": tuple(Repair),
        "history_repair": tuple(HistoryRepair),
        "event": tuple(Noted),
        "mode": ("open", "closed"),
        "invariant": tuple(Invariant),
        "reload": ("ok", "failed"),
    }


def _open(names: Sequence[str]) -> tuple[str, ...]:
    return (*(name for name in dict.fromkeys(names) if name != OTHER), OTHER)


def code_label(status: int) -> str:
    """A status as a label value: itself where it is usual, else its class, so that an upstream cannot make series."""
    code = str(status)
    if code in CODES:
        return code
    return {4: "4xx", 5: "5xx"}.get(status // 100, OTHER)

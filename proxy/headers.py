"""Which headers count: request ids, trace context, and what goes on in either direction. Allow-lists, never copies.

In: the client's or an upstream's headers. Out: values checked for form. Promise: nothing a peer sent is repeated unless its form is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from pipeline.verdicts import Api

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")
_RATE_LIMITS = ("x-ratelimit-", "anthropic-ratelimit-")
_RETRY = ("retry-after", "retry-after-ms", "x-should-retry")
_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
_VALUE = re.compile(r"[\x20-\x7e]{1,200}\Z")

PROTOCOL_HEADERS = ("anthropic-version", "anthropic-beta")
"""Request headers that a protocol reads; a turn gets these and no others."""
SSE_HEADERS = (("cache-control", "no-cache"), ("x-accel-buffering", "no"))
"""What a stream needs besides its content type (X01)."""


def request_id(given: str | None) -> str:
    """The client's request id where it is short and plain, else a new one."""
    if given is not None and _REQUEST_ID.match(given):
        return given
    return "req_" + os.urandom(12).hex()


class Trace(msgspec.Struct, frozen=True):
    """The trace a turn belongs to. `flags` are the caller's, `00` (not sampled) for a trace that begins here."""

    trace_id: str
    flags: str = "00"

    def child(self) -> str:
        """A traceparent for a request upstream, with a parent id of its own."""
        return f"00-{self.trace_id}-{os.urandom(8).hex()}-{self.flags}"


def trace(given: str | None) -> Trace:
    """The caller's W3C trace where its header is exactly of the known form, else a new one."""
    found = _TRACEPARENT.match(given) if given is not None else None
    if found is not None and found[1].strip("0") and found[2].strip("0"):
        return Trace(found[1], found[3])
    return Trace(os.urandom(16).hex())


def protocol_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's headers that a protocol reads, lower-case names; without those that could not be sent on (bytes that are no ASCII)."""
    return {name: headers[name] for name in PROTOCOL_HEADERS if name in headers and _PLAIN.match(headers[name])}


def id_headers(rid: str) -> tuple[tuple[str, str], ...]:
    """On every response, under both names that SDKs read (X13)."""
    return (("x-request-id", rid), ("request-id", rid))


def passed_on(upstream: Mapping[str, str], status: int) -> list[tuple[str, str]]:
    """An upstream's headers that a client may use (X17, X18): rate limits always; with an error, when to come back and whether at all."""
    return [
        (name, value)
        for name, value in upstream.items()
        if (name.startswith(_RATE_LIMITS) or (status >= 400 and name in _RETRY)) and _VALUE.match(value)
    ]


def processing_ms(api: Api, seconds: float) -> tuple[tuple[str, str], ...]:
    """How long an answer took to begin, as the OpenAI APIs say it (X18)."""
    return () if api is Api.ANTHROPIC_MESSAGES else (("openai-processing-ms", str(max(0, round(seconds * 1000)))),)

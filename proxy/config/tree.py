"""The configuration as one documented tree of frozen values.

Each key says what it means where its default stands; `docs/configuration.md` is generated from here. Units stand in the names: `_s` seconds,
`_bytes` bytes, `_chars` characters. Secrets are never values: they are named (`key_env`, `key_file`) and read by `proxy/config/secrets.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pipeline.chain import DEFAULT_STAGES
from pipeline.settings import Settings, UpstreamTraits


def _at_least(low: float, text: str) -> Meta:
    return Meta(ge=low, description=text)


def _doc(text: str) -> Meta:
    return Meta(description=text)


Port = Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 takes a free one.")]


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where clients connect."""

    host: Annotated[str, _doc("Address to bind. Anything but loopback needs client keys, or `auth.allow_open = true`.")] = "127.0.0.1"
    port: Port = 8790
    base_path: Annotated[str, _doc("Path prefix for serving below a sub-path, such as `/llm`.")] = ""
    per_worker_ports: Annotated[
        bool, _doc("With several workers: worker N listens on `port` + N, for nginx in front. Else they share `port` (SO_REUSEPORT).")
    ] = False
    keepalive_s: Annotated[float, _at_least(1, "Idle time of a client connection between requests.")] = 75.0
    backlog: Annotated[int, _at_least(1, "Connections the kernel holds until they are accepted.")] = 1024


class Admin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where operators look: `/metrics`, `/healthz`, `/readyz`. Never on the public port."""

    enabled: Annotated[bool, _doc("Open the admin listener.")] = True
    host: Annotated[str, _doc("Address to bind.")] = "127.0.0.1"
    port: Port = 9790


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the process ends."""

    lame_duck_s: Annotated[
        float, _at_least(0, "After SIGTERM: not ready any more, still accepting, every response says `Connection: close`.")
    ] = 3.0
    timeout_s: Annotated[float, _at_least(0, "Then: how long running turns may finish before they get the protocol's error.")] = 30.0


class Upstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream chat API. Its traits stand in the same table."""

    url: Annotated[str, _doc("Base URL; without a path, `/v1` is meant. No user or password in it: see `key_env`.")]
    key_env: Annotated[str | None, _doc("Environment variable with the upstream's key. Without a key the client's own is passed on.")] = (
        None
    )
    key_file: Annotated[str | None, _doc("File with the upstream's key.")] = None
    key_header: Annotated[
        Literal["auto", "bearer", "x-api-key", "api-key"], _doc("Header for the key; `auto` follows the upstream's protocol.")
    ] = "auto"
    proxy: Annotated[str | None, _doc("Egress proxy URL.")] = None
    ca_file: Annotated[str | None, _doc("PEM bundle of certificate authorities for this upstream.")] = None
    connect_s: Annotated[float, Meta(gt=0, description="Time for the connection to be made.")] = 5.0
    traits: UpstreamTraits = UpstreamTraits()


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which models go where, and how. Any key of the route settings may stand in the same table and goes before the defaults."""

    model: Annotated[str, _doc("Glob over the model name a client asks for; the first route that fits is taken.")] = "*"
    upstreams: Annotated[tuple[str, ...], _doc("Upstream names in failover order; empty means all, as they stand in the file.")] = ()
    rewrite: Annotated[str | None, _doc("Model name sent upstream; a `*` in it is what the glob's first `*` matched.")] = None
    settings: Settings = Settings()


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one process takes on."""

    max_concurrency: Annotated[
        int, _at_least(0, "Turns running at once; 0 means no limit. A body above 1 MiB is read once its turn has a place.")
    ] = 2000
    max_queue: Annotated[int, _at_least(0, "Turns waiting for a place; more get 429 with Retry-After.")] = 200
    queue_s: Annotated[float, _at_least(0, "Longest wait for a place; then 503 with Retry-After.")] = 10.0
    retry_after_s: Annotated[int, _at_least(1, "Retry-After of requests turned away.")] = 5
    max_body_bytes: Annotated[int, _at_least(1, "Request body, before and after decompression.")] = 32 << 20
    header_s: Annotated[float, Meta(gt=0, description="Time for the head of a request to arrive; then the connection is closed.")] = 15.0
    body_s: Annotated[float, Meta(gt=0, description="Time for the request body to arrive.")] = 60.0
    max_depth: Annotated[int, Meta(ge=1, le=250, description="Nesting of the request's JSON.")] = 100
    max_messages: Annotated[int, _at_least(1, "Messages (or input items) in a request.")] = 100_000
    max_tools: Annotated[int, _at_least(0, "Tools in a request.")] = 2000
    write_stall_s: Annotated[float, Meta(gt=0, description="How long a client may leave its answer unread before it is cut.")] = 60.0


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may ask. Without client keys everybody who reaches the port may."""

    keys_env: Annotated[str | None, _doc("Environment variable with the client keys, separated by commas or white space.")] = None
    keys_file: Annotated[str | None, _doc("File with one client key a line; `#` begins a comment.")] = None
    allow_open: Annotated[bool, _doc("Allow binding to other addresses than loopback without client keys.")] = False


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON lines on standard output: one `turn` line a turn, and what stages did."""

    stages: Annotated[Literal["all", "changes", "none"], _doc("Stage events: every one, those that changed something, or none.")] = (
        "changes"
    )
    sample: Annotated[float, Meta(ge=0, le=1, description="Share of unremarkable turns that are logged; failures always are.")] = 1.0
    buffer_bytes: Annotated[int, _at_least(1024, "Lines waiting for a slow reader; beyond it they are dropped and counted.")] = 4 << 20


class Capture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Copies of whole turns, prompts included, for replay. Off unless a folder is named."""

    dir: Annotated[str | None, _doc("Folder for captured turns, one 0600 file each; empty is off.")] = None
    sample: Annotated[float, Meta(ge=0, le=1, description="Share of turns captured.")] = 1.0
    max_turn_bytes: Annotated[int, _at_least(1024, "Size bound of one captured turn.")] = 8 << 20
    max_total_bytes: Annotated[int, _at_least(1024, "Size bound of the folder; the oldest files go first.")] = 512 << 20


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole configuration."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    workers: Annotated[
        int,
        Meta(ge=1, le=512, description="Worker processes, with a supervisor from two on. Worker N has the admin port `admin.port` + N."),
    ] = 1
    drain: Drain = Drain()
    stages: Annotated[tuple[str, ...], _doc("The chain: which stages, in which order.")] = DEFAULT_STAGES
    upstreams: dict[str, Upstream] = {}
    routes: tuple[Route, ...] = ()
    settings: Settings = Settings()
    limits: Limits = Limits()
    auth: Auth = Auth()
    log: Log = Log()
    capture: Capture = Capture()


GROUPS: dict[str, tuple[str, ...]] = {
    "retry": ("max_retries", "turn_deadline_s", "hold_chars", "hold_s", "required_unmet", "retry_announcements"),
    "contract": ("contract", "example_turns", "neutral_contract", "contract_max_bytes", "tools_from_history"),
    "sieve": ("dialects", "tolerance", "unknown_tools", "stream_arguments", "text_before_call", "max_block_bytes", "max_tag_chars"),
}
"""Tables in which the defaults of route settings stand; every other one stands in `[defaults]`, which takes them all."""
DEFAULTS = "defaults"

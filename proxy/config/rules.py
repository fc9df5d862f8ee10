"""What a configuration must hold to beyond its types: names that refer to something, addresses that may be bound, secrets that exist."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points

from pipeline.chain import REQUIRED_STAGES, stage_entry_points
from pipeline.settings import Settings
from pipeline.verdicts import Api
from proxy.config.secrets import SecretError, client_keys, upstream_config
from proxy.config.tree import Config

DIALECT_GROUP = "toolgraft.dialects"


def problems_of(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Every broken rule, one line each."""
    return [
        *_upstream_problems(config, environ),
        *_route_problems(config),
        *_stage_problems(config),
        *_access_problems(config, environ),
        *_port_problems(config),
    ]


def _upstream_problems(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    if not config.upstreams:
        yield "upstreams: at least one [upstreams.NAME] with a url is needed"
    for name, upstream in config.upstreams.items():
        try:
            upstream_config(name, upstream, environ)
        except ValueError as exc:
            yield f"upstreams.{name}.{exc}"
        if upstream.ca_file is not None:
            try:
                ssl.create_default_context(cafile=upstream.ca_file)
            except OSError as exc:  # ssl's own errors are OSErrors
                yield f"upstreams.{name}.ca_file = {upstream.ca_file!r}: is no PEM bundle that can be read: {exc.strerror or type(exc).__name__}"
        if upstream.traits.protocol is Api.OPENAI_RESPONSES:
            yield f"upstreams.{name}.protocol = 'openai_responses': expected one of openai_chat, anthropic_messages"


def _route_problems(config: Config) -> Iterator[str]:
    yield from _settings_problems(config.settings, "defaults")
    for at, route in enumerate(config.routes):
        if not route.model:
            yield f"routes[{at}].model = '': expected a glob such as 'qwen*'"
        for name in route.upstreams:
            if name not in config.upstreams:
                yield f"routes[{at}].upstreams: unknown upstream {name!r}; known: {', '.join(config.upstreams)}"
        yield from _settings_problems(route.settings, f"routes[{at}]", config.settings)


def _settings_problems(settings: Settings, where: str, said: Settings | None = None) -> Iterator[str]:
    """Faults of one set of settings, without those that its defaults (`said`) have too."""
    known = known_dialects()
    if settings.contract not in known and (said is None or settings.contract != said.contract):
        yield f"{where}.contract = {settings.contract!r}: unknown dialect; known: {', '.join(known)}"
    for name in settings.dialects:
        if name not in known and (said is None or settings.dialects != said.dialects):
            yield f"{where}.dialects: unknown dialect {name!r}; known: {', '.join(known)}"
    if settings.example_turns > 3 and (said is None or settings.example_turns != said.example_turns):
        yield f"{where}.example_turns = {settings.example_turns}: expected a whole number from 0 to 3"


def _stage_problems(config: Config) -> Iterator[str]:
    known = stage_entry_points()
    for name in config.stages:
        if name not in known:
            yield f"stages: unknown stage {name!r}; known: {', '.join(sorted(known))}"
        elif config.stages.count(name) > 1:
            yield f"stages: {name!r} stands twice in the list"
    for name in REQUIRED_STAGES:
        if name not in config.stages:
            yield f"stages: {name!r} cannot be left out"


def _access_problems(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    keys: tuple[str, ...] = ()
    try:
        keys = client_keys(config.auth, environ)
    except SecretError as exc:
        yield f"auth.{exc}"
        return
    # U-B: an open relay on a public address spends somebody's money
    if not is_loopback(config.listen.host) and not keys and not config.auth.allow_open:
        yield (
            f"listen.host = {config.listen.host!r}: refused without client keys; set auth.keys_env or auth.keys_file, "
            "or auth.allow_open = true to serve everybody who reaches the port"
        )
    path = config.listen.base_path
    if path and (not path.startswith("/") or path.endswith("/") or any(mark in path for mark in "?#% ")):
        yield f"listen.base_path = {path!r}: expected a path such as '/llm', without a slash at its end"


def _port_problems(config: Config) -> Iterator[str]:
    """Workers count ports up from the first."""
    listen, admin = config.listen, config.admin
    public = range(listen.port, listen.port + (config.workers if listen.per_worker_ports else 1)) if listen.port else range(0)
    operators = range(admin.port, admin.port + config.workers) if admin.port and admin.enabled else range(0)
    for key, ports in (("listen.port", public), ("admin.port", operators)):
        if ports and ports[-1] > 65535:
            yield f"{key} = {ports[0]}: {config.workers} workers need the ports up to {ports[-1]}; expected one that leaves room below 65536"
    if listen.host == admin.host and set(public) & set(operators):
        if config.workers == 1:
            yield f"admin.port = {admin.port}: is the public port; expected another one"
        else:
            yield (
                f"admin.port = {admin.port}: the admin ports {_span(operators)} of {config.workers} workers meet the public ports "
                f"{_span(public)}; expected others"
            )


def _span(ports: range) -> str:
    return f"{ports[0]} to {ports[-1]}" if len(ports) > 1 else str(ports[0])


def is_loopback(host: str) -> bool:
    """Whether this address can only be reached from the machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_dialects() -> list[str]:
    """Every dialect that is installed, by name."""
    return sorted({entry.name for entry in entry_points(group=DIALECT_GROUP)})

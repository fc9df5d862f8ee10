"""Today's routes for a replay: from a configuration whose secrets need not be there, or the defaults with the capture's own upstreams.

Raises ConfigError, and ChainError for stages that cannot be built.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pipeline.settings import UpstreamTraits
from pipeline.verdicts import Api
from proxy.config import Config, ConfigError
from proxy.config.read import build
from proxy.replay.captured import Captured
from proxy.replay.run import Plans
from proxy.routing import Plan, build_chain

_NOT_REPLAYED = ("listen", "admin", "auth", "capture", "workers")
_SECRETS = ("key_env", "key_file", "ca_file")
_NOWHERE = "http://127.0.0.1:9"


def configured(path: Path, environ: Mapping[str, str]) -> tuple[Config, Plans]:
    """The routes of a configuration file. Where it listens and which keys it holds is no matter here. Raises ConfigError, ChainError."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError([f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}"]) from None
    keyed: set[str] = set()
    for name, table in (raw.get("upstreams") or {}).items():
        if isinstance(table, dict):
            if {"key_env", "key_file"} & set(table):
                keyed.add(name)
            for secret in _SECRETS:
                table.pop(secret, None)
    config = build({name: value for name, value in raw.items() if name not in _NOT_REPLAYED}, _for_replay(environ))
    return config, _plans(config, keyed)


def defaults(captured: Captured) -> tuple[Config, Plans]:
    """One route for every model, to the upstreams that this turn was sent to."""
    upstreams: dict[str, Any] = {
        one.upstream: {"url": _NOWHERE, "protocol": Api.ANTHROPIC_MESSAGES if one.path == "/messages" else Api.OPENAI_CHAT}
        for one in captured.attempts
    }
    config = build({"upstreams": upstreams or {"default": {"url": _NOWHERE}}}, {})
    return config, _plans(config, set())


def _plans(config: Config, keyed: set[str]) -> Plans:
    traits = {
        name: msgspec.structs.replace(upstream.traits, name=name, own_key=name in keyed) for name, upstream in config.upstreams.items()
    }
    return Plans([Plan(route, build_chain(config, route), _targets(traits, route.upstreams)) for route in config.routes])


def _targets(traits: Mapping[str, UpstreamTraits], names: tuple[str, ...]) -> tuple[UpstreamTraits, ...]:
    return tuple(traits[name] for name in names or traits)


def _for_replay(environ: Mapping[str, str]) -> dict[str, str]:
    left_out = tuple(f"TOOLGRAFT_{name.upper()}" for name in _NOT_REPLAYED)
    secrets = tuple(name.upper() for name in _SECRETS)
    return {name: value for name, value in environ.items() if not (name.upper().startswith(left_out) or name.upper().endswith(secrets))}

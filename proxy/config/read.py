"""Configuration text and environment in, a Config out.

Promise: faults are named with their key, their value and what is allowed, all of them at once: first what cannot be read, then, when all can,
what breaks a rule; nothing unknown passes. Environment variables
go before the file: `TOOLGRAFT_` and the path with `__` between its parts (`TOOLGRAFT_LISTEN__PORT`, `TOOLGRAFT_ROUTES__0__CONTRACT`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pipeline.settings import Settings
from proxy.config.allowed import allowed
from proxy.config.fields import FLAT, Key, keys, table_keys
from proxy.config.rules import problems_of
from proxy.config.tree import DEFAULTS, GROUPS, Config, Route, Upstream

ENV_PREFIX = "TOOLGRAFT_"
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_SETTINGS_TABLES = (DEFAULTS, *GROUPS)
_PLAIN_TABLES = tuple(name for name in keys(Config) if name not in ("settings", "upstreams", "routes", "workers", "stages"))
_TOP = (*_PLAIN_TABLES, *_SETTINGS_TABLES, "workers", "stages", "upstreams", "routes")


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` has one line for each fault."""

    def __init__(self, problems: list[str]) -> None:
        """Take the faults, in the order of the file."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Read a TOML file. Raises ConfigError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError([f"{path}: cannot be read: {getattr(exc, 'strerror', None) or 'not UTF-8'}"]) from None
    return loads(text, environ)


def loads(text: str, environ: Mapping[str, str]) -> Config:
    """Read TOML text. Raises ConfigError."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError([f"not TOML: {exc}"]) from None
    return build(raw, environ)


def from_upstream_url(url: str, environ: Mapping[str, str]) -> Config:
    """The configuration of `--upstream URL` alone: one upstream, one route for every model."""
    return build({"upstreams": {"default": {"url": url}}}, environ)


def build(raw: dict[str, Any], environ: Mapping[str, str]) -> Config:
    """Check and convert. Raises ConfigError with every problem."""
    problems: list[str] = []
    raw = _with_environment(raw, environ, problems)
    problems += [_unknown(name, "", _TOP) for name in raw if name not in _TOP]
    settings = _default_settings(raw, problems)
    whole = keys(Config)
    values: dict[str, Any] = {"settings": settings}
    for name in _PLAIN_TABLES:
        if name in raw:
            values[name] = _table(raw[name], whole[name].kind, name, problems)
    for name in ("workers", "stages"):
        if name in raw:
            values[name] = _value(raw[name], whole[name], name, problems)
    values["upstreams"] = _upstreams(raw.get("upstreams", {}), problems)
    values["routes"] = _routes(raw.get("routes", []), settings, problems)
    if problems:
        raise ConfigError(problems)
    config = Config(**values)
    if not config.routes:
        config = msgspec.structs.replace(config, routes=(Route(settings=config.settings),))
    problems = problems_of(config, environ)
    if problems:
        raise ConfigError(problems)
    return config


def _default_settings(raw: Mapping[str, Any], problems: list[str]) -> Settings:
    """The defaults of all routes, gathered from their tables. A key may stand in one place only."""
    known = keys(Settings)
    values: dict[str, Any] = {}
    place: dict[str, str] = {}
    for table in _SETTINGS_TABLES:
        entries = raw.get(table, {})
        if not isinstance(entries, dict):
            problems.append(f"{table} = {entries!r}: expected a table")
            continue
        here = GROUPS.get(table, tuple(known))
        for name, value in entries.items():
            if name not in here:
                problems.append(_unknown(name, table, here))
            elif name in place:
                problems.append(f"{table}.{name}: stands in [{place[name]}] already")
            else:
                place[name] = table
                values[name] = _value(value, known[name], f"{table}.{name}", problems)
    return Settings(**values)


def _upstreams(raw: Any, problems: list[str]) -> dict[str, Upstream]:
    if not isinstance(raw, dict):
        problems.append("upstreams: expected tables [upstreams.NAME]")
        return {}
    found = {}
    for name, entries in raw.items():
        upstream = _table(entries, Upstream, f"upstreams.{name}", problems)
        if upstream is not None:
            found[name] = upstream
    return found


def _routes(raw: Any, defaults: Settings, problems: list[str]) -> tuple[Route, ...]:
    if not isinstance(raw, list):
        problems.append("routes: expected tables [[routes]]")
        return ()
    found = []
    for at, entries in enumerate(raw):
        route = _table(entries, Route, f"routes[{at}]", problems, defaults)
        if route is not None:
            found.append(route)
    return tuple(found)


def _table(raw: Any, struct: type[_Struct], where: str, problems: list[str], base: msgspec.Struct | None = None) -> _Struct | None:
    """One table into its struct; None, with problems added, where that cannot be. `base` are the defaults of what stands flat in it."""
    if not isinstance(raw, dict):
        problems.append(f"{where} = {raw!r}: expected a table")
        return None
    known = table_keys(struct)
    before = len(problems)
    values = {}
    for name, value in raw.items():
        if name in known:
            values[name] = _value(value, known[name], f"{where}.{name}", problems)
        else:
            problems.append(_unknown(name, where, tuple(known)))
    problems += [
        f"{where}.{key.name}: is missing; expected {allowed(key.kind)}" for key in known.values() if key.required and key.name not in raw
    ]
    if len(problems) > before:
        return None
    flat = FLAT.get(struct)
    if flat is not None:
        field, inner, _ = flat
        own = keys(struct)
        values = {name: value for name, value in values.items() if name in own} | {
            field: msgspec.structs.replace(base or inner(), **{name: value for name, value in values.items() if name not in own})
        }
    return struct(**values)


def _value(raw: Any, key: Key, where: str, problems: list[str]) -> Any:
    lax = isinstance(raw, _FromEnvironment)
    try:
        value = msgspec.convert(_parsed(raw) if lax else raw, key.kind, strict=not lax)
    except msgspec.ValidationError:
        problems.append(f"{where} = {_shown(raw)}: expected {allowed(key.kind)}")
        return None
    if isinstance(value, int | float) and not value >= 0:
        problems.append(f"{where} = {_shown(raw)}: expected {allowed(key.kind)}, not negative")
    elif isinstance(value, float) and value == inf:  # no wait of a service is for ever
        problems.append(f"{where} = {_shown(raw)}: expected {allowed(key.kind)}, and finite")
    return value


def _shown(value: Any) -> str:
    text = repr(str(value) if isinstance(value, _FromEnvironment) else value)
    return text if len(text) <= 100 else text[:97] + "..."


_HINTS = {"key": "secrets never stand in the configuration: use key_env or key_file", "keys": "use keys_env or keys_file"}


def _unknown(name: str, where: str, known: tuple[str, ...]) -> str:
    path = f"{where}.{name}" if where else name
    hint = f" ({_HINTS[name]})" if name in _HINTS else ""
    home = next((group for group, names in GROUPS.items() if name in names and group != where), None)
    if home is not None and where in GROUPS:
        hint = f" (it belongs into [{home}])"
    return f"{path}: unknown key{hint}; known: {', '.join(known)}"


# --- the environment ----------------------------------------------------------------------------------------------------------


class _FromEnvironment(str):
    """A value that came as text and is read as the key's type asks."""

    __slots__ = ()


def _parsed(text: str) -> Any:
    """TOML's reading of a list or table, else the text itself: numbers and booleans convert by the key's type."""
    if text[:1] in "[{":
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return str(text)
    return str(text)


def _with_environment(raw: dict[str, Any], environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """The file's tables with the overrides of the environment. Variables without `__` are ours only if a key of the top level has that name.

    (Kubernetes sets names such as TOOLGRAFT_PORT and TOOLGRAFT_SERVICE_HOST for a service called toolgraft.)
    """
    raw = dict(raw)
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX):
            continue
        path = variable.removeprefix(ENV_PREFIX).lower().split("__")
        if len(path) == 1 and path[0] not in ("workers", "stages"):
            continue
        if len(path) > 1 and path[0] not in _TOP:
            problems.append(f"{variable}: {_unknown(path[0], '', _TOP)}")
        elif not _put(raw, path, _FromEnvironment(text)):
            problems.append(f"{variable}: no such place in the configuration")
    return raw


def _put(tree: dict[str, Any], path: list[str], value: _FromEnvironment) -> bool:
    """Set a value deep in the tree, copying what is on the way. Names that stand in the tree match without regard to case."""
    name = next((name for name in tree if name.lower() == path[0]), path[0])
    if len(path) == 1:
        tree[name] = value
        return True
    inner = tree.get(name, [] if name == "routes" else {})
    if isinstance(inner, list):
        if not path[1].isdecimal() or int(path[1]) >= len(inner) or len(path) < 3 or not isinstance(inner[int(path[1])], dict):
            return False
        items = [dict(item) if at == int(path[1]) else item for at, item in enumerate(inner)]
        tree[name] = items
        return _put(items[int(path[1])], path[2:], value)
    if not isinstance(inner, dict):
        return False
    tree[name] = inner = dict(inner)
    return _put(inner, path[1:], value)

"""A Config in, TOML text out: every effective value, secrets by name only; keys without a value as comments. Reading it back gives the same Config.

`shown` is the text for people: what may be secret in a URL is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pipeline.settings import Settings
from proxy.config.fields import FLAT, keys
from proxy.config.tree import DEFAULTS, GROUPS, Config
from proxy.masking import masked_url

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def to_toml(config: Config) -> str:
    """The whole configuration as TOML."""
    lines = [*_entries({"workers": config.workers, "stages": config.stages})]
    for name in keys(Config):
        value = getattr(config, name)
        if name == "settings":
            lines += _defaults(value)
        elif name == "upstreams":
            for upstream, entries in value.items():
                lines += _table(f"upstreams.{_name(upstream)}", _flat(entries))
        elif isinstance(value, msgspec.Struct):
            lines += _table(name, _flat(value))
    for route in config.routes:
        lines += _table("routes", _flat(route), item=True)
    return "\n".join(lines) + "\n"


def shown(config: Config) -> str:
    """The same for the eyes of anybody: URLs without users, passwords and the values of queries."""
    upstreams = {
        name: msgspec.structs.replace(
            upstream, url=masked_url(upstream.url), proxy=None if upstream.proxy is None else masked_url(upstream.proxy)
        )
        for name, upstream in config.upstreams.items()
    }
    return to_toml(msgspec.structs.replace(config, upstreams=upstreams))


def _defaults(settings: Settings) -> Iterator[str]:
    values = _flat(settings)
    for group, names in GROUPS.items():
        yield from _table(group, {name: values.pop(name) for name in names})
    yield from _table(DEFAULTS, values)


def _flat(struct: msgspec.Struct) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(struct, name) for name in keys(type(struct))}
    flat = FLAT.get(type(struct))
    if flat is not None:
        field, _, hidden = flat
        values |= {name: value for name, value in _flat(values.pop(field)).items() if name not in hidden}
    return values


def _table(path: str, values: Mapping[str, Any], *, item: bool = False) -> Iterator[str]:
    yield ""
    yield f"[[{path}]]" if item else f"[{path}]"
    yield from _entries(values)


def _entries(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value is None or (isinstance(value, Mapping) and not value):
            yield f"# {_name(name)} is not set"
        else:
            yield f"{_name(name)} = {_value(value)}"


def _name(name: str) -> str:
    return name if name and _BARE.issuperset(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(str(name))} = {_value(inner)}" for name, inner in value.items()) + " }"
    return "[" + ", ".join(_value(one) for one in value) + "]"

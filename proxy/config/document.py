"""The configuration tree in, `docs/configuration.md` out. `python -m proxy.config.document > docs/configuration.md` writes it anew."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

from pipeline.settings import Settings, UpstreamTraits
from proxy.config.allowed import allowed
from proxy.config.fields import FLAT, Key, keys, table_keys
from proxy.config.tree import DEFAULTS, GROUPS, Admin, Auth, Capture, Config, Drain, Limits, Listen, Log, Route, Upstream

_TABLES: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("listen", Listen),
    ("admin", Admin),
    ("drain", Drain),
    ("limits", Limits),
    ("auth", Auth),
    ("log", Log),
    ("capture", Capture),
)
_INTRODUCTION = """# Configuration

Toolgraft reads one TOML file (`toolgraft serve --config FILE`), or none at all (`toolgraft serve --upstream URL`). `toolgraft check --config FILE`
names every mistake with its key; `toolgraft serve --print-config` shows every effective value, and the keys without one as
comments; users, passwords and query values of URLs are masked there. A key that is not listed here is an error.

Environment variables go before the file: `TOOLGRAFT_`, then the path, with `__` between its parts. `TOOLGRAFT_LISTEN__PORT=9000`,
`TOOLGRAFT_RETRY__MAX_RETRIES=1`, `TOOLGRAFT_UPSTREAMS__LOCAL__URL=http://127.0.0.1:8000`, `TOOLGRAFT_ROUTES__0__CONTRACT=dsml`; lists as
in TOML: `TOOLGRAFT_SIEVE__DIALECTS='["dsml"]'`.

Secrets are never values. A configuration names the environment variable or the file that holds them.

```toml
[upstreams.local]
url = "http://127.0.0.1:11434"

[upstreams.hosted]
url = "https://api.example.com/v1"
key_env = "HOSTED_API_KEY"

[[routes]]
model = "deepseek*"
upstreams = ["hosted", "local"]
contract = "dsml"

[[routes]]
model = "local/*"
upstreams = ["local"]
rewrite = "*"
```
"""


def document() -> str:
    """The whole page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    top = keys(Config)
    yield from _section("Top level", "Keys that stand outside every table.", [top["workers"], top["stages"]])
    for name, struct in _TABLES:
        yield from _section(f"[{name}]", _first_line(struct), keys(struct).values())
    yield from _section("[upstreams.NAME]", _first_line(Upstream), _own(Upstream))
    yield from _section("Traits, in [upstreams.NAME]", "What the upstream takes and how it ends a stream.", _flat(Upstream, UpstreamTraits))
    yield from _section("[[routes]]", _first_line(Route), _own(Route))
    yield (
        "## Route settings\n\nEach of these may stand in a `[[routes]]` table. The tables below hold the defaults of all routes; `[defaults]` "
        "takes the keys of the other three as well.\n"
    )
    settings = keys(Settings)
    grouped = {name for names in GROUPS.values() for name in names}
    for group, names in GROUPS.items():
        yield from _section(f"[{group}]", "", [settings[name] for name in names], level=3)
    yield from _section(f"[{DEFAULTS}]", "", [key for name, key in settings.items() if name not in grouped], level=3)


def _own(struct: type[msgspec.Struct]) -> list[Key]:
    field = FLAT[struct][0]
    return [key for name, key in keys(struct).items() if name != field]


def _flat(struct: type[msgspec.Struct], inner: type[msgspec.Struct]) -> list[Key]:
    return [key for name, key in table_keys(struct).items() if name in keys(inner) and name not in keys(struct)]


def _section(title: str, words: str, entries: Iterable[Key], level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {title if title[0] != '[' else f'`{title}`'}\n"
    if words:
        yield f"{words}\n"
    yield "| key | default | allowed | meaning |\n|---|---|---|---|"
    for key in entries:
        yield f"| `{key.name}` | {_default(key)} | {allowed(key.kind)} | {key.words} |"
    yield ""


def _first_line(struct: type[msgspec.Struct]) -> str:
    return (struct.__doc__ or "").strip().splitlines()[0]


def _default(key: Key) -> str:
    value = key.default
    if key.required:
        return "(needed)"
    if value is None or value in ((), {}):
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value.value if isinstance(value, Enum) else value}`" if value != "" else '`""`'


if __name__ == "__main__":
    sys.stdout.write(document())

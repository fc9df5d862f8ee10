"""The keys of a table of the configuration: name, type, default, words; with what stands flat in it."""

from __future__ import annotations

from functools import cache
from typing import Any, get_type_hints

import msgspec

from pipeline.settings import Settings, UpstreamTraits
from proxy.config.allowed import description
from proxy.config.tree import Route, Upstream
from proxy.config.words import SETTINGS_WORDS, TRAITS_WORDS

FLAT: dict[type, tuple[str, type[msgspec.Struct], frozenset[str]]] = {
    Route: ("settings", Settings, frozenset()),
    Upstream: ("traits", UpstreamTraits, frozenset({"name", "own_key"})),
}
"""Structs whose field holds another struct that is written flat into the same table: the field, its type, keys that are not for files."""
WORDS: dict[type, dict[str, str]] = {Settings: SETTINGS_WORDS, UpstreamTraits: TRAITS_WORDS}


class Key(msgspec.Struct, frozen=True):
    """One key. `default` is NODEFAULT where a value must be given; `required` says so."""

    name: str
    kind: Any
    default: object
    words: str

    @property
    def required(self) -> bool:
        """Must a value be given?"""
        return self.default is msgspec.NODEFAULT


@cache
def keys(struct: type[msgspec.Struct]) -> dict[str, Key]:
    """The keys of a struct itself, in order, by name."""
    hints = get_type_hints(struct, include_extras=True)
    words = WORDS.get(struct, {})
    found = {}
    for field in msgspec.structs.fields(struct):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        found[field.name] = Key(field.name, hints[field.name], default, words.get(field.name) or description(hints[field.name]))
    return found


@cache
def table_keys(struct: type[msgspec.Struct]) -> dict[str, Key]:
    """The keys that a table of this struct takes in a file: its own and the flat ones."""
    flat = FLAT.get(struct)
    if flat is None:
        return keys(struct)
    field, inner, hidden = flat
    own = {name: key for name, key in keys(struct).items() if name != field}
    return own | {name: key for name, key in keys(inner).items() if name not in hidden and name not in own}

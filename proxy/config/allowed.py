"""A type in, a few words out that say which values it allows: for error messages and for the documentation."""

from __future__ import annotations

from typing import Any

from msgspec import inspect


def allowed(kind: Any) -> str:
    """What may stand here, as a noun phrase."""
    return _words(inspect.type_info(kind))


def _words(info: inspect.Type) -> str:
    if isinstance(info, inspect.Metadata):
        return _words(info.type)
    if isinstance(info, inspect.UnionType):
        return " or ".join(_words(one) for one in info.types if not isinstance(one, inspect.NoneType))
    if isinstance(info, inspect.LiteralType):
        return "one of " + ", ".join(str(value) for value in info.values)
    if isinstance(info, inspect.EnumType):
        return "one of " + ", ".join(str(member.value) for member in info.cls)
    if isinstance(info, inspect.BoolType):
        return "true or false"
    if isinstance(info, inspect.IntType):
        return "a whole number" + _bounds(info)
    if isinstance(info, inspect.FloatType):
        return "a number" + _bounds(info)
    if isinstance(info, inspect.StrType):
        return "a text"
    if isinstance(info, inspect.VarTupleType):
        return "a list, each item " + _words(info.item_type)
    return "a table"


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {info.ge} to {info.le}"
    if info.ge is not None:
        return f" of at least {info.ge}"
    return f" above {info.gt}" if info.gt is not None else ""


def description(kind: Any) -> str:
    """The words that a key's annotation carries, empty where it has none."""
    info = inspect.type_info(kind)
    schema = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))

"""JSON text in, JSON values out, and back, without silent loss.

orjson does the work; the standard library stands behind it where orjson would lose something: digit runs of 19 and more
(big integers), and lone surrogates on the way out, which become U+FFFD. NaN and Infinity are not JSON and are refused.
This module is a leaf: everybody may import it, it imports nobody.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import orjson

_LONG_DIGITS = re.compile(r"[0-9]{19}")
_LONG_DIGITS_BYTES = re.compile(rb"[0-9]{19}")


class NotJsonError(ValueError):
    """The text is not one JSON value."""


def _no_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not JSON")


def loads(text: str | bytes) -> object:
    """Parse one JSON value. Big integers keep every digit. Raises NotJsonError."""
    long = _LONG_DIGITS.search(text) if isinstance(text, str) else _LONG_DIGITS_BYTES.search(text)
    if long is None:
        try:
            return orjson.loads(text)
        except (ValueError, RecursionError) as exc:
            if isinstance(text, bytes) or ("\\u" not in text and not _has_surrogate(text)):
                raise NotJsonError(str(exc)) from None
    try:
        return replace_surrogates(json.loads(text, parse_constant=_no_constant))
    except (ValueError, RecursionError) as exc:
        raise NotJsonError(str(exc)) from None


def dumps(value: object) -> str:
    """Write compact JSON text: no ASCII escapes, big integers whole, lone surrogates as U+FFFD. Raises NotJsonError."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise NotJsonError(str(exc)) from None
    return well_formed(text)


def dumps_bytes(value: object) -> bytes:
    """`dumps` as UTF-8."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return dumps(value).encode()


def replace_surrogates(value: object) -> object:
    """The same value with every lone surrogate as U+FFFD; the same object where there is none."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(str(key)): replace_surrogates(item) for key, item in value.items()}
    return value


def well_formed(text: str) -> str:
    """The text with every lone surrogate as U+FFFD; the same object where there is none."""
    if not _has_surrogate(text):
        return text
    return "".join("�" if "\ud800" <= ch <= "\udfff" else ch for ch in text)


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

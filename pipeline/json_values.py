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

_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Every escape of a JSON text in turn, so that an escaped backslash begins none; `half` is one of a surrogate that has no other half."""
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_LONG_RUN = b"0" * 19


class NotJsonError(ValueError):
    """The text is not one JSON value."""


def _no_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not JSON")


def loads(text: str | bytes) -> object:
    """Parse one JSON value. Big integers keep every digit. Raises NotJsonError."""
    if not _has_long_digits(text):
        try:
            return orjson.loads(text)
        except (ValueError, RecursionError) as exc:
            if isinstance(text, bytes) or ("\\u" not in text and not _has_surrogate(text)):
                raise NotJsonError(str(exc)) from None
    try:
        return replace_surrogates(json.loads(text, parse_constant=_no_constant))
    except (ValueError, RecursionError) as exc:
        raise NotJsonError(str(exc)) from None


def _has_long_digits(text: str | bytes) -> bool:
    """Whether 19 digits stand in a row. Every digit becomes a zero first: a tenth of a pattern's time, which is felt at 100 KB and at every chunk."""
    if len(text) < len(_LONG_RUN):
        return False
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return _LONG_RUN in data.translate(_DIGITS)


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


def whole_pairs(text: str) -> str:
    """JSON text with every escape of a lone surrogate as that of U+FFFD; the same object where there is none."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    mended = _ESCAPES.sub(lambda found: found[0] if found["half"] is None else r"\ufffd", text)
    return text if mended == text else mended


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

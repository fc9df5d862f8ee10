"""Secrets out of what others may read: URLs as they are shown, and a key that an upstream quotes in its answer.

In: a URL, or the bytes of an answer as they arrive. Out: the same without the secret. Promise: a key is found wherever reads are cut; nothing is held
back but an end that may be the beginning of the key.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

MASK = "***"
MIN_KEY_CHARS = 8
"""A shorter key is no secret, and its letters stand in every text."""


def masked_url(url: str) -> str:
    """The URL without its user, its password and the values of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = f"{MASK}@{parts.netloc.rpartition('@')[2]}" if "@" in parts.netloc else parts.netloc
    query = "&".join(f"{name}={MASK}" if equals else MASK for name, equals, _ in (pair.partition("=") for pair in parts.query.split("&")))
    return urlunsplit((parts.scheme, host, parts.path, query if parts.query else "", parts.fragment))


class KeyMask:
    """Masks one key in one answer."""

    __slots__ = ("_held", "_key", "_pattern")

    def __init__(self, key: str) -> None:
        """Take the key; JSON may write its slashes with a backslash."""
        self._key = key.encode()
        self._pattern = re.compile(re.escape(self._key).replace(b"/", rb"\\?/"))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may be passed on of this read, perhaps nothing."""
        data = self._pattern.sub(MASK.encode(), self._held + data)
        held = self._begun(data)
        self._held = data[len(data) - held :] if held else b""
        return data[: len(data) - held] if held else data

    def close(self) -> bytes:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of the key."""
        key = self._key
        at = data.find(key[:1], max(len(data) - len(key) + 1, 0))
        while at >= 0:
            if key.startswith(data[at:]):
                return len(data) - at
            at = data.find(key[:1], at + 1)
        return 0


def key_mask(key: str | None) -> KeyMask | None:
    """A mask for this key; None where there is none to hide."""
    return KeyMask(key) if key is not None and len(key) >= MIN_KEY_CHARS else None

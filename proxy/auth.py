"""Who may ask: client keys, in the three header forms that clients use (X12).

In: a request's headers. Out: the key it came with, judged. Promise: keys are compared by keyed digests, all of them, in constant time; neither a
key nor a comparison's result in parts leaves this file.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key a client sent: `x-api-key`, else `api-key`, else a Bearer token."""
    key = headers.get("x-api-key") or headers.get("api-key")
    if key:
        return key.strip() or None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


class Gate:
    """Lets in who has one of the client keys; everybody when there are none."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Keep digests only."""
        self._secret = os.urandom(32)
        self._digests = [self._digest(key) for key in keys]

    @property
    def open(self) -> bool:
        """Whether there are no client keys: then a key that comes is meant for an upstream."""
        return not self._digests

    def admits(self, key: str | None) -> bool:
        """Whether this key is one of ours. Always true when the gate is open."""
        if self.open:
            return True
        given = self._digest(key or "")
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return key is not None and any(matches)

    def _digest(self, key: str) -> bytes:
        return blake2b(key.encode("utf-8", "surrogateescape"), key=self._secret).digest()

"""Texts that were looked through before and hold nothing of ours.

In: texts of requests. Out: whether one was seen. Promise: bounded, and nothing of a text is kept but a digest. An agent sends its whole
history on every turn: looking for markers takes 25 us a KB, knowing a text again 1 us.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

WORTH_CHARS = 512
"""Shorter texts are looked through as fast as they are known again."""
MAX_TEXTS = 8192


class PlainTexts:
    """Remembers the most recently seen of them."""

    def __init__(self) -> None:
        """Start with none."""
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def key(self, text: str) -> bytes | None:
        """What a text is known by; None for one that is not worth it."""
        if len(text) < WORTH_CHARS:
            return None
        return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()

    def __contains__(self, key: bytes) -> bool:
        """Was it added?"""
        if key not in self._seen:
            return False
        self._seen.move_to_end(key)
        return True

    def add(self, key: bytes) -> None:
        """Remember it."""
        if len(self._seen) >= MAX_TEXTS:
            self._seen.popitem(last=False)
        self._seen[key] = None

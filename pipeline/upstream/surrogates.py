"""Halves of surrogate pairs that two frames of a stream share.

In: pieces of one text that may hold lone surrogates. Out: the same text without any: a high half waits for its low half in the next
piece; one that stays alone becomes U+FFFD.
"""

from __future__ import annotations


class HalfPairs:
    """One text. Only a stream that escapes its characters one UTF-16 unit at a time needs it."""

    __slots__ = ("_high",)

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._high = ""

    def feed(self, text: str) -> str:
        """The text that is whole by now."""
        text = self._high + text
        self._high = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._high = text[-1]
            text = text[:-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def close(self) -> str:
        """What stayed alone."""
        alone, self._high = self._high, ""
        return "\ufffd" if alone else ""

"""The text that a parser has not consumed yet, and where it stands in the block.

Promise: what is kept between pieces is what a scanner left undecided, bounded by the longest tag, so that joining it with the next piece costs nothing.
"""

from __future__ import annotations


class Buffer:
    """`text[at:]` is not consumed; `base` is the offset of `text[0]` in the block."""

    __slots__ = ("at", "base", "text")

    def __init__(self) -> None:
        """Start empty."""
        self.text = ""
        self.at = 0
        self.base = 0

    @property
    def place(self) -> int:
        """The offset of the next character in the block."""
        return self.base + self.at

    @property
    def empty(self) -> bool:
        """Is everything consumed?"""
        return self.at == len(self.text)

    def add(self, text: str) -> None:
        """Append a piece."""
        self.base += self.at
        self.text = self.text[self.at :] + text if self.at < len(self.text) else text
        self.at = 0

    def skip(self, text: str) -> None:
        """A piece was consumed without going through here."""
        self.base += self.at + len(text)
        self.text = ""
        self.at = 0

    def restart(self, text: str, base: int) -> None:
        """Read this text once more."""
        self.text = text
        self.at = 0
        self.base = base

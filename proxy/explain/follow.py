"""Lines of files as they stand, or as they grow.

In: paths, or standard input. Out: raw lines, and None where nothing more is there for now. Follows a file through rotation (another file under
its name) and truncation; there a last line is waited for until its line break is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


class Tail:
    """One file, read on from where it was left."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises OSError."""
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        """What is there now."""
        while True:
            chunk = self._file.read(_CHUNK)
            if not chunk:
                if not self._renewed():
                    return
                continue
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from whole

    def _renewed(self) -> bool:
        """Go on with the new file where the old one was rotated away, or at the start where it was emptied."""
        here = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            self._file.close()
            self._file = self._path.open("rb")
        elif here.st_size < self._file.tell():
            self._file.seek(0)
        else:
            return False
        self._rest = b""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def stored(paths: Sequence[Path]) -> Iterator[bytes]:
    """Every line of these files, once. Raises OSError."""
    for path in paths:
        with path.open("rb") as file:
            yield from file


def growing(paths: Sequence[Path]) -> Iterator[bytes | None]:
    """Every line of these files, then None after each look, for ever. Raises OSError when one cannot be opened at the start."""
    tails = [Tail(path) for path in paths]
    try:
        while True:
            for tail in tails:
                yield from tail.lines()
            yield None
    finally:
        for tail in tails:
            tail.close()

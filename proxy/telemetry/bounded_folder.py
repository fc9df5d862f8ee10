"""A folder of files with a bound on their sum, for files that are named after the time at which they were written.

In: a name's end and bytes. Out: one file, readable by its owner alone, there whole or not at all. Promise: the oldest go first; files with other names are
not touched; a write costs the same however many files there are, but for those that others have written since (then it lists the names once).
Raises OSError. Blocks: it belongs into a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

_OWN = re.compile(r"\d{13,}-[A-Za-z0-9._-]+\.json(\.part)?")
"""The names of files that were written here, whole or not yet: milliseconds since 1970 and a request id."""
_PART = ".part"


class BoundedFolder:
    """One folder. Several processes may write to it."""

    def __init__(self, path: Path, bound_bytes: int) -> None:
        """The folder is made when the first file is written."""
        self._path = path
        self._bound = bound_bytes
        self._sizes: dict[str, int] = {}
        """What is known to be there, the oldest first."""
        self._total = 0
        self._seen: int | None = None
        """When the folder changed last as far as is known."""

    def write(self, ident: str, data: bytes) -> None:
        """Write one file named after now and this."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(len(data))
        name = f"{time.time_ns() // 1_000_000:013d}-{ident}.json"
        part = self._path / (name + _PART)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # the mode must hold from the start
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
                file.write(data)
            part.rename(self._path / name)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._total += len(data) - self._sizes.get(name, 0)
        self._sizes[name] = len(data)
        self._seen = self._path.stat().st_mtime_ns

    def _make_room(self, size: int) -> None:
        if self._path.stat().st_mtime_ns != self._seen:
            self._look()
        while self._sizes and self._total + size > self._bound:
            name = next(iter(self._sizes))
            (self._path / name).unlink(missing_ok=True)  # another process may have done it
            self._total -= self._sizes.pop(name)

    def _look(self) -> None:
        """Learn what others wrote and removed."""
        known, self._sizes = self._sizes, {}
        for name in sorted(filter(_OWN.fullmatch, os.listdir(self._path))):  # noqa: PTH208 - names are all that is wanted
            with contextlib.suppress(FileNotFoundError):
                self._sizes[name] = known[name] if name in known else (self._path / name).stat().st_size
        self._total = sum(self._sizes.values())

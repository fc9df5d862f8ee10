"""Text as it stands in log files into log lines.

In: lines of a file or a pipe, also with what container runtimes and journals put around them. Out: parsed lines. Promise: never raises; what is no
line of ours is counted in `skipped`.
"""

from __future__ import annotations

from typing import Any

import orjson

_WRAPPERS = ("log", "MESSAGE")
"""Keys under which Docker's json-file driver and `journalctl -o json` keep a line."""


class LineReader:
    """Reads lines; `skipped` counts those that are none of ours."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.skipped = 0

    def read(self, raw: bytes) -> dict[str, Any] | None:
        """One line, or None. Whatever stands before the first brace (a container's name, a time stamp) is passed over."""
        found = _parsed(raw)
        for key in _WRAPPERS:
            if found is not None and "event" not in found and isinstance(found.get(key), str):
                found = _parsed(found[key].encode())
        if found is None or not isinstance(found.get("event"), str):
            if raw.strip():
                self.skipped += 1
            return None
        return found


def _parsed(raw: bytes) -> dict[str, Any] | None:
    start = raw.find(b"{")
    if start < 0:
        return None
    try:
        value = orjson.loads(raw[start:])
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None

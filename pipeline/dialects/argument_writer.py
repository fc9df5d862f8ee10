"""JSON text of a committed call's arguments, written while they arrive (E4).

In: the parameters as a block parser reads them. Out: pieces of strict JSON that add up to one object. Promise: what it wrote is never taken back; the
closing bracket is written by `finish` alone, so a call that was cut off never looks complete. Strings go through as they come where the
schema admits a string; everything else waits for its end, so that it can be typed (S10).
"""

from __future__ import annotations

from pipeline import json_values
from pipeline.dialects.block import Added, Began, Ended, Progress
from pipeline.dialects.calls import Calls, Found, unescaped
from pipeline.text import schema_types
from pipeline.text.echo import Unescaper
from pipeline.turn import ToolKind


class ArgumentWriter:
    """Writes one call's arguments into `progress`."""

    __slots__ = ("_calls", "_found", "_kind", "_names", "_pieces", "_progress", "_unescaper")

    def __init__(self, progress: list[Progress], calls: Calls, found: Found, end: int) -> None:
        """Commit the call."""
        self._progress = progress
        self._calls = calls
        self._found = found
        self._kind = found.tool.kind if found.tool is not None else ToolKind.FUNCTION
        self._names: set[str] = set()
        self._pieces: list[str] = []
        self._unescaper: Unescaper | None = None
        progress.append(Began(found.name, end, self._kind))
        self._write("{", end)

    def _write(self, text: str, end: int) -> None:
        if text:
            text = json_values.well_formed(text)
            self._pieces.append(text)
            self._progress.append(Added(text, end))

    def streams(self, name: str) -> bool:
        """Can a string be passed on piece by piece under this name?"""
        schema = self._calls.schema_of(self._found, name)
        if schema is None or self._found.tool is None:
            return True
        root = self._found.tool.parameters
        return "string" in schema_types.types(schema, root) and schema_types.fits("\0", schema, root)

    def has(self, name: str) -> bool:
        """Was this key written?"""
        return (str(unescaped(name)) if self._calls.unescapes else name) in self._names

    def key(self, name: str, end: int) -> bool:
        """Write a key; false when it was written before, which cannot be mended any more."""
        if self.has(name):
            return False
        if self._calls.unescapes:
            name = str(unescaped(name))
        self._write(("," if self._names else "") + json_values.dumps(name) + ":", end)
        self._names.add(name)
        return True

    def begin_text(self, end: int) -> None:
        """A string begins."""
        self._unescaper = Unescaper() if self._calls.unescapes else None
        self._write('"', end)

    def text(self, piece: str, end: int) -> None:
        """The next piece of a string, decoded."""
        if self._unescaper is not None:
            piece = self._unescaper.feed(piece)
        self._write(json_values.dumps(piece)[1:-1], end)

    def json_text(self, piece: str, end: int) -> None:
        """The next piece of a string as strict JSON string content."""
        if self._unescaper is not None:
            self.text(str(json_values.loads(f'"{piece}"')), end)
        else:
            self._write(piece, end)

    def end_text(self, end: int) -> None:
        """The string is complete."""
        rest = self._unescaper.flush() if self._unescaper is not None else ""
        self._unescaper = None
        self._write(json_values.dumps(rest)[1:-1] + '"', end)

    def value(self, name: str, value: object, end: int, *, fixed: bool = False) -> bool:
        """Any whole value, typed by its schema unless its type is fixed; false when it cannot be written."""
        try:
            if self._calls.unescapes:
                value = unescaped(value)
            schema = None if fixed else self._calls.schema_of(self._found, name)
            if schema is not None and self._found.tool is not None:
                value = schema_types.fit(value, schema, self._found.tool.parameters)
            self._write(json_values.dumps(value), end)
        except (json_values.NotJsonError, RecursionError):
            return False
        return True

    def finish(self, end: int) -> None:
        """The call is complete."""
        self._write("}", end)
        self._progress.append(Ended(self._found.name, "".join(self._pieces), end, self._kind))

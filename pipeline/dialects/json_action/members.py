"""Hears the members of a call's object while it is scanned: rules plain JSON out early (S8), commits streamed arguments (E4).

In: what `JsonScanner` tells its listener. Out: `fault` set on the scanner at the first member that rules the block out; with `early`, the
arguments through an `ArgumentWriter`. Promise: decisions are made at fixed characters, wherever pieces end.
"""

from __future__ import annotations

from pipeline import json_values
from pipeline.dialects.argument_writer import ArgumentWriter
from pipeline.dialects.block import Progress
from pipeline.dialects.calls import Calls, Fault, Found
from pipeline.dialects.json_action.objects import ARGUMENT_KEYS, NAME_KEYS
from pipeline.text.json_scan import JsonScanner, strict_content


class Members:
    """The listener of one top-level value."""

    __slots__ = (
        "_calls",
        "_depth",
        "_early",
        "_exact",
        "_found",
        "_from",
        "_has",
        "_key",
        "_name",
        "_offset",
        "_parameter",
        "_progress",
        "_streaming",
        "begins",
        "committed",
        "ends",
        "scanner",
        "seen",
        "writer",
    )

    def __init__(self, calls: Calls, progress: list[Progress], *, array: bool, exact: bool, early: bool, offset: int) -> None:
        """`array`: the value is an array of calls. `offset` is where the value begins in the block."""
        self.scanner = JsonScanner(strict=early, listener=self, most=2 if array else 1)
        self.seen = False
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.committed: list[bool] = []
        self.writer: ArgumentWriter | None = None
        self._calls = calls
        self._progress = progress
        self._depth = 2 if array else 1
        self._exact = exact
        self._early = early
        self._offset = offset
        self._reset()

    def _reset(self) -> None:
        self._key = ""
        self._name: list[str] = []
        self._found: Found | None = None
        self._has: set[str] = set()
        self._parameter = ""
        self._streaming = False
        self._from = 0

    def _here(self) -> int:
        return self._offset + self.scanner.place

    def key(self, depth: int, text: str) -> None:
        """A key, as JSON string content."""
        if "\\" in text:
            try:
                text = str(json_values.loads(f'"{strict_content(text, set())}"'))
            except json_values.NotJsonError:
                text = ""
        if depth > self._depth:
            self._parameter = text
            if self.writer is not None and not self.writer.key(text, self._here()):
                self.scanner.fault = "an argument stands twice"
            return
        self.seen = True
        self._key = "name" if text in NAME_KEYS else "arguments" if text in ARGUMENT_KEYS else ""
        if (self._exact and (not self._key or self._key in self._has)) or (
            self.writer is not None and self._key and self._key in self._has
        ):
            self.scanner.fault = "a key that no call has"
        if self._key == "name" and self._key in self._has:
            self._early = False  # which of the names counts is known when the object is complete
        self._has.add(self._key)

    def begin(self, depth: int, char: str) -> None:
        """A member begins."""
        if depth < self._depth:
            if char != "{":
                self.scanner.fault = "a call is no object"
            self.begins.append(self._here())
            return
        if depth > self._depth:
            self._begin_argument(char)
            return
        if self._key == "name":
            self._name.clear()
            if self._exact and char != '"':
                self.scanner.fault = "the name is no string"
        elif self._key == "arguments":
            if self._exact and char not in '{"':
                self.scanner.fault = "the arguments are no object"
            if self._early and char == "{" and self._found is not None and self.writer is None and all(self.committed[-1:]):
                self.writer = ArgumentWriter(self._progress, self._calls, self._found, self._here())
                self.scanner.listen_to(self._depth + 1)

    def _begin_argument(self, char: str) -> None:
        if self.writer is None:
            return
        self._streaming = char == '"' and self.writer.streams(self._parameter)
        if self._streaming:
            self.writer.begin_text(self._here())
        else:
            self._from = len(self.scanner.out)

    def piece(self, depth: int, text: str) -> None:
        """Content of a string."""
        if depth > self._depth:
            if self._streaming and self.writer is not None:
                self.writer.json_text(text, self._here())
        elif depth == self._depth and self._key == "name":
            self._name.append(text)

    def end(self, depth: int) -> None:
        """A member is complete."""
        if depth < self._depth:
            self.ends.append(self._here() + 1)
            self._end_object()
        elif depth > self._depth:
            self._end_argument()
        elif self._key == "name":
            self._end_name()
        elif self._key == "arguments" and self.writer is not None:
            self.scanner.listen_to(self._depth)

    def _end_object(self) -> None:
        self.finish(self._here() + 1)
        self._reset()

    def finish(self, end: int) -> None:
        """The object is a call; complete its arguments if they were committed."""
        self.committed.append(self.writer is not None)
        if self.writer is not None:
            self.writer.finish(end)
            self.writer = None

    def _end_argument(self) -> None:
        if self.writer is None:
            return
        if self._streaming:
            self._streaming = False
            self.writer.end_text(self._here())
            return
        try:
            value = json_values.loads("".join(self.scanner.out[self._from :]))
        except json_values.NotJsonError:
            self.scanner.fault = "an argument is not valid JSON"
            return
        if not self.writer.value(self._parameter, value, self._here()):
            self.scanner.fault = "the arguments nest too deep"

    def _end_name(self) -> None:
        content = "".join(self._name)
        try:
            name = json_values.loads(f'"{strict_content(content, set())}"')
        except json_values.NotJsonError:
            name = ""
        found = self._calls.find(name) if isinstance(name, str) else None
        declared = isinstance(found, Found) and found.tool is not None
        if self._exact and not declared:
            self.scanner.fault = "no tool of that name is declared"
        elif declared and not isinstance(found, Fault):
            self._found = found

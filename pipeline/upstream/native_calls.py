"""Native tool calls, put together from whatever pieces an upstream sends (U09).

In: entries of `tool_calls` in the order they came: an index that is missing, starts at 1 or is always 0, an id or a name that comes
once, every time or empty later, arguments whole, split or as an object. Out: calls one after the other, numbered from 0, each whole
(or live: begun, its arguments as they come, then whole), with JSON text of an object as arguments, and with what the upstream wants back
with it (`extra_content`), echo escapes undone (C10). Promise: never raises; a call that stays without a name or without an object is no
call, and is told as a block that is not legal (S13, E4); so is one that the caller's choice rules out (C3), and its words are `unwanted`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipeline import json_values
from pipeline.dialects.calls import unescaped
from pipeline.events import NO_SPAN, ArgumentsDelta, BlockSeen, CallBegun, CallDone, Event, Failed
from pipeline.turn import CUSTOM_INPUT, Arguments, ChoiceMode, ToolKind, Turn
from pipeline.upstream.native import names_of
from pipeline.upstream.surrogates import HalfPairs
from pipeline.verdicts import BlockOutcome, ErrorKind

DIALECT = "native"
_QUOTED_CHARS = 4096
_MAX_TESTS = 64


class _Call:
    """A call in the making."""

    __slots__ = ("begun", "call_id", "extra", "halves", "is_object", "is_whole", "name", "pieces", "size", "tested", "tests", "unsent")

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.extra: str | None = None
        self.pieces: list[str] = []
        self.unsent: list[str] = []
        self.size = 0
        self.begun = False
        self.is_object: bool | None = None  # does the text begin like an object? None: no visible character yet
        self.is_whole = False
        self.tested = 0
        self.tests = 0
        self.halves: HalfPairs | None = None

    def add(self, piece: str) -> None:
        """Take the next piece of the arguments."""
        self.pieces.append(piece)
        self.unsent.append(piece)
        self.size += len(piece)
        if not piece.isspace():
            self.is_whole = False
            if self.is_object is None:
                self.is_object = piece.lstrip()[0] == "{"

    def text(self) -> str:
        """All of the arguments so far."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def whole(self) -> bool:
        """Are the arguments an object already? Asked anew only when a closing brace came, and not for ever (S14)."""
        if self.size != self.tested and self.tests < _MAX_TESTS and self.pieces[-1].rstrip()[-1:] == "}":
            self.tested = self.size
            self.tests += 1
            self.is_whole = Arguments(self.text()).value() is not None
        return self.is_whole


class NativeCalls:
    """The calls of one answer. With `live`, arguments go out as they come, one call at a time."""

    __slots__ = ("_allowed", "_by_id", "_by_index", "_calls", "_emitted", "_escaped", "_kinds", "_live", "_names", "_open", "unwanted")

    def __init__(self, turn: Turn, *, live: bool) -> None:
        """Begin with no call; the turn's tools say which names stand for which."""
        self._escaped = turn.emulation is not None and turn.emulation.escaped
        self._live = live and not self._escaped  # an escape may lie across two pieces, and be spelled as a JSON escape
        self._allowed = _allowed(turn)
        self.unwanted: list[str] = []
        """Calls that the caller's choice rules out, each as JSON text of its name and arguments, for the reader to take as text."""
        self._names = names_of(turn)
        self._kinds = {tool.name: tool.kind for tool in turn.tools}
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._open = 0
        self._emitted = 0

    @property
    def seen(self) -> bool:
        """Did the upstream write any call, good or bad?"""
        return bool(self._calls)

    @property
    def given(self) -> int:
        """How many calls went out, whole or begun."""
        return self._emitted

    def take(self, entry: object, out: list[Event], *, odd: bool = False) -> None:
        """Take one entry. `odd` says that its text may hold lone surrogates."""
        if not isinstance(entry, Mapping):
            return
        function = entry.get("function")
        if not isinstance(function, Mapping):
            function = entry if "name" in entry or "arguments" in entry else {}
        name = function.get("name")
        call = self._find(entry, name if isinstance(name, str) else "")
        extra = entry.get("extra_content")
        if extra and isinstance(extra, Mapping):
            call.extra = _text_of(extra) or call.extra
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = _text_of(arguments)
        if arguments:
            if odd or call.halves is not None:
                call.halves = call.halves or HalfPairs()
                arguments = call.halves.feed(arguments)
            if arguments:
                call.add(arguments)
        self._advance(out)

    def end(self, out: list[Event], *, cut: bool) -> Failed | None:
        """Nothing more comes: give what is whole, tell what is not. A begun call that ends badly fails the turn (E4)."""
        for call in self._calls[self._open :]:
            self._open += 1
            failed = self._conclude(call, out, cut=cut)
            if failed is not None:
                return failed
        return None

    def _find(self, entry: Mapping[str, object], name: str) -> _Call:
        """The call that an entry belongs to: by its index, else by its id, else by order."""
        index = entry.get("index")
        given = entry.get("id")
        call_id = given if isinstance(given, str) else ""
        found: _Call | None
        if isinstance(index, int):
            found = self._by_index.get(index)
            if found is not None and name and call_id and found.call_id not in ("", call_id):
                found = None  # another call under the same index: some number all of them 0
        elif call_id:
            found = self._by_id.get(call_id)
        else:
            found = self._calls[-1] if self._calls else None
            if found is not None and name and (name != found.name or found.whole()):
                found = None
        if found is None:
            found = _Call(call_id, name)
            self._calls.append(found)
        else:
            self._rename(found, name)
            found.call_id = found.call_id or call_id
        if isinstance(index, int):
            self._by_index[index] = found
        if call_id:
            self._by_id[call_id] = found
        return found

    def _rename(self, call: _Call, name: str) -> None:
        """A name that comes again, grows, or goes on, as long as no arguments came."""
        if not name or name == call.name or call.begun:
            return
        if not call.name or name.startswith(call.name):
            call.name = name
        elif not call.size:
            call.name += name

    def _advance(self, out: list[Event]) -> None:
        """Give every call whose end is proven by the next one; stream the open one."""
        while self._open < len(self._calls):
            call = self._calls[self._open]
            if self._open + 1 < len(self._calls) and call.whole():
                self._open += 1
                self._conclude(call, out, cut=False)
                continue
            if self._live:
                self._stream(call, out)
            return

    def _stream(self, call: _Call, out: list[Event]) -> None:
        name = self._names.back(call.name)
        if not call.begun:
            if not name or not call.is_object or self._rules_out(name) or self._kinds.get(name) is ToolKind.CUSTOM:
                return
            call.begun = True
            self._emitted += 1
            out.append(CallBegun(self._emitted - 1, name, native=True, extra=call.extra))
        if call.unsent:
            out.append(ArgumentsDelta(self._emitted - 1, "".join(call.unsent)))
            call.unsent.clear()

    def _conclude(self, call: _Call, out: list[Event], *, cut: bool) -> Failed | None:
        if call.halves is not None and (alone := call.halves.close()):
            call.add(alone)
        if self._live:
            self._stream(call, out)
        name = self._names.back(call.name)
        text = call.text()
        arguments = Arguments(text)
        kind = self._kinds.get(name, ToolKind.FUNCTION)
        if arguments.value() is None and kind is ToolKind.CUSTOM and not cut:
            arguments = Arguments({CUSTOM_INPUT: text})  # the model wrote the raw input as such
        if arguments.value() is None or not name:
            return self._broken(call, name, out, cut=cut)
        if self._escaped:
            arguments = _unescaped(arguments)
        if self._rules_out(name):
            self._turn_away(name, arguments, out)
            return None
        whole = text if call.begun else arguments.text()
        index = self._emitted - 1 if call.begun else self._emitted
        if not call.begun:
            self._emitted += 1
            if self._live:
                out.append(CallBegun(index, name, native=True, extra=call.extra))
                out.append(ArgumentsDelta(index, whole))
        out.append(CallDone(index, name, whole, native=True, kind=kind, extra=call.extra))
        return None

    def _rules_out(self, name: str) -> bool:
        return self._allowed is not None and name not in self._allowed

    def _turn_away(self, name: str, arguments: Arguments, out: list[Event]) -> None:
        """A call that may not be made is what it is where it leaks as text: a block that stays text (C3, CR04, X33)."""
        text = json_values.dumps({"name": name, "arguments": arguments.value()})
        fault = f"tool_choice does not allow the tool {name!r}"
        out.append(BlockSeen(DIALECT, BlockOutcome.UNKNOWN_TOOL, NO_SPAN, names=(name,), fault=fault, text=text[:_QUOTED_CHARS]))
        self.unwanted.append(text)

    def _broken(self, call: _Call, name: str, out: list[Event], *, cut: bool) -> Failed | None:
        if call.begun:
            return Failed(ErrorKind.BROKEN_CALL, "The upstream's tool call ended before its arguments were whole.", retryable=False)
        outcome = BlockOutcome.UNTERMINATED if cut else BlockOutcome.MALFORMED
        fault = "the arguments are not one whole JSON object" if name else "the call has no tool name"
        names = (name,) if name else ()
        out.append(BlockSeen(DIALECT, outcome, NO_SPAN, names=names, fault=fault, text=call.text()[:_QUOTED_CHARS]))
        return None


def _allowed(turn: Turn) -> Collection[str] | None:
    """The names that may be called; None for any. Where tools are the upstream's own affair, so is a choice of one of them."""
    choice = turn.tool_choice
    if choice.mode is ChoiceMode.NONE:
        return ()
    if choice.name is not None and turn.emulation is not None:
        return (choice.name,)
    return choice.allowed


def _unescaped(arguments: Arguments) -> Arguments:
    """The arguments with echo escapes undone; the same object where there are none."""
    value = arguments.value()
    plain = unescaped(value)
    return arguments if plain == value else Arguments(plain)


def _text_of(value: object) -> str:
    """The value as JSON text; empty for what is none."""
    try:
        return json_values.dumps(value)
    except json_values.NotJsonError:
        return ""

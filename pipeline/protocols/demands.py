"""What a client demands of an answer and nobody here can enforce: looked at when it is there, told, and delivered all the same.

In: a turn, then the events that go to the client. Out: notes: calls that break the schema of a strict tool (X35), inputs of custom tools that
break their regex grammar (CR03), a final text that is not the JSON asked for (CR10). Promise: no content in a note, bounded memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline import json_values
from pipeline.events import CallBegun, CallDone, Event, Finish, TextDelta
from pipeline.protocols.writing import custom_input
from pipeline.stage import Note
from pipeline.text.regex_grammar import Matches, regex_grammar
from pipeline.text.schema_check import fits
from pipeline.turn import Arguments, ResponseFormat, Tool, Turn
from pipeline.verdicts import FinishReason, Noted

_MAX_CHARS = 1 << 20
"""A final text beyond this is not looked at."""
_WHOLE = frozenset({FinishReason.STOP, FinishReason.STOP_SEQUENCE})


def demands_of(turn: Turn) -> Demands | None:
    """The demands of this turn; None where it has none. A format is ours to look after only where the upstream was not asked for it."""
    strict = {tool.name: tool.parameters for tool in turn.tools if tool.strict}
    grammars = {tool.name: grammar for tool in turn.tools if (grammar := _grammar_of(tool)) is not None}
    taught = turn.emulation is not None and turn.emulation.injected
    wanted = turn.response_format if taught else None
    return Demands(strict, grammars, wanted) if strict or grammars or wanted is not None else None


class Demands:
    """The demands of one turn, and how often its answer broke them."""

    __slots__ = ("_called", "_chars", "_format", "_grammar_breaks", "_grammars", "_strict", "_strict_breaks", "_text")

    def __init__(self, strict: Mapping[str, Mapping[str, object]], grammars: Mapping[str, Matches], wanted: ResponseFormat | None) -> None:
        """Schemas and grammars by tool name."""
        self._strict = strict
        self._grammars = grammars
        self._format = wanted
        self._strict_breaks = 0
        self._grammar_breaks = 0
        self._called = False
        self._text: list[str] = []
        self._chars = 0

    def look(self, events: Sequence[Event]) -> None:
        """Take events on their way to the client."""
        for event in events:
            if type(event) is TextDelta:
                if self._format is not None and self._chars <= _MAX_CHARS:
                    self._chars += len(event.text)
                    self._text.append(event.text)
            elif type(event) is CallDone:
                self._called = True
                self._call(event)
            elif type(event) is CallBegun:
                self._called = True

    def tell(self, note: Note, finish: Finish | None) -> None:
        """Say what was broken; None for an answer that failed."""
        if self._strict_breaks:
            note(Noted.STRICT_VIOLATION, count=self._strict_breaks)
        if self._grammar_breaks:
            note(Noted.GRAMMAR_VIOLATION, count=self._grammar_breaks)
        if finish is not None and finish.reason in _WHOLE and not self._called and self._chars <= _MAX_CHARS and not self._is_formed():
            note(Noted.FORMAT_VIOLATION)

    def _call(self, call: CallDone) -> None:
        schema = self._strict.get(call.name)
        if schema is not None and not fits(Arguments(call.arguments).value(), schema):
            self._strict_breaks += 1
        grammar = self._grammars.get(call.name)
        if grammar is not None and not grammar(custom_input(call.arguments)):
            self._grammar_breaks += 1

    def _is_formed(self) -> bool:
        """Whether the final text is what was asked for; an answer without any text is another matter."""
        if self._format is None or not self._chars:
            return True
        try:
            value = json_values.loads("".join(self._text))
        except json_values.NotJsonError:
            return False
        return fits(value, self._format.schema) if self._format.schema is not None else isinstance(value, dict)


def _grammar_of(tool: Tool) -> Matches | None:
    form = tool.format
    if form is None or form.get("syntax") != "regex":
        return None
    return regex_grammar(str(form["definition"]))

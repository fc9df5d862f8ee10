"""Write your own dialect: a guide that is also a test.

Suppose that your model likes to call tools like this:

    [[call look_up {"berth": 7}]]

A dialect is one object that knows this format in both directions. It has six things:

1. `name`: what the configuration calls it, here `contract = "brackets"`.
2. `markers`: the literal words that begin a block. When a user's text or a tool's result holds one, it must not come back as a call.
3. `openers()`: how a block begins, as patterns. The sieve holds text back only while it may still become one of these, so make them
   long enough to be rare in prose, and bounded. `literal` makes one from plain text. A route with `tolerance = "wide"` may have more.
4. `describe` and `render_calls`: text for the prompt. `render_calls` writes what the model should write; the example in the prompt and the
   calls of the history are written by it too.
5. `parser`: reads one block. It is fed from the first character of the opener on, in pieces of any size, and answers None while it needs
   more, `Done` with the calls, or `Rejected` as soon as the text cannot be a call any more. The sieve turns a rejected block back
   into the text it was. Look at each character once; keep what you must remember in attributes, not in the text.
6. `spares`: closers that may stand once too often behind a block. Most formats have none.

Names and arguments go through `Calls`, which all dialects share: it finds the declared tool, fits values to its schema and undoes escapes.
Helpers without opinion are in `pipeline/text`: `json_scan` finds the end of a JSON value and `json_repair` reads it.

To install it, name it in your own package's pyproject.toml, and put "brackets" into a route's `dialects`:

    [project.entry-points."toolgraft.dialects"]
    brackets = "my_package.brackets:Brackets"

To test it, let the kit run on it; it tries thousands of texts and cuts (`tests/pipeline/testing/test_conformance.py` does so for this file):

    from pipeline.testing.conformance import DialectConformance

    class TestBrackets(DialectConformance):
        dialect = Brackets()
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import json_values
from pipeline.dialects.block import BlockParser, Done, Opener, Part, Progress, Rejected, Start, literal
from pipeline.dialects.calls import Fault
from pipeline.text import json_repair
from pipeline.text.json_scan import JsonScanner
from pipeline.turn import Call, Tool
from pipeline.verdicts import BlockOutcome

OPENER = "[[call "
LONGEST_NAME = 128


class Brackets:
    """`[[call NAME {json}]]`."""

    name = "brackets"
    markers = ("[[call",)
    spares = ()

    def describe(self, tools: Sequence[Tool], example: Call | None) -> str:
        """The rules, with one legal block of the caller's own tools."""
        shown = f", for example:\n\n{self.render_calls([example])}" if example is not None else "."
        return (
            f"A call is two square brackets, the word call, the tool's name, a JSON object with the arguments, two square brackets{shown}"
        )

    def render_calls(self, calls: Sequence[Call]) -> str:
        """One line a call. A name with a blank in it is quoted as JSON."""
        return "\n".join(f"{OPENER}{self._name(call.name)} {self._arguments(call)}]]" for call in calls)

    @staticmethod
    def _name(name: str) -> str:
        return json_values.dumps(name) if any(char.isspace() or char in '"{' for char in name) else name

    @staticmethod
    def _arguments(call: Call) -> str:
        value = call.arguments.value()
        return json_values.dumps({"arguments": call.arguments.raw} if value is None else value)

    def openers(self, *, wide: bool) -> tuple[Opener, ...]:
        """How a block begins; the tolerance makes no difference here."""
        return (literal(OPENER),)

    def parser(self, start: Start) -> BlockParser:
        """A parser for one block."""
        return BracketParser(start)


class BracketParser:
    """Three states: the opener and the name, the arguments, the closing brackets."""

    def __init__(self, start: Start) -> None:
        self.progress: list[Progress] = []
        self._calls = start.calls
        self._head = ""
        self._name: str | None = None
        self._scanner = JsonScanner()
        self._arguments: list[str] = []
        self._closed = ""
        self._size = 0

    def feed(self, text: str) -> Done | Rejected | None:
        """Take the next piece."""
        if self._name is None:
            known = len(self._head)
            self._head += text
            brace = self._head.find("{", max(known, len(OPENER)))
            name = self._head[len(OPENER) : brace if brace >= 0 else len(self._head)]
            if len(name) > LONGEST_NAME or "\n" in name or "]" in name:
                return self._rejected("no name and no arguments follow", len(OPENER), mention=True)
            if brace < 0:
                return None
            self._name = name.strip()
            self._size = brace
            text = self._head[brace:]
        at = 0
        if not self._scanner.done:
            at = self._scanner.feed(text)
            self._arguments.append(text[:at])
            self._size += at
            if self._scanner.fault or self._scanner.stopped:
                return self._rejected(self._scanner.fault or "the arguments are not complete", self._size)
        if self._scanner.done:
            while at < len(text) and len(self._closed) < 2:
                if text[at] != "]":
                    return self._rejected("the closing brackets are missing", self._size)
                self._closed += text[at]
                self._size += 1
                at += 1
            if len(self._closed) == 2:
                return self._answer()
        return None

    def close(self, *, truncated: bool) -> Done | Rejected:
        """The text ended: a block without its closing brackets is no call, whatever the reason."""
        end = self._size if self._name is not None else len(self._head)
        return self._rejected("the block ends in the middle", end, BlockOutcome.UNTERMINATED, mention=self._name is None)

    def _answer(self) -> Done | Rejected:
        try:
            name = json_values.loads(self._name or "") if (self._name or "").startswith('"') else self._name
            value, repairs = json_repair.read("".join(self._arguments))
        except ValueError as problem:
            return self._rejected(str(problem), self._size)
        found = self._calls.find(str(name))
        if isinstance(found, Fault):
            return self._rejected(found.text, self._size, found.outcome)
        made = self._calls.make(found, value if isinstance(value, dict) else {}, repairs)
        if isinstance(made, Fault):
            return self._rejected(made.text, self._size, made.outcome)
        return Done(end=self._size, parts=(Part(end=self._size, call=made),), repairs=tuple(repairs))

    @staticmethod
    def _rejected(fault: str, end: int, outcome: BlockOutcome = BlockOutcome.MALFORMED, *, mention: bool = False) -> Rejected:
        return Rejected(end=end, outcome=outcome, fault=fault, fault_at=end, mention=mention)

"""The protocol between the sieve and the parser of one block.

The sieve finds an opener, asks the dialect for a parser and feeds it the text from the first character of the opener on, in any
pieces. The parser answers None (more is needed), `Done` or `Rejected`; after those it is not fed again. All places are offsets in
characters from the first character of the opener. Rules for a parser:

- The answer depends on the text alone, never on where pieces end; no character is scanned twice because more arrived (S14).
- It rejects at the first character that rules a call out, so that a mention in prose stalls nothing (S2).
- `end` of Done is behind the last character that belongs to the block, `end` of Rejected behind the last one that shall not be scanned as
  text again, not counting white space before the offending character. The sieve scans on from there. Marks that close a fence the block itself
  opened must lie behind it: as text the fence is open until the scanner reads them.
- It never raises on any text.

With `Start.early` a parser may commit a call before it is complete (E4): it puts `Began`, `Added`, `Ended` into `progress`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pipeline.dialects.calls import Calls, Written
from pipeline.dialects.options import ParserOptions
from pipeline.turn import ToolKind
from pipeline.verdicts import BlockOutcome, Repair


class Opener(msgspec.Struct, frozen=True):
    """How a block begins, as two regular expressions.

    `whole` matches an opener at its first character, `part` a text that may still become one when more arrives (it ends in an anchor
    to the end of the text). Both must look at a bounded number of characters. `starts` are the characters one of which comes first.
    An opener of fence marks (`fence`) is written with the last three marks of its run; `line_start` wants the run first in its line.
    """

    whole: str
    part: str
    starts: str
    fence: bool = False
    line_start: bool = False


def begun(steps: Sequence[str]) -> str:
    """The regular expression of a text that ends after one of these steps, each a regular expression, but not after the last."""
    part = ""
    for step in reversed(steps[:-1]):
        part = rf"{step}(?:\Z|{part})" if part else rf"{step}\Z"
    return part or "(?!)"


def literal(text: str) -> Opener:
    """The opener that is exactly this text."""
    steps = [re.escape(char) for char in text]
    return Opener(whole="".join(steps), part=begun(steps), starts=text[0])


class Part(msgspec.Struct, frozen=True):
    """A stretch of a block up to `end`: a call, or text that stays text (`outcome` says why).

    A call's stretch begins where the part before it ends. Text begins at `start`, if that is given: what stands between is dropped.
    """

    end: int
    call: Written | None = None
    outcome: BlockOutcome = BlockOutcome.PARSED
    fault: str = ""
    names: tuple[str, ...] = ()
    early: bool = False
    """This call was told through `progress` already."""
    start: int = -1


class Done(msgspec.Struct, frozen=True):
    """A legal block: at least one of its parts is a call. `last` says that it counts only if nothing visible follows it (S8)."""

    end: int
    parts: tuple[Part, ...]
    repairs: tuple[Repair, ...] = ()
    last: bool = False
    ends_fence: bool = False
    """The block was a markdown fence of its own, opened at the start of a line if the opener stood there."""
    hint: object = None
    """Handed to the next parsers of this dialect as `Start.hint`: what this one learned about the text behind it."""


class Rejected(msgspec.Struct, frozen=True):
    """No call. `mention`: so little of a block was there that it was no attempt at a call, nothing worth a record."""

    end: int
    outcome: BlockOutcome = BlockOutcome.MALFORMED
    fault: str = ""
    fault_at: int = 0
    mention: bool = False
    names: tuple[str, ...] = ()
    opener_only: bool = False
    """The text ended right behind the opener: a cut-off opener, which is swallowed behind a block (S6)."""
    opens_fence: bool = False
    """It began with a fence and a value in the lines below, as no mention does: as text that is a fence too, even in the middle of a line."""
    quotes: bool = False
    """An attempt at a call in tags: CDATA sections behind it quote what belongs to it."""


class Began(msgspec.Struct, frozen=True):
    """A call is committed; its name will not change."""

    name: str
    end: int
    kind: ToolKind = ToolKind.FUNCTION


class Added(msgspec.Struct, frozen=True):
    """The next piece of the JSON text of its arguments, read from the text up to `end`."""

    text: str
    end: int


class Ended(msgspec.Struct, frozen=True):
    """The committed call is complete: all pieces add up to `arguments`."""

    name: str
    arguments: str
    end: int
    kind: ToolKind = ToolKind.FUNCTION


Progress = Began | Added | Ended


class Start(msgspec.Struct, frozen=True):
    """What a parser knows when it begins. `first_in_line`: nothing but indent and container marks stand before the opener."""

    options: ParserOptions
    calls: Calls
    first_in_line: bool = False
    early: bool = False
    hint: object = None


class BlockParser(Protocol):
    """Reads one block."""

    progress: list[Progress]
    """Emptied by the sieve after each feed; used with `Start.early` only."""

    def feed(self, text: str) -> Done | Rejected | None:
        """Take the next piece, which is never empty."""

    def close(self, *, truncated: bool) -> Done | Rejected:
        """The text ended, `truncated` when the model was cut off (S13)."""

"""The dialect `json_action`: a fence with the info string `json action` that holds `{"tool": ..., "parameters": {...}}` (S7, S8)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dialects.block import BlockParser, Opener, Start, begun
from pipeline.dialects.json_action.parse import ActionParser
from pipeline.dialects.json_action.render import render_calls
from pipeline.turn import Call, Tool

_MARKS = "(?:```|~~~)"
_BLANKS = r"[ \t]{0,16}+"
_LETTERS = tuple(f"[{char}{char.upper()}]" for char in "jsonaction")
_ACTION = (_MARKS + _BLANKS, *_LETTERS[:4], r"[ \t]{1,16}+", *_LETTERS[4:], r"[\s{\[]")
_PLAIN = (_MARKS + _BLANKS, *_LETTERS[:3], _LETTERS[3] + _BLANKS, r"[\r\n]")
_OPENERS = (
    Opener("".join(_ACTION), begun(_ACTION), "`~", fence=True),
    Opener("".join(_PLAIN), begun(_PLAIN), "`~", fence=True, line_start=True),
)


class JsonAction:
    """Writes, teaches and reads action fences."""

    name = "json_action"
    form = "a fenced `json action` block"
    markers = ("```json action", "~~~json action")
    spares: tuple[Opener, ...] = ()

    def describe(self, tools: Sequence[Tool], example: Call | None) -> str:
        """The format rules, with the example as a block; see `prompt.py`."""
        from pipeline.dialects.json_action.prompt import describe  # noqa: PLC0415 - the contract needs it, the parser never does

        return describe(tools, render_calls([example]) if example is not None else "")

    def render_calls(self, calls: Sequence[Call]) -> str:
        """One fence per call."""
        return render_calls(calls)

    def openers(self, *, wide: bool) -> tuple[Opener, ...]:  # noqa: ARG002 - a fence is a fence in every tolerance
        """The action fence anywhere in a line, and the plain JSON fence first in its line (S8)."""
        return _OPENERS

    def parser(self, start: Start) -> BlockParser:
        """A parser for one fence."""
        return ActionParser(start)

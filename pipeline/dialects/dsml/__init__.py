"""The dialect `dsml`: `<|DSML|tool_calls>` markup with values in CDATA, and its plain spelling `<tool_calls>` (S5, S6)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dialects.block import BlockParser, Opener, Start
from pipeline.dialects.dsml.parse import DsmlParser
from pipeline.dialects.dsml.render import render_calls
from pipeline.text.letters import LESS
from pipeline.text.tags import closer_patterns, opener_patterns
from pipeline.turn import Call, Tool


class Dsml:
    """Writes and teaches DSML markup, reads that and canonical XML."""

    name = "dsml"
    form = "a DSML tool_calls block"
    markers = ("<|DSML|tool_calls>", "<|DSML|invoke", "<|DSML|parameter", "<tool_calls>", "<invoke", "<parameter")
    spares = (Opener(*closer_patterns(), LESS),)

    def describe(self, tools: Sequence[Tool], example: Call | None) -> str:
        """The format rules, with the example as a block; see `prompt.py`."""
        from pipeline.dialects.dsml.prompt import describe  # noqa: PLC0415 - the contract needs it, the parser never does

        return describe(tools, render_calls([example]) if example is not None else "")

    def render_calls(self, calls: Sequence[Call]) -> str:
        """One shell around all calls."""
        return render_calls(calls)

    def openers(self, *, wide: bool) -> tuple[Opener, ...]:
        """A wrapper or an invoke, with whatever noise in its head."""
        whole, part = opener_patterns(wide=wide)
        return (Opener(whole, part, LESS),)

    def parser(self, start: Start) -> BlockParser:
        """A parser for one block."""
        return DsmlParser(start)

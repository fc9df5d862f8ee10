"""The built-in dialects, and the example of a third-party one, run the kit that anybody can run."""

from __future__ import annotations

import runpy
from pathlib import Path

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.testing.conformance import DialectConformance

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "bracket_dialect.py"))


class TestJsonAction(DialectConformance):
    dialect = JsonAction()
    fragments = ("```json action\n", "```json\n", '{"tool": "x", ', "}\n```", "~~~")


class TestDsml(DialectConformance):
    dialect = Dsml()
    fragments = ("<|DSML|tool_calls>", '<|DSML|invoke name="x">', "</|DSML|invoke>", "<|DSML|parameter", "]]>", "<![CDATA[")


class TestBrackets(DialectConformance):
    dialect = EXAMPLE["Brackets"]()
    fragments = ("[[", "[[call ", "]]", "[[call x {")

"""Shared by the tests of the refusal classifier: case files, their context, and a text read in pieces."""

from pathlib import Path

from pipeline import json_values
from pipeline.refusals.classifier import Classifier
from pipeline.refusals.context import Context
from pipeline.turn import Tool
from pipeline.verdicts import Hold

CASES = Path(__file__).parents[1] / "cases"
TOOLS = ("read_file", "write_file", "run_shell", "web_search")
LIMIT = 400


def cases(name):
    return [json_values.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def context_of(case):
    given = case.get("context", {})
    return context(*given.get("tools", TOOLS), results=given.get("prior_tool_results", False))


def context(*tools, results=False, failed=False):
    return Context(tuple(Tool(name=name) for name in (tools or ())), results=results, failed=failed)


def offered(**state):
    return context(*TOOLS, **state)


def scanned(text, about, pieces=1, limit=LIMIT, *, patient=False):
    """The scan of a text read in pieces of so many characters, closed."""
    scan = Classifier().scan(about, limit, patient=patient)
    for at in range(0, len(text), pieces):
        if scan.feed(text[at : at + pieces]) is not Hold.HOLD:
            break
    scan.close()
    return scan

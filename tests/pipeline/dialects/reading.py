"""Read one text with some dialects, whole and in pieces, and check every law on the way."""

from __future__ import annotations

import json

from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.sieve.reading import parse
from pipeline.testing import laws
from pipeline.turn import Tool
from pipeline.verdicts import FinishReason

STRING = {"type": "string"}
SAVE = Tool(
    name="save",
    parameters={
        "type": "object",
        "properties": {
            "path": STRING,
            "body": STRING,
            "n": {"type": "integer"},
            "flag": {"type": "boolean"},
            "tags": {"type": "array", "items": STRING},
            "opt": {"type": ["string", "null"]},
            "o": {"type": "object", "properties": {"k": {"type": "integer"}}},
        },
        "required": ["path"],
    },
)
TOOLS = (SAVE, Tool(name="ping"))
DIALECTS = load(("json_action", "dsml"))


def read(text, *, finish=FinishReason.STOP, tools=TOOLS, unescape=False, **options):
    """The reading of the whole text; pieces of every small size must give the same."""
    given = ParserOptions(tools=tools, **options)
    whole = parse(text, DIALECTS, given, finish=finish, unescape=unescape)
    if not options.get("stream_arguments") and not unescape:
        laws.check_run(text, whole.events)
    for size in (1, 2, 3, 7, 20):
        events = parse(text, DIALECTS, given, finish=finish, pieces=laws.pieces(text, size), unescape=unescape).events
        laws.check_same(text, whole.events, events, f"in pieces of {size}")
    return whole


def calls_of(reading):
    """Names and arguments, as values."""
    return [(call.name, json.loads(call.arguments)) for call in reading.calls]


def outcomes(reading):
    """What became of each block, and the repairs it took."""
    return [(block.outcome.value, [repair.value for repair in block.repairs]) for block in reading.blocks]

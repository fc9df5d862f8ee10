"""What the fuzzer calls: bytes in, nothing out, an exception when a law is broken.

The first byte chooses options, the second how the text is cut. The rest is, by the first bit of the first byte, dice for the grammar of
`pipeline/testing/grammar.py`, or the text itself, in which bytes that are no valid UTF-8 stand for whole markers, so that a mutation of one
byte can put in or take away a tag.
"""

from __future__ import annotations

import random

import msgspec

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.events import Failed
from pipeline.sieve.sieve import Sieve
from pipeline.testing import grammar, laws, written
from pipeline.testing.dice import Dice
from pipeline.turn import Tool
from pipeline.verdicts import FinishReason

DIALECTS = (JsonAction(), Dsml())
TOOLS = (
    Tool(name="x"),
    Tool(name="ab", parameters={"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}),
)
QUOTE = '```json\n{"tool": "x", "parameters": {}}\n```'
OPTIONS = (
    ParserOptions(),
    ParserOptions(tools=TOOLS),
    ParserOptions(tools=TOOLS, wide=True),
    ParserOptions(tools=TOOLS, quotes=(QUOTE,)),
    ParserOptions(tools=TOOLS, max_block_chars=48),
    ParserOptions(tools=TOOLS, max_tag_chars=20),
    ParserOptions(wide=True, max_block_chars=96, max_tag_chars=24),
    ParserOptions(tools=(), wide=True),
)
REASONS = (FinishReason.STOP, FinishReason.LENGTH, None, FinishReason.TOOL_CALLS)
STREAMED, NAMED = 0x20, 0x40
SMALL = (*grammar.SURROUNDINGS, *grammar.NASTY, *written.FRAGMENTS)
GRAMMAR = 0x80


def text_of(data: bytes) -> str:
    """The text that an input stands for."""
    if data[0] & GRAMMAR:
        return grammar.hostile_text(Dice(data[2:]), DIALECTS, written.FRAGMENTS, (written.dsml, written.json_action), most=12)
    decoded = data[2:].decode("utf-8", "surrogateescape")
    return "".join(SMALL[(ord(ch) - 0xDC80) % len(SMALL)] if "\udc80" <= ch <= "\udcff" else ch for ch in decoded)


def options_of(data: bytes) -> ParserOptions:
    """The options that an input's first byte chooses."""
    options = OPTIONS[data[0] & 7]
    if data[0] & STREAMED:
        options = msgspec.structs.replace(options, stream_arguments=True)
    return msgspec.structs.replace(options, unknown_tools="text") if data[0] & NAMED else options


def check(data: bytes) -> None:
    """Raise when a law breaks: no exception, the spans partition the input, no cut changes anything, batch equals stream."""
    if len(data) < 3:
        return
    options = options_of(data)
    reason = REASONS[(data[0] >> 3) & 3]
    text = text_of(data)
    whole = laws.run(Sieve(DIALECTS, options), [text], reason)
    if any(isinstance(event, Failed) for event in whole):
        assert options.stream_arguments, "only a committed call can end badly (E4)"
        assert isinstance(whole[-1], Failed), "nothing follows"
    else:
        laws.check_run(text, whole)
    laws.check_same(text, whole, laws.run(Sieve(DIALECTS, options), list(text), reason), "characters")
    source = random.Random(data[1])
    size = 1 + data[1] % 23
    cuts = [source.randrange(len(text) + 1) for _ in range(1 + len(text) // size)] if text else []
    laws.check_same(text, whole, laws.run(Sieve(DIALECTS, options), laws.split_at(text, cuts), reason), f"cuts {sorted(cuts)}")

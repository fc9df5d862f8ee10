"""What is code to CommonMark is an example to the sieve, and nothing else is (S4): judged by an independent implementation.

Random lines of fences, quotes, lists, headings and code spans, somewhere among them a complete block on one line. `markdown-it-py` says
whether that place is in a fence or a code span. Texts with indented code are left out: S4 knows only fences and spans.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, assume, given, settings
from markdown_it import MarkdownIt

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.sieve.sieve import Sieve
from pipeline.testing import laws
from pipeline.testing.strategies import built, cuts

EXAMPLES = 100_000 if os.environ.get("TOOLGRAFT_LAWS") == "long" else 2_000
PROFILE = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES < 10_000, database=None
)
pytestmark = pytest.mark.timeout(0 if EXAMPLES > 10_000 else 300)
DIALECTS = (JsonAction(), Dsml())
BLOCK = '<tool_calls><invoke name="probe"></invoke></tool_calls>'
COMMONMARK = MarkdownIt("commonmark").disable(["html_block", "html_inline", "reference", "link", "image", "autolink", "entity"])

FENCES = ("```", "````", "```xml", "~~~", "~~~~", "~~~ `x`", "``` a`b", "```` x", "`````", "``` ", "~~~ ")
PREFIXES = ("", "", "", "> ", ">", "- ", "* ", "1. ", "2) ", "  ", "   ", "    ", "     ", "\t", "> > ", "- - ", "> - ", "10. ", "-", "1.")
CONTENT = ("", "", "word", "word word", "# head", "---", "***", "===", "-", "+", "1.", ">", "a ~~~", "\\", "a\\")
SPANS = ("`", "``", "`", "a", " ", "\\`", "\\\\`", "word ", "```", "`` ` ``", "*", "[", "~~~")


def is_code(text: str) -> bool:
    for token in COMMONMARK.parse(text):
        if token.type == "fence" and BLOCK in token.content:
            return True
        for child in token.children or ():
            if child.type == "code_inline" and BLOCK in child.content:
                return True
    return False


def check(text: str, at: list[int]) -> None:
    assume(not any(BLOCK in token.info or token.type == "code_block" for token in COMMONMARK.parse(text)))
    wanted = () if is_code(text) else (("probe", "{}"),)
    for parts in ([text], list(text), laws.split_at(text, at)):
        told = laws.told(laws.run(Sieve(DIALECTS, ParserOptions()), parts))
        assert told.calls == wanted, text
        if not wanted:
            assert told.text.strip() == text.strip()


def fence_lines(dice) -> str:
    def line() -> str:
        prefix = "".join(dice.some(lambda: dice.one_of(PREFIXES), 2))
        return prefix + (dice.one_of(FENCES) if dice.seldom(2) else dice.one_of(CONTENT))

    def probe() -> str:
        return "".join(dice.some(lambda: dice.one_of(PREFIXES), 2)) + BLOCK

    return "\n".join([*dice.some(line, 6), probe(), *dice.some(line, 3)])


def spans(dice) -> str:
    def run() -> str:
        return "\n" * (1 + dice.below(2)) if dice.seldom(6) else dice.one_of(SPANS)

    return "x" + "".join([*dice.some(run, 8), BLOCK, *dice.some(run, 8)])


@PROFILE
@given(built(fence_lines, 48), cuts())
def test_fences_are_those_of_commonmark(text, at):
    check(text, at)


@PROFILE
@given(built(spans, 48), cuts())
def test_code_spans_are_those_of_commonmark(text, at):
    check(text, at)

"""The laws of the sieve, tried on thousands of texts each (SPEC section 5).

The profile `ci` (default) is derandomised: its verdict depends on the code alone. `TOOLGRAFT_LAWS=long` tries fifty times as many
texts, new ones every time; `TOOLGRAFT_LAWS=quick` is for working on the sieve.
"""

from __future__ import annotations

import html
import json
import os
import re

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.events import BlockSeen, CallDone, Dropped, ReasoningDelta
from pipeline.sieve.sieve import Sieve
from pipeline.testing import grammar, laws, written
from pipeline.testing.dice import Dice
from pipeline.testing.grammar import call
from pipeline.testing.strategies import built, cuts
from pipeline.text import echo
from pipeline.turn import Tool
from pipeline.verdicts import BlockOutcome, FinishReason, Repair, SpanKind

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=300, deadline=None, suppress_health_check=_CHECKS)
settings.register_profile("ci", max_examples=2_000, deadline=None, suppress_health_check=_CHECKS, derandomize=True, database=None)
settings.register_profile("ci half", settings.get_profile("ci"), max_examples=1_000)
settings.register_profile("long", max_examples=100_000, deadline=None, suppress_health_check=_CHECKS)
CHOSEN = os.environ.get("TOOLGRAFT_LAWS", "ci")
PROFILE = settings.get_profile(CHOSEN)
HALF = settings.get_profile("ci half") if CHOSEN == "ci" else PROFILE
"""For laws that are tried in many variants, each of which is narrow."""
pytestmark = pytest.mark.timeout(0 if os.environ.get("TOOLGRAFT_LAWS") == "long" else 300)

DIALECTS = (JsonAction(), Dsml())
PROSE = built(grammar.plain_prose, 12)
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
REASONS = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.LENGTH, None)
TOOLS = (
    Tool(
        name="look_up",
        parameters={
            "type": "object",
            "properties": {
                "berth": {"type": "integer"},
                "ship": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["berth"],
        },
    ),
    Tool(name="x"),
)


def sieve(*, unescape: bool = False, **options) -> Sieve:
    return Sieve(DIALECTS, ParserOptions(**options), unescape=unescape)


def read(text: str, reason: FinishReason | None = FinishReason.STOP, **options) -> laws.Told:
    return laws.told(laws.run(sieve(**options), [text], reason))


def meant(calls) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, laws.canonical(one.arguments.text())) for one in calls)


def anything() -> st.SearchStrategy[str]:
    return built(lambda dice: grammar.hostile_text(dice, DIALECTS, written.FRAGMENTS, (written.dsml, written.json_action)))


def option_sets() -> st.SearchStrategy[dict[str, object]]:
    return st.sampled_from(
        [
            {"tools": TOOLS},
            {},
            {"tools": TOOLS, "wide": True},
            {"tools": TOOLS, "max_block_chars": 60},
            {"tools": TOOLS, "max_tag_chars": 24},
            {"tools": TOOLS, "quotes": ('```json\n{"tool": "x", "parameters": {}}\n```',)},
        ]
    )


# --- laws over any text -------------------------------------------------------------------------------------------------------


@PROFILE
@given(anything(), cuts(), st.sampled_from(REASONS), option_sets())
def test_cuts_change_nothing(text, at, reason, options):
    whole = laws.run(sieve(**options), [text], reason)
    laws.check_same(text, whole, laws.run(sieve(**options), list(text), reason), "whole against characters")
    laws.check_same(text, whole, laws.run(sieve(**options), laws.split_at(text, at), reason), f"whole against {at}")


SMALLEST = '<tool_calls><invoke name="x"></invoke></tool_calls>'
FOUND = {
    "text behind a cut": ([f"{SMALLEST}ab", "\n<tool_result>", "yz"], {}),
    "a block behind a refused one": (
        [
            '<|DSML|tool_calls><|DSML|invoke name="look_up"></|DSML|invoke>',
            '<|DSML|invoke name="x"></|DSML|invoke></|DSML|tool_calls>',
        ],
        {"max_tag_chars": 24},
    ),
    "a name without quotes": (
        [
            "<|DSML|tool_calls><|DSML|invoke name=no such></|DSML|invoke>",
            "<|DSML|invoke name=x></|DSML|invoke></|DSML|tool_calls>",
        ],
        {"stream_arguments": True},
    ),
    "an example behind a refused tag": (
        ['  <tool_calls```json action\n{"tool": "x", "parameters": {}}\n```<|DSML|tool_calls>', SMALLEST],
        {},
    ),
    "white space in an attribute name": (["<invoke m", "\u2028\x00", '=""><parameter n="">'], {"wide": True}),
    "a result behind a plain call": (['```json\n{"tool":"x","parameters":{}```n', "\n<DSMLtool_result`"], {"max_tag_chars": 20}),
    "a limit inside a code span": (
        ['`>```json action{"tool":"d","parameters":{"":0}```\n', '```json action\n{"tool":"-","parameters": {}}\n```>'],
        {"max_block_chars": 80},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_once_broke_a_law_keeps_them_all(name):
    parts, options = FOUND[name]
    text = "".join(parts)
    whole = laws.run(sieve(tools=TOOLS, **options), [text])
    for cut in (parts, list(text), *(laws.pieces(text, size) for size in (2, 3, 7, 20))):
        events = laws.run(sieve(tools=TOOLS, **options), cut)
        laws.check_run(text, events)
        laws.check_same(text, whole, events, str(cut))


@PROFILE
@given(anything(), st.integers(1, 30), st.sampled_from(REASONS), option_sets())
def test_spans_partition_the_input_and_close_flushes(text, size, reason, options):
    events = laws.run(sieve(**options), laws.pieces(text, size), reason)
    laws.check_run(text, events)


@PROFILE
@given(anything(), st.sampled_from(REASONS), option_sets())
def test_blocks_say_what_became_of_them(text, reason, options):
    events = laws.run(sieve(**options), [text], reason)
    calls = [event for event in events if isinstance(event, CallDone)]
    blocks = [event for event in events if isinstance(event, BlockSeen)]
    running = [block for block in blocks if block.outcome in (BlockOutcome.PARSED, BlockOutcome.REPAIRED)]
    for block in blocks:
        inside = [one for one in calls if block.span[0] <= one.span[0] and one.span[1] <= block.span[1]]
        assert (block in running) == bool(inside), f"{block} with {inside}"
        if block in running:
            assert (block.outcome is BlockOutcome.REPAIRED) == bool(block.repairs), block
        else:
            assert not block.text or block.text in text, block
    for one in calls:
        assert any(block.span[0] <= one.span[0] and one.span[1] <= block.span[1] for block in running), one


@PROFILE
@given(anything(), st.integers(1, 20), st.sampled_from(REASONS))
def test_a_piece_is_judged_before_the_next_one_comes(text, size, reason):
    """Nothing that was said is taken back: after each piece the events are a beginning of the whole run's."""
    running = sieve(tools=TOOLS)
    events = []
    whole = laws.told(laws.run(sieve(tools=TOOLS), [text], reason))
    for part in laws.pieces(text, size):
        events += running.feed(part)
        so_far = laws.told(events)
        assert whole.text.startswith(so_far.text)
        assert whole.calls[: len(so_far.calls)] == so_far.calls


@PROFILE
@given(anything(), st.integers(1, 20))
def test_memory_is_bounded(text, size):
    """What is held is one block, one tag, one run of white space or marks at the most (S14)."""
    running = sieve(tools=TOOLS, max_block_chars=40, max_tag_chars=24)
    fed = out = 0
    for part in laws.pieces(text, size):
        events = running.feed(part)
        fed += len(part)
        out = max(out, laws.released(events))
        held = text[out:fed].strip()
        assert len(re.sub(r"(.)\1+", r"\1", held)) <= 40 + 24 + size + 24, f"{len(held)} held: {held!r}"


# --- laws over calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_rendered_is_read_back(name):
    @PROFILE
    @given(built(grammar.calls), cuts())
    def law(calls, at):
        text = BY_NAME[name].render_calls(calls)
        events = laws.run(sieve(), laws.split_at(text, at))
        told = laws.told(events)
        assert told.calls == meant(calls), text
        assert not told.text
        assert all(block.outcome is BlockOutcome.PARSED for block in told.blocks), told.blocks

    law()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", BY_NAME)
def test_values_that_fit_their_schema_are_read_back(name, wide):
    @PROFILE
    @given(built(grammar.declared_calls))
    def law(case):
        calls, tools = case
        text = BY_NAME[name].render_calls(calls)
        told = read(text, tools=tools, wide=wide)
        assert told.calls == meant(calls), text
        assert not told.text
        assert all(block.outcome is BlockOutcome.PARSED for block in told.blocks), told.blocks

    law()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_block_between_plain_words_leaves_no_trace(name):
    @PROFILE
    @given(PROSE, built(grammar.calls, 60), PROSE, cuts())
    def law(before, calls, after, at):
        block = BY_NAME[name].render_calls(calls)
        head = before + "\n\n" if before else ""
        tail = "\n\n" + after if after else ""
        text = head + block + tail
        for parts in ([text], list(text), laws.split_at(text, at)):
            told = laws.told(laws.run(sieve(), parts))
            assert told.calls == meant(calls)
            if before and after:
                # White space between two blocks has visible text on both sides, too, and stays.
                assert told.text.startswith(head)
                assert told.text.endswith(tail)
                assert told.text[len(head) : len(told.text) - len(tail)].strip() == ""
            else:
                assert told.text == before + after

    law()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_truncated_block_is_no_call(name):
    @PROFILE
    @given(built(grammar.calls), st.floats(0, 1), st.sampled_from((FinishReason.LENGTH, None)), st.booleans())
    def law(calls, share, reason, wide):
        text = BY_NAME[name].render_calls(calls)
        cut = text[: int(len(text) * share)]
        tools = tuple({one.name: Tool(name=one.name) for one in calls}.values())
        got = read(cut, reason, tools=tools, wide=wide).calls
        assert got == meant(calls)[: len(got)], cut

    law()


@pytest.mark.parametrize("mark", ["`", "~"])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_block_in_a_longer_fence_is_an_example(name, mark):
    @HALF
    @given(PROSE, built(grammar.calls, 60), st.booleans(), cuts())
    def law(before, calls, closed, at):
        block = BY_NAME[name].render_calls(calls)
        runs = [len(run) for run in re.findall(re.escape(mark) + "+", block)]
        fence = mark * max(3, *(length + 1 for length in runs), 0)
        text = f"{before}\n{fence}text\n{block}\n" + (f"{fence}\n{before}." if closed else "")
        for parts in ([text], laws.split_at(text, at)):
            told = laws.told(laws.run(sieve(), parts))
            assert not told.calls
            assert told.text.strip() == text.strip()

    law()


@HALF
@given(
    PROSE,
    st.dictionaries(st.sampled_from("ab"), st.text("xyz <>&'\"é", max_size=8)),
    st.integers(1, 3),
    cuts(),
)
def test_a_block_in_a_code_span_is_an_example(before, arguments, length, at):
    block = re.sub(r"\s*\n\s*", "", BY_NAME["dsml"].render_calls([call("x", arguments)]))
    assume("\n" not in block and read(block).calls)
    text = f"so {before} {'`' * length} {block} {'`' * length} {before}."
    for parts in ([text], list(text), laws.split_at(text, at)):
        told = laws.told(laws.run(sieve(), parts))
        assert not told.calls
        assert told.text == text


SEPARATORS = ("|", "｜", "||", "｜｜", "", "_", " | ", "|\u200b", "\u200b|", "｜ ", "▁|")


@HALF
@given(
    st.sampled_from(SEPARATORS),
    st.sampled_from(SEPARATORS),
    st.sampled_from(["DSML", "dsml", "Dsml", "ＤＳＭＬ"]),
    st.sampled_from(["<", "＜", "< "]),
    st.sampled_from([">", "＞", " >", "|>"]),
    st.sampled_from(["/", "／"]),
    st.sampled_from(['"{}"', "'{}'", "“{}”", "＂{}＂", "{}"]),
    st.sampled_from(["=", "＝", " = "]),
    st.sampled_from([str.lower, str.upper, str.title]),
    cuts(),
)
def test_noise_in_tags_is_folded(left, right, word, less, greater, slash, quoted, equals, case, at):
    """Every noise that S5 names, in any combination, on every tag of a block alike."""
    assume(right or word != "ＤＳＭＬ")
    attribute = f"name{equals}{quoted}"
    head, foot = f"{less}{left}{word}{right}", f"{less}{slash}{left}{word}{right}"
    text = (
        f"{head}{case('tool_calls')}{greater}\n"
        f"{head}{case('invoke')} {attribute.format('look_up')}{greater}\n"
        f"{head}{case('parameter')} {attribute.format('ship')}{greater}<![CDATA[<|DSML| Ｇull＞]]>{foot}{case('parameter')}{greater}\n"
        f"{head}{case('parameter')} {attribute.format('berth')}{greater}7{foot}{case('parameter')}{greater}\n"
        f"{foot}{case('invoke')}{greater}\n{foot}{case('tool_calls')}{greater}"
    )
    for parts in ([text], list(text), laws.split_at(text, at)):
        told = laws.told(laws.run(sieve(tools=TOOLS), parts))
        assert told.calls == (("look_up", laws.canonical('{"ship": "<|DSML| Ｇull＞", "berth": 7}')),), text
        assert not told.text


# --- repairs and readings -----------------------------------------------------------------------------------------------------

WORDS = ("quay", "None", "True,", ", }", "a ]", "// x", "{'b': 1}", "12", "é漢🙂", "it's", "null", "-", " ")


def simple(dice: Dice, depth: int = 2) -> object:
    """A value whose strings hold no quote and no backslash, but everything else that a repair could mistake for JSON."""
    kind = dice.below(7 if depth else 5)
    if kind <= 1:
        return "".join(dice.some(lambda: dice.one_of(WORDS), 3))
    if kind == 2:
        return dice.one_of((0, -7, 12345678901234567890123, 1.5))
    if kind == 3:
        return dice.one_of((True, False, None))
    if kind == 4:
        return "one\ntwo\tthree"
    if kind == 5:
        return dice.some(lambda: simple(dice, depth - 1), 3)
    return {dice.one_of("abc"): simple(dice, depth - 1) for _ in range(dice.below(3))}


def simple_arguments(dice: Dice) -> dict[str, object]:
    return {"k": simple(dice), **{dice.one_of("abc"): simple(dice) for _ in range(dice.below(3))}}


def outside_strings(text: str, change) -> str:
    """Change JSON text where it is not inside a string."""
    return "".join(part if part.startswith('"') else change(part) for part in re.split(r'("[^"]*")', text))


def trailing_commas(text: str) -> str:
    """A comma in front of every closing bracket of what is not empty."""
    return re.sub(r'("[^"]*")|(?<![\[{])([\]}])', lambda found: found[1] or f",{found[2]}", text)


def action(arguments: str) -> str:
    return f'```json action\n{{"tool": "x", "parameters": {arguments}}}\n```'


DRIFTS = {
    Repair.TRAILING_COMMA: lambda text: action(trailing_commas(text)),
    Repair.CONTROL_CHARACTERS: lambda text: action(text.replace("\\n", "\n").replace("\\t", "\t")),
    Repair.PYTHON_LITERALS: lambda text: action(
        outside_strings(text, lambda part: part.replace("true", "True").replace("false", "False").replace("null", "None"))
    ),
    Repair.SMART_QUOTES: lambda text: action(re.sub('"([^"]*)"', "“\\1”", text)),
    Repair.STRINGIFIED_ARGUMENTS: lambda text: action(json.dumps(text)),
    Repair.MISSING_FENCE: lambda text: action(text)[: -len("\n```")],
    Repair.MISSING_BRACKETS: lambda text: action(text).replace("}\n```", "\n```"),
}


@pytest.mark.parametrize("repair", DRIFTS)
def test_a_narrow_repair_brings_back_what_was_meant(repair):
    @HALF
    @given(built(simple_arguments, 40), cuts())
    def law(arguments, at):
        text = DRIFTS[repair](json.dumps(arguments, ensure_ascii=False))
        for parts in ([text], list(text), laws.split_at(text, at)):
            told = laws.told(laws.run(sieve(tools=TOOLS), parts))
            assert told.calls == meant([call("x", arguments)]), text
            assert told.text == ""
            assert set(told.blocks[0].repairs) <= {repair}, told.blocks

    law()


@HALF
@given(
    built(lambda dice: grammar.nasty_text(dice, ("<", ">", "&", "&amp;", '"', "'", "é", "]]>", "<b>", "\n", "x")), 24),
    st.booleans(),
    cuts(),
)
def test_entities_outside_cdata_are_decoded_once(value, declared, at):
    assume(value == value.strip() and not re.search("[\r\x85\u2028]", value))
    attribute = "" if declared else ' string="true"'
    block = (
        f'<tool_calls><invoke name="look_up"><parameter name="berth">1</parameter><parameter name="ship"{attribute}>{html.escape(value)}'
        "</parameter></invoke></tool_calls>"
    )
    told = laws.told(laws.run(sieve(tools=TOOLS if declared else ()), laws.split_at(block, at)))
    assert told.calls == meant([call("look_up", {"berth": 1, "ship": value})])


@pytest.mark.parametrize("mark", ["[Tool Result: x] ", "<tool_result>", "<|DSML|tool_result>"])
@pytest.mark.parametrize("name", BY_NAME)
def test_an_invented_result_is_cut_with_all_that_follows(name, mark):
    @HALF
    @given(built(lambda dice: grammar.calls(dice, 2), 60), anything(), cuts())
    def law(calls, tail, at):
        block = BY_NAME[name].render_calls(calls)
        text = f"{block}\n{mark}{tail}"
        for parts in ([text], laws.split_at(text, at)):
            events = laws.run(sieve(), parts)
            told = laws.told(events)
            assert told.calls == meant(calls)
            assert told.text == ""
            last = told.content[-1]
            assert isinstance(last, Dropped)
            assert last.kind is SpanKind.CUT
            assert last.span == (len(block) + 1, len(text))
            laws.check_run(text, events)

    law()


@HALF
@given(anything(), built(lambda dice: grammar.calls(dice, 1), 40), st.booleans(), cuts())
def test_reasoning_runs_nothing_and_hides_nothing_behind_it(thought, calls, closed, at):
    assume("think" not in thought.lower())
    text = f"<think>{thought}" + (f"</think>\n\n{BY_NAME['dsml'].render_calls(calls)}" if closed else "")
    for parts in ([text], list(text), laws.split_at(text, at)):
        told = laws.told(laws.run(sieve(), parts))
        assert told.calls == (meant(calls) if closed else ())
        assert told.text == ""
        assert "".join(event.text for event in told.content if isinstance(event, ReasoningDelta)).strip() == thought.strip()


# --- arguments that stream (E4) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_streamed_arguments_add_up_to_the_same_call(name):
    @PROFILE
    @given(built(grammar.declared_calls), cuts())
    def law(case, at):
        calls, tools = case
        text = BY_NAME[name].render_calls(calls)
        for parts in ([text], list(text), laws.split_at(text, at)):
            events = laws.run(sieve(tools=tools, stream_arguments=True), parts)
            laws.check_calls(events)
            assert laws.told(events).calls == meant(calls)

    law()


@PROFILE
@given(anything(), cuts(), st.sampled_from(REASONS), st.booleans())
def test_streamed_arguments_do_not_depend_on_cuts(text, at, reason, wide):
    options = {"tools": TOOLS, "stream_arguments": True, "wide": wide}
    whole = laws.run(sieve(**options), [text], reason)
    laws.check_same(text, whole, laws.run(sieve(**options), list(text), reason), "whole against characters")
    laws.check_same(text, whole, laws.run(sieve(**options), laws.split_at(text, at), reason), f"whole against {at}")
    laws.check_calls(whole)


# --- what is held back --------------------------------------------------------------------------------------------------------


@PROFILE
@given(st.lists(PROSE.map(lambda words: words + " "), max_size=6), st.integers(1, 9))
def test_plain_words_are_never_held(words, size):
    """Only white space waits: it may turn out to stand at the end, or next to a block (S12)."""
    text = "".join(words)
    running = sieve()
    fed = out = 0
    for part in laws.pieces(text, size):
        events = running.feed(part)
        fed += len(part)
        out = max(out, laws.released(events))
        assert text[out:fed].strip(" \n") == "", text[out:fed]


MENTIONS = (
    "<tool_calls>",
    "</tool_calls>",
    "<|DSML|tool_calls>",
    "</|DSML|tool_calls>",
    "<｜DSML｜tool_calls>",
    "<|DSML|",
    "<tool_calls",
    "<tool_c",
    "<invoke>",
    "<invoke",
    '<invoke name="x">',
    "</invoke>",
    "<parameter>",
    '<parameter name="x">',
    "</parameter>",
    "<![CDATA[",
    "]]>",
    "<think>",
    "</think>",
    "<tool_result>",
    "[Tool Result: x]",
    "json action",
    "```json action",
    "~~~json action",
    "`<tool_calls>`",
    "`` <tool_calls> ``",
    "`json action`",
    "<",
    "a < b",
    "{",
    '{"tool": "x"',
)


OPEN_TAGS = ("<tool_calls", "<invoke", "<|DSML|")


@pytest.mark.parametrize("mention", MENTIONS)
@pytest.mark.parametrize("before", ["We use ", "We use the\n", "> We use ", "- ", ""])
@pytest.mark.parametrize("after", [" as our wrapper, and then some words follow.", ", then more.", "\nNext line, more words."])
def test_a_mention_delays_nothing_but_itself(mention, before, after):
    """Character by character: behind the mention, a character that is neither white space nor an opener is out at once (line G)."""
    if before == "" and mention == "<think>":
        pytest.skip("at the start of a reply this is reasoning, not a mention")
    text = before + mention + after
    running = sieve(tools=TOOLS)
    out = 0
    grace = len(before + mention) + _slack(mention, after)
    for fed, character in enumerate(text, 1):
        out = max(out, laws.released(running.feed(character)))
        if fed <= len(before):
            assert text[out:fed].strip(" \n->") == "", f"held before the mention: {text[out:fed]!r}"
        if fed >= grace:
            assert text[out:fed].isspace() or out == fed, f"held behind the mention: {text[out:fed]!r}"
    assert laws.told(running.close(FinishReason.STOP)).calls == ()


def _slack(mention: str, after: str) -> int:
    """White space behind a marker is still layout of a block, and a word behind a tag that is not closed may be an attribute."""
    words = re.match(r"[\s,]*(\w+\s)?", after) if mention in OPEN_TAGS else re.match(r"[\s,]*", after)
    return (words.end() if words else 0) + 1


# --- echo (C10) ---------------------------------------------------------------------------------------------------------------


@PROFILE
@given(anything(), cuts())
def test_escaped_text_is_no_call_and_comes_back_as_it_was(text, at):
    assume("json\n" not in text.lower().replace(" ", "").replace("\r", "\n") or "tool" not in text)
    escaped = echo.escape(text)
    events = laws.run(sieve(unescape=True), laws.split_at(escaped, at))
    told = laws.told(events)
    assert told.calls == ()
    laws.check_spans(escaped, events, shown=echo.unescape)
    kept = [event for event in told.content if not isinstance(event, Dropped) or event.kind is not SpanKind.TRIMMED]
    assert all(not isinstance(event, Dropped) for event in kept)


@pytest.mark.parametrize("name", BY_NAME)
def test_escapes_are_undone_in_arguments(name):
    @HALF
    @given(built(lambda dice: grammar.nasty_text(dice, written.FRAGMENTS + grammar.NASTY), 24), cuts())
    @example("<|DSML|tool_calls>", [])
    def law(text, at):
        block = BY_NAME[name].render_calls([call("x", {"a": echo.escape(text), "b": [{"c": echo.escape(text)}]})])
        told = laws.told(laws.run(sieve(unescape=True), laws.split_at(block, at)))
        assert told.calls == meant([call("x", {"a": text, "b": [{"c": text}]})])

    law()

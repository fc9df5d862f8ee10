"""One tag, with whatever noise a model put into it (S5)."""

from __future__ import annotations

import re

import pytest

from pipeline.text.tags import BAD, SECTION, closer_patterns, may_be_section, opener_patterns, read_tag

LIMIT = 512


@pytest.mark.parametrize(
    ("text", "word", "dsml", "name"),
    [
        ("<|DSML|tool_calls>", "tool_calls", True, None),
        ("<｜DSML｜tool_calls>", "tool_calls", True, None),
        ("<tool_calls>", "tool_calls", False, None),
        ("<TOOL_CALLS>", "tool_calls", False, None),
        ("<|DSML|function_calls>", "tool_calls", True, None),
        ('<invoke name="a b">', "invoke", False, "a b"),
        ("<invoke name='x'>", "invoke", False, "x"),
        ("<invoke name=ns/tool:v2>", "invoke", False, "ns/tool:v2"),
        ("<invoke name=“x”>", "invoke", False, "x"),
        ('<invoke name="x”>', "invoke", False, "x"),
        ('<invoke name="it”s">', "invoke", False, "it”s"),
        ('<invoke id="7" name="x" kind=clock>', "invoke", False, "x"),
        ('<invoke name="a&amp;b&#34;">', "invoke", False, 'a&b"'),
        ('<|DSML| invoke name = "x" >', "invoke", True, "x"),
        ('< | DSML | parameter name="x">', "parameter", True, "x"),
        ('<DSML|invoke name="x">', "invoke", True, "x"),
        ('<dsml_invoke name="x">', "invoke", True, "x"),
        ('<DSMLinvoke name="x">', "invoke", True, "x"),
        ('<|DSML|DSML|invoke name="x"|>', "invoke", True, "x"),
        ('<||DSML||invoke name="x">', "invoke", True, "x"),
        ('<！DSML！invoke name="x">', "invoke", True, "x"),
        ('<、DSML、invoke name="x">', "invoke", True, "x"),
        ('<DSML␂invoke name="x">', "invoke", True, "x"),
        ("＜|DSML|invoke name＝＂x＂＞", "invoke", True, "x"),
        ('<ｄＳＭＬ|invоke nаme="x">', "invoke", True, "x"),
        ('<|DSML|in\u200bvoke name="x">', "invoke", True, "x"),
        ('<invoke\n  name="x"\n>', "invoke", False, "x"),
    ],
)
def test_noise_is_folded(text, word, dsml, name):
    tag = read_tag(text, 0, LIMIT)
    assert (tag.word, tag.dsml, tag.name, tag.closing, tag.empty) == (word, dsml, name, False, False)
    assert tag.end == len(text)
    for at in range(1, len(text)):
        assert read_tag(text[:at], 0, LIMIT) is None, text[:at]


@pytest.mark.parametrize(
    "text",
    ["</|DSML|invoke>", "</invoke>", "<|/DSML|invoke>", "＜／DSML|invoke＞", "<！/DSML！invoke>", "</ invoke >", "</|DSML| invoke|>"],
)
def test_closers(text):
    tag = read_tag(text, 0, LIMIT)
    assert (tag.word, tag.closing) == ("invoke", True)


@pytest.mark.parametrize("text", ['<invoke name="x"/>', '<|DSML|invoke name="x" />', "<invoke name=x/>", '<invoke name="x"／＞'])
def test_empty_tags(text):
    tag = read_tag(text, 0, LIMIT)
    assert (tag.name, tag.empty, tag.closing) == ("x", True, False)


@pytest.mark.parametrize("text", ["<|DSML|tool_calls\n<", "<|DSML|tool_calls|\r\n  <", '<invoke name="x"\n<'])
def test_a_lost_end_before_a_line_break_and_the_next_tag(text):
    tag = read_tag(text, 0, LIMIT)
    assert tag.lost_end
    assert tag.end == len(text) - 1
    assert read_tag(text[:-1], 0, LIMIT) is None


@pytest.mark.parametrize(
    "text",
    [
        *("<b>", "< b", "<tool_calls_log>", "<invoker>", "<invoke.x>", "<tool-calls>", "<param name='x'>", "<!-- tool_calls -->"),
        *(
            "<|DSML|¬tool_calls>",
            "<¬invoke>",
            "<function_calls>",
            "<invoke <",
            "<invoke something else",
            "<invoke name=>",
            '<invoke name="x"/ y="z">',
        ),
    ],
)
def test_other_things_are_no_tags(text):
    assert read_tag(text, 0, LIMIT) == BAD


def test_string_attribute():
    assert read_tag('<parameter name="a" string="true">', 0, LIMIT).string is True
    assert read_tag('<parameter string=“false” name="a">', 0, LIMIT).string is False
    assert read_tag('<parameter name="a" string="maybe">', 0, LIMIT).string is None


def test_no_tag_is_longer_than_the_limit():
    text = f'<invoke name="{"x" * 40}">'
    assert read_tag(text, 0, len(text)).end == len(text)
    for size in (len(text), len(text) + 5):
        assert read_tag((text + "     ")[:size], 0, len(text) - 1) == BAD
    assert read_tag(text[:30], 0, 29) == BAD
    assert read_tag(text[:29], 0, 29) is None


def test_what_is_noise_and_what_is_not():
    assert not any(
        read_tag(text, 0, LIMIT).noisy for text in ("<|DSML|tool_calls>", "<｜DSML｜invoke name='x'>", '<invoke id="1" name="x">')
    )
    assert all(
        read_tag(text, 0, LIMIT).noisy for text in ("<|DSML|tool_calls|>", "<dsml|invoke name='x'>", "<invoke name=x>", "<TOOL_CALLS>")
    )


def test_misspelt_wrappers_count_in_the_wide_tolerance_only():
    for text in ("<|DSML|calls>", "<tool_call>", "<function_calls>", "<|DSML|tvoe_calls>", "<｜DSML｜ calls>"):
        assert read_tag(text, 0, LIMIT) == BAD
        tag = read_tag(text, 0, LIMIT, wide=True)
        assert (tag.word, tag.misspelt) == ("tool_calls", True)


@pytest.mark.parametrize("wide", [False, True])
def test_opener_patterns_match_whole_heads_and_their_beginnings(wide):
    whole, part = (re.compile(pattern) for pattern in opener_patterns(wide=wide))
    for text in ("<|DSML|tool_calls>", '<invoke name="x">', "<｜DSML｜function_calls ", "＜dsml_invoke|"):
        assert whole.match(text)
        for at in range(1, len(text)):
            assert part.match(text[:at]) or whole.match(text[:at]), text[:at]
    for text in ("<b>", "</tool_calls>", "<tool_calls_x ", "<parameter ", "< b>", "<|x>"):
        assert not whole.match(text)
        assert not part.match(text)


def test_closer_patterns_match_whole_closers_and_their_beginnings():
    whole, part = (re.compile(pattern) for pattern in closer_patterns())
    for text in ("</|DSML|tool_calls>", "</invoke>", "<|/DSML|parameter|>"):
        assert whole.match(text)
        for at in range(1, len(text)):
            assert part.match(text[:at]), text[:at]
    for text in ("<tool_calls>", "</b>", "<|DSML|invoke>"):
        assert not whole.match(text)


def test_cdata_openers():
    for text in ("<![CDATA[", "<！[CDATA[", "<、[cdata[", "＜![CDATA["):
        assert SECTION.match(text)
        assert all(may_be_section(text[:at], 0) for at in range(1, len(text)))
    assert not SECTION.match("<[x")
    assert not may_be_section("<a", 0)

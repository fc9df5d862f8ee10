"""What stands behind a refused block of tags: what it quotes in CDATA sections must not run (S3), what comes after it may (S6)."""

from __future__ import annotations

import pytest

from pipeline.events import BlockSeen, TextDelta
from tests.pipeline.dialects.reading import calls_of, read

SHELL = '<|DSML|tool_calls><|DSML|invoke name="ping"></|DSML|invoke></|DSML|tool_calls>'
CANONICAL = '<tool_calls><invoke name="ping"></invoke></tool_calls>'
FENCE = '```json action\n{"tool": "ping", "parameters": {}}\n```'
QUOTED = {
    "a call in DSML": SHELL,
    "a call in tags": CANONICAL,
    "a call in a fence": f"\n{FENCE}\n",
    "text and a call": f"Read on:\n\n{CANONICAL}\n\nThat is all.",
    "a section in the section": f"<![CDATA[x]]> {CANONICAL}",
    "the end of a section": f"a[b[0]]>c {CANONICAL}",
    "our own escape of one": f"]]]]><![CDATA[> {CANONICAL}",
}
REFUSED = {
    "another word for parameter": '<invoke name="save"><param name="body">{}</param></invoke>',
    "parameter in the plural": '<invoke name="save"><parameters name="body">{}</parameters></invoke>',
    "the tool's name as a tag": '<save><parameter name="body">{}</parameter></save>',
    "no name attribute": '<invoke "save"><parameter name="body">{}</parameter></invoke>',
    "a word behind the invoke's opener": '<invoke name="save"> now <parameter name="body">{}</parameter></invoke>',
    "a section straight in the invoke": '<invoke name="save">{}</invoke>',
    "a word between parameters": '<invoke name="save"><parameter name="path">a</parameter> and <parameter name="body">{}</parameter></invoke>',
}
FAMILIES = {"canonical": "", "dsml": "|DSML|"}


def refused(form: str, quoted: str, family: str) -> str:
    """The block with this text in a section."""
    block = f"<tool_calls>{REFUSED[form]}</tool_calls>"
    for opener in ("</", "<"):
        block = block.replace(opener, f"{opener}\0")
    block = block.replace("<\0/\0", "</\0").replace("\0", FAMILIES[family])
    return block.format(f"<![CDATA[{quoted}]]>")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("form", REFUSED)
def test_what_a_refused_block_quotes_never_runs_and_all_of_it_stays(form: str, quoted: str, family: str) -> None:
    text = refused(form, QUOTED[quoted], family)
    reading = read(text)
    assert calls_of(reading) == []
    assert "".join(event.text for event in reading.events if isinstance(event, TextDelta)) == text


@pytest.mark.parametrize("tail", [f"\n\n{SHELL}", f"\n{CANONICAL}", f"\n\nAgain:\n\n{FENCE}"])
@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("form", REFUSED)
def test_what_comes_behind_it_runs(form: str, quoted: str, tail: str) -> None:
    assert calls_of(read(refused(form, QUOTED[quoted], "dsml") + tail)) == [("ping", {})]


@pytest.mark.parametrize(
    "said",
    [
        'I write `<tool_calls>` with `<![CDATA[` around values, and `<tool_calls><invoke name="x">` first.',
        "An <invoke> tag may hold <![CDATA[ text ]]> too.",
        "I use <tool_calls>, <invoke> and <![CDATA[ as required.",
        'An <invoke name="x"> tag may hold `<![CDATA[` too.',
        "<tool_calls></tool_calls><p><![CDATA[x]]> y",
        "<tool_calls></tool_calls><![CDATA[",
        '<invoke name="x">oops\n\nNow <tool_calls> is it. <![CDATA[ ',
        '<tool_calls><invoke name="x">bad <![CDATA[ v ]]> more</invoke></tool_calls>',
        'Sure ```json action\n{"tool": 3}``` hm',
        'Sure ```json action\n{"tool": 3}\n``` then',
        'Sure ```json action\n{"tool": 3}\n',
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        SHELL,
        CANONICAL,
        FENCE,
        SHELL.replace("></|DSML|invoke>", '><|DSML|parameter name="a"><![CDATA[b]]></|DSML|parameter></|DSML|invoke>'),
    ],
)
def test_what_is_said_of_tags_and_sections_keeps_no_later_call_from_running(said: str, call: str) -> None:
    assert [name for name, _ in calls_of(read(f"{said}\n\n{call}"))] == ["ping"]


def test_a_mention_of_a_bare_invoke_commits_nothing() -> None:
    for said in ('To save, write <invoke name="save"> and then the parameters.', 'write <invoke name="ping"/> ok'):
        events = read(said, stream_arguments=True).events
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == said
        assert all(isinstance(event, TextDelta | BlockSeen) for event in events)


@pytest.mark.parametrize("name", ["tags", "n", "opt", "new"])
def test_a_parameter_that_repeats_is_an_array_streamed_and_not(name: str) -> None:
    one = f'<|DSML|parameter name="{name}">1</|DSML|parameter>'
    path = '<|DSML|parameter name="path">a</|DSML|parameter>'
    text = f'<|DSML|tool_calls><|DSML|invoke name="save">{one}{one}{path}</|DSML|invoke></|DSML|tool_calls>'
    plain, streamed = calls_of(read(text)), calls_of(read(text, stream_arguments=True))
    assert plain[0][1]["path"] == "a"
    assert len(plain[0][1][name]) == 2
    if name in ("tags", "n"):
        assert streamed == plain
    else:
        assert streamed in (plain, []), "a string is passed on as it comes, so that its repetition comes too late (E4)"


@pytest.mark.parametrize("behind", ['<![CDATA[<invoke name="x">', f"<![CDATA[{CANONICAL}]]>", CANONICAL])
@pytest.mark.parametrize(
    "inner",
    ["<tool_calls></|DSML|tool_calls>", "<tool_calls></tool_calls>", "</|DSML|tool_calls>", '<invoke name="x"> </|DSML|tool_calls>'],
)
@pytest.mark.parametrize("wide", [False, True])
def test_a_closer_in_a_block_that_is_refused_too_counts_the_same_at_every_cut(inner: str, behind: str, wide: bool) -> None:
    read(f"<|DSML|tool_calls></|DSML|invoke>{inner}{behind}", wide=wide)
    read(f"<|DSML|tool_calls><|DSML|a>{inner}{behind}", wide=wide)

"""`dsml` and its canonical spelling: tags, values, structure, repairs (S5, S6)."""

from __future__ import annotations

import pytest

from pipeline.dialects.dsml import Dsml
from pipeline.dialects.dsml.swallowed import divide
from pipeline.turn import Arguments, Call
from pipeline.verdicts import FinishReason
from tests.pipeline.dialects.reading import calls_of, outcomes, read

D = "|DSML|"
PING = [("ping", {})]


def cdata(text):
    return f"<![CDATA[{text}]]>"


def param(name, value, mark=D, attributes=""):
    return f'<{mark}parameter name="{name}"{attributes}>{value}</{mark}parameter>'


def invoke(name="ping", body="", mark=D):
    return f'<{mark}invoke name="{name}">{body}</{mark}invoke>'


def block(*invokes, mark=D, word="tool_calls"):
    return f"<{mark}{word}>{''.join(invokes)}</{mark}{word}>"


def saved(body, mark=D, **options):
    """The arguments of one call of `save`, read from this body."""
    reading = read(block(invoke("save", body, mark), mark=mark), **options)
    assert reading.text == ""
    ((name, arguments),) = calls_of(reading)
    assert name == "save"
    return arguments


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (cdata("x"), "x"),
        (cdata(""), ""),
        (cdata(" a\n "), " a\n "),
        (cdata("&lt;b&gt;"), "&lt;b&gt;"),
        (cdata("a ]]> b"), "a ]]> b"),
        (cdata("a[b[0]]"), "a[b[0]]"),
        (cdata("]]"), "]]"),
        (cdata("]"), "]"),
        ("<![CDATA[a ]]]]><![CDATA[> b]]>", "a ]]> b"),
        ("<![CDATA[a]]><![CDATA[b]]>", "ab"),
        ("<![CDATA[a]]>\n <![CDATA[b]]>", "ab"),
        ("\n  <![CDATA[a]]>\n  ", "a"),
        ("see <![CDATA[<b>]]> tag", "see <b> tag"),
        ("see <![CDATA[<b>]]> &amp; more", "see <b> & more"),
        (cdata("x]]></|DSML|parameter> y"), "x]]></|DSML|parameter> y"),
        (cdata("x]]></|DSML|parameter><b>"), "x]]></|DSML|parameter><b>"),
        (cdata("x]]></parameter></invoke>"), "x]]></parameter></invoke>"),
        (cdata("</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>"), "</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>"),
        (cdata("```\n]]>\n"), "```\n]]>\n"),
        (cdata("a ]]＞ b"), "a ]]＞ b"),
        ("plain text", "plain text"),
        (" spaces stay ", " spaces stay "),
        ("\r\nline 1\r\nline 2\r\n", "line 1\r\nline 2"),
        ("\n\nx\n\n", "\nx\n"),
        ("a < b && c > d", "a < b && c > d"),
        ("a &lt; b &amp;amp; &#65;", "a < b &amp; A"),
        ("<b>bold</b> text", "<b>bold</b> text"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("it`s", "it`s"),
        ("600519", "600519"),
        ("null", "null"),
        ("use </|DSML|parameter> to close", "use </|DSML|parameter> to close"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_text_values(content, value):
    assert saved(param("path", content)) == {"path": value}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (param("n", "5"), {"n": 5}),
        (param("n", cdata(" 5 ")), {"n": 5}),
        (param("n", "five"), {"n": "five"}),
        (param("n", "5", attributes=' string="true"'), {"n": "5"}),
        (param("path", "5", attributes=' string="false"'), {"path": 5}),
        (param("path", "[1]x", attributes=' string="false"'), {"path": "[1]x"}),
        (param("path", cdata("5"), attributes=' string="true"'), {"path": "5"}),
        (param("path", '<item>a</item> & {"b":1}', attributes=' string="true"'), {"path": '<item>a</item> & {"b":1}'}),
        (param("flag", "false"), {"flag": False}),
        (param("opt", "null"), {"opt": None}),
        (param("opt", cdata("null")), {"opt": "null"}),
        (param("tags", '["a"]'), {"tags": ["a"]}),
        (param("tags", cdata('["a"]')), {"tags": ["a"]}),
        (param("o", '{"k": "7"}'), {"o": {"k": 7}}),
        (param("o", "<k>7</k><j>x</j>"), {"o": {"k": 7, "j": "x"}}),
        (param("tags", "<item>a</item><item>2</item>"), {"tags": ["a", "2"]}),
        (param("tags", "a") + param("tags", "b"), {"tags": ["a", "b"]}),
        # without a schema
        (param("z", "5"), {"z": 5}),
        (param("z", cdata("5")), {"z": "5"}),
        (param("z", "007"), {"z": "007"}),
        (param("z", '"q"'), {"z": "q"}),
        (param("z", "null"), {"z": None}),
        (param("z", "12345678901234567890"), {"z": 12345678901234567890}),
        (param("z", "0.1000000000000000055511151231257827"), {"z": "0.1000000000000000055511151231257827"}),
        (param("z", "trueness"), {"z": "trueness"}),
        (param("z", "<a><![CDATA[<x>]]></a><b><c>1</c><c>2</c></b>"), {"z": {"a": "<x>", "b": {"c": [1, 2]}}}),
        (param("z", "<item><![CDATA[a]]></item>\n<item>\n1\n</item>"), {"z": ["a", 1]}),
        (param("z", "<a>x</a> text"), {"z": "<a>x</a> text"}),
        (param("z", "<a>x</b>"), {"z": "<a>x</b>"}),
        (param("z", "<a/><!-- c --><b></b>"), {"z": {"a": "", "b": ""}}),
        (param("z", "<!-- <x> --><a>1</a><!--y-->"), {"z": {"a": 1}}),
        (param("z", "<a>1</a><!-- <b>2</b>"), {"z": "<a>1</a><!-- <b>2</b>"}),
        (param("z", "<a><!-- 1</a><b><!-- 2</b>"), {"z": {"a": "<!-- 1", "b": "<!-- 2"}}),
        (param("z", "<a><!--->1</a>-->2</a>"), {"z": {"a": 2}}),
        ('<|DSML|parameter name="z"/>', {"z": ""}),
    ],
)
def test_typed_values(parameter, value):
    assert saved(parameter) == value


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ('{"path": "x", "n": "5"}', {"path": "x", "n": 5}),
        ('\n {"input": {"path": "x"}} \n', {"path": "x"}),
        ('{"parameters": {"path": "x"}}', {"path": "x"}),
        ('{"arguments": {"input": {"path": "x"}}}', {"input": {"path": "x"}}),
        ('{"input": "x"}', {"input": "x"}),
        ('{"path": "</|DSML|invoke>"}', {"path": "</|DSML|invoke>"}),
        ('{"path": True,}', {"path": True}),
    ],
)
def test_a_json_object_as_the_body(body, value):
    assert saved(body) == value


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        (block(invoke()), []),
        (block(invoke(mark=""), mark=""), []),
        (f"<{D}tool_calls>\n  <{D}invoke name='ping'/>\n</{D}tool_calls>", []),
        (block(f"<!-- <{D}invoke> -->", invoke(body="<!-- x -->")), []),
        (block(invoke(), word="function_calls"), ["tag_noise"]),
        (block(invoke(mark="｜DSML｜"), mark="|DSML|"), []),
        (block(invoke(mark="dsml_"), mark="DSML|"), ["tag_noise"]),
        (invoke() + f"\n</{D}tool_calls>", ["missing_wrapper"]),
        (f"<{D}tool_calls\n<{D}invoke name='ping'>\n</{D}invoke\n</{D}tool_calls>", ["tag_end"]),
        (block(invoke("PING")), ["name_case"]),
    ],
)
def test_legal_blocks(text, repairs):
    reading = read(text)
    assert calls_of(reading) == PING
    assert reading.text == ""
    assert outcomes(reading) == [("repaired" if repairs else "parsed", repairs)]


@pytest.mark.parametrize(
    "text",
    [
        invoke(),
        block(),
        block(invoke())[: -len(f"</{D}tool_calls>")],
        block(invoke())[: -len(f"</{D}tool_calls>")] + " ok",
        block(invoke())[:-1] + "_x>",
        block(invoke(mark="")),
        block(invoke(), mark=""),
        f"<{D}tool_calls>" + invoke(mark="") + "</tool_calls>",
        block(invoke("save", param("path", "x", mark=""))),
        block(invoke("")),
        block(invoke("TOOL_NAME")),
        block(f"<{D}invoke>{param('path', 'x')}</{D}invoke>"),
        block(invoke("save", f"<{D}parameter>x</{D}parameter>")),
        block(invoke("save", "<param>1</param>")),
        block(invoke("save", "text")),
        block(invoke("save", '["path"]')),
        block(invoke("save", '{"path": "x"} junk')),
        block(invoke("save", f'<{D}parameter name="path">x{param("body", "y")}')),
        block(invoke("save", f'<{D}parameter name="path"><![CDATA[x]]></body>{param("body", "y")}')),
        block(invoke("save", f'<{D}parameter name="path"><![CDATA[x</{D}parameter>{param("body", cdata("y"))}')),
        block(invoke("save", f'<{D}parameter name="path">x</value>')),
        block(invoke("save", f'<{D}parameter name="path"><![CDATA[x</{D}parameter>'))
        + " then "
        + block(invoke("save", param("path", cdata("y")))),
        f"<{D}tool_calls/>",
    ],
)
def test_what_is_not_legal_stays_text(text):
    reading = read(text + " and on")
    assert (reading.calls, reading.text) == ([], text + " and on")


@pytest.mark.parametrize(
    "text", ["The <|DSML|tool_calls> wrapper", '<invoke name="x"> opens', "<tool_calls_log>", "</tool_calls>", "<invoke", "< invoke of"]
)
def test_a_mention_is_no_block(text):
    reading = read(text)
    assert (reading.calls, reading.blocks, reading.text) == ([], [], text)


def test_good_invokes_are_calls_and_a_bad_one_among_them_stays_text():
    bad = invoke("", param("a", "1"))
    reading = read(block(invoke(), bad, invoke("save", param("path", "x"))))
    assert calls_of(reading) == [("ping", {}), ("save", {"path": "x"})]
    assert reading.text == bad
    assert outcomes(reading) == [("parsed", []), ("malformed", [])]
    broken = invoke("save", "<param>1</param>")
    assert calls_of(read(block(invoke(), broken) + " tail")) == PING
    assert read(block(invoke(), broken) + " tail").text == broken + " tail"
    assert calls_of(read(block(broken, invoke()))) == PING
    unknown = read(block(invoke(), invoke("nope")), unknown_tools="text")
    assert (calls_of(unknown), unknown.text, unknown.rejected_tool_names) == (PING, invoke("nope"), ["nope"])


def test_a_new_wrapper_starts_afresh():
    for head in (f"<{D}tool_calls>\n", f"<{D}tool_calls>" + invoke() + "\n", f'<{D}tool_calls><{D}invoke name="x">'):
        reading = read(head + block(invoke("save", param("path", "x"))))
        assert calls_of(reading) == [("save", {"path": "x"})]
        assert reading.text.strip() == head.strip()


def test_an_unclosed_section_ends_at_the_closer_of_an_otherwise_complete_block():
    text = (
        block(invoke("save", param("path", "<![CDATA[abc") + param("body", "<![CDATA[d")))
        + " then "
        + block(invoke("save", param("path", "<![CDATA[e")))
    )
    reading = read(text)
    assert calls_of(reading) == [("save", {"path": "abc", "body": "d"}), ("save", {"path": "e"})]
    assert reading.text.strip() == "then"
    assert all("unclosed_cdata" in repairs for _, repairs in outcomes(reading)[:1])
    for finish in (FinishReason.LENGTH, None):
        assert read(text, finish=finish).calls == []


@pytest.mark.parametrize(
    ("text", "calls", "left"),
    [
        (invoke(), PING, ""),
        (invoke() + " and on", PING, "and on"),
        (invoke("nope") + " and on", [], invoke("nope") + " and on"),
        (invoke("save") + " and on", [], invoke("save") + " and on"),
        (block(invoke(mark="")), PING, ""),
        (block(invoke())[: -len(f"</{D}tool_calls>")] + "\nDone", PING, "Done"),
        (block(invoke(), word="calls"), PING, ""),
        ("<function_calls>" + invoke(mark="") + "</function_calls>", PING, ""),
        (block(f'<{D}invoke name="ping">', invoke()), PING * 2, ""),
        (block(f'<{D}invoke name="save">{param("path", "x")}'), [("save", {"path": "x"})], ""),
        (block(f'<{D}invoke name="nope">{param("path", "x")}'), [], block(f'<{D}invoke name="nope">{param("path", "x")}')),
        (block(invoke("nope")), [("nope", {})], ""),
        ("see <calls> and <tool_call>", [], "see <calls> and <tool_call>"),
    ],
)
def test_the_wide_tolerance(text, calls, left):
    reading = read(text, wide=True)
    assert calls_of(reading) == calls
    assert reading.text.strip() == left


def test_no_tag_is_longer_than_the_limit():
    long = f'<{D}invoke name="{"x" * 80}">'
    text = block(long + f"</{D}invoke>")
    assert calls_of(read(text, max_tag_chars=len(long))) == [("x" * 80, {})]
    assert read(text, max_tag_chars=len(long) - 1).calls == []


def test_what_is_written_is_read_back():
    value = {
        "path": "a ]]> b ]]]] <![CDATA[ </|DSML|parameter>\n",
        "n": 10**30,
        "o": {"<k>": ["&", None, True, 1.5]},
        "z": "5",
    }
    calls = [Call("1", "save", Arguments(value)), Call("2", "ns/tool:v2", Arguments({}))]
    text = Dsml().render_calls(calls)
    assert calls_of(read(text, tools=())) == [("save", value), ("ns/tool:v2", {})]
    assert text.startswith("<|DSML|tool_calls>\n")
    assert "&" not in text.replace("\\u0026", "")
    assert Dsml().render_calls([]) == ""


@pytest.mark.parametrize("key", ["", "a b", 'q"', "x>y", "\n", "¬", "a" * 300, "ключ", "input"])
def test_any_key_and_name_is_written_and_read_back(key):
    value = {key: "v", "n": 1} if key != "input" else {"input": {"a": 1}}
    name = (key or "x")[:60]
    text = Dsml().render_calls([Call("1", name, Arguments(value))])
    assert calls_of(read(text, tools=())) == [(name, value)] or not name.strip()


def test_a_page_on_this_format_is_written_so_that_it_is_read_back():
    page = block(invoke("save", param("n", "5") + "\n" + param("path", cdata("x"))))
    assert divide(page) != page
    assert divide("<a><![CDATA[x]]></a>") == "<a><![CDATA[x]]></a>"
    text = Dsml().render_calls([Call("1", "save", Arguments({"path": page}))])
    assert calls_of(read(text)) == [("save", {"path": page})]


def test_poison_is_quoted_and_no_arguments_are_invented():
    text = Dsml().render_calls([Call("1", "save", Arguments('{"a": '))])
    assert calls_of(read(text)) == [("save", {"arguments": '{"a": '})]

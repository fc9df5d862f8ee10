"""`toolgraft parse`: JSON lines in, JSON lines out, a view for people, and no line that stops it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from proxy.__main__ import main

CALL = 'So.\n\n```json action\n{"tool": "look_up", "parameters": {"city": "Turku", "n": 12345678901234567890}}\n```\n'
TOOLS = [
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
]


def run(*lines, options=()):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    result = CliRunner().invoke(main, ["parse", *options], input=text)
    assert result.exit_code == 0, result.output
    return result.output


def out(*lines):
    return [json.loads(line) for line in run(*lines).splitlines()]


def test_a_line_tells_text_calls_blocks_and_events():
    assert out({"id": 7, "input": CALL, "tools": TOOLS}) == [
        {
            "id": 7,
            "text": "So.",
            "reasoning": "",
            "calls": [{"name": "look_up", "arguments": {"city": "Turku", "n": 12345678901234567890}}],
            "saw_tool_call_syntax": True,
            "rejected_by_policy": False,
            "rejected_tool_names": [],
            "blocks": [{"dialect": "json_action", "outcome": "parsed", "repairs": []}],
            "events": [
                {"type": "text", "text": "So."},
                {"type": "call", "name": "look_up", "arguments": {"city": "Turku", "n": 12345678901234567890}},
            ],
        }
    ]


@pytest.mark.parametrize("how", [{"chunk": 1}, {"chunk": 7}, {"chunks": [CALL[:9], CALL[9:30], CALL[30:]]}])
def test_the_cut_makes_no_difference(how):
    whole = {"id": "a", "input": CALL, "tools": TOOLS}
    assert out({**whole, **how}) == out(whole)


def test_dialects_tolerance_and_finish_are_heeded():
    dsml = '<|DSML|invoke name="look_up"></|DSML|invoke>'
    cut = '```json action\n{"tool": "look_up", "parameters": {}}'
    lines = out(
        {"input": dsml, "tools": TOOLS, "tolerance": "wide"},
        {"input": dsml, "tools": TOOLS},
        {"input": dsml, "tools": TOOLS, "tolerance": "wide", "dialects": ["json_action"]},
        {"input": cut, "finish": None},
        {"input": cut[:-1], "finish": "length"},
    )
    assert [[call["name"] for call in line["calls"]] for line in lines] == [["look_up"], [], [], ["look_up"], []]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "not JSON"),
        ("[1]", "a line is a JSON object"),
        ('{"id": 3}', "input: a string is needed"),
        ('{"id": 3, "input": "x", "chunk": 0}', "chunk: a number of characters from 1 on"),
        ('{"id": 3, "chunks": "x"}', "chunks: a list of strings"),
        ('{"id": 3, "input": "x", "tolerance": "lax"}', "tolerance: 'lax' is not one of narrow, wide"),
        ('{"id": 3, "input": "x", "finish": "why"}', "finish: 'why' is not one of stop"),
        ('{"id": 3, "input": "x", "dialects": ["klingon"]}', "unknown dialect 'klingon'; known: dsml, json_action"),
        ('{"id": 3, "input": "x", "tools": [{}]}', "tools[0]: an object with a name"),
    ],
)
def test_a_bad_line_gives_an_error_line_and_the_next_is_read(line, said):
    first, second = out(line, {"id": 4, "input": "fine"})
    assert said in first["error"]
    assert first["id"] == (3 if '"id": 3' in line else None)
    assert second["text"] == "fine"


def test_it_reads_a_file(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"id": 1, "input": "héllo"}) + "\n\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["parse", str(path)])
    assert json.loads(result.output)["text"] == "héllo"


def test_pretty_shows_where_a_block_stands_and_why_it_was_refused():
    broken = 'Look [bold]:\n```json action\n{"tool": "look_up", "parameters": {"city": }}\n```\n'
    shown = run({"id": "broken", "input": broken}, options=["--pretty"])
    assert "broken" in shown
    assert "json_action, 2:1 to 3:43: malformed" in shown
    assert "a value is missing (3:44)" in shown
    assert "[bold]" in shown
    lines = shown.splitlines()
    mark = next(at for at, line in enumerate(lines) if line.strip() == "^")
    assert lines[mark - 1][lines[mark].index("^")] == "}"


def test_pretty_tells_of_errors_and_of_answers_without_a_block():
    shown = run("nope", {"id": 1, "input": "plain"}, options=["--pretty"])
    assert "error: not JSON" in shown
    assert "no block found" in shown


def test_raw_takes_the_input_as_one_answer():
    shown = CliRunner().invoke(main, ["parse", "--raw"], input=CALL)
    assert json.loads(shown.output)["calls"][0]["name"] == "look_up"


@pytest.mark.parametrize("how", ["file", "standard input"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_raw_leaves_line_ends_as_they_are(tmp_path, end, how):
    answer = f"So{end}it is.{end}{end}" + CALL.replace("\n", end) + f"```{end}<tool_calls>{end}```{end}end"
    path = tmp_path / "answer.txt"
    path.write_bytes(answer.encode())
    shown = CliRunner().invoke(main, ["parse", "--raw", *([str(path)] if how == "file" else [])], input=answer.encode())
    assert json.loads(shown.output) == out({"input": answer})[0]
    assert f"So{end}it is.{end}{end}So.{end}{end}" in json.loads(shown.output)["text"]


def test_raw_replaces_bytes_that_are_no_utf_8():
    shown = CliRunner().invoke(main, ["parse", "--raw"], input=b"a \xff b")
    assert json.loads(shown.output)["text"] == "a \ufffd b"


def test_lines_may_end_as_on_windows():
    shown = CliRunner().invoke(main, ["parse"], input=b'{"id": 1, "input": "a\\r\\nb"}\r\n\r\n{"id": 2, "input": "c"}\r\n')
    assert [json.loads(line)["text"] for line in shown.output.splitlines()] == ["a\r\nb", "c"]

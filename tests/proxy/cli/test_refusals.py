import json
from pathlib import Path

from click.testing import CliRunner

from proxy.__main__ import main

CASES = Path(__file__).parents[2] / "cases" / "refusals.jsonl"
REFUSAL = "I don't have access to any tools."


def run(*arguments, lines=()):
    given = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    result = CliRunner().invoke(main, ["refusals", *arguments], input=given)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_case_file_is_scored():
    *verdicts, last = run("--test", str(CASES))
    assert set(verdicts[0]) == {"id", "flagged", "kind", "phrase"}
    assert len(verdicts) == 66
    summary = last["summary"]
    assert (summary["texts"], summary["refusals"], summary["caught"], summary["look_alikes"]) == (66, 31, 31, 35)
    assert summary["missed"] == summary["false_alarms"] == []
    assert summary["median_held_chars"] <= 40


def test_a_text_alone_is_enough():
    verdict, last = run("--test", "-", lines=[{"id": "a", "text": REFUSAL}])
    assert verdict == {"id": "a", "flagged": True, "kind": "hard", "phrase": "en-no-tools"}
    assert last["summary"]["flagged"] == 1
    assert last["summary"]["median_held_chars"] is None


def test_the_context_decides():
    lines = [
        {"id": 1, "text": REFUSAL, "context": {"tools": []}},
        {"id": 2, "text": REFUSAL, "context": {"prior_tool_results": True}},
        {"id": 3, "text": REFUSAL, "context": {"prior_tool_results": True, "tool_error": True}},
        {"id": 4, "text": f"The quarterly figures of the firm look good. {REFUSAL}", "context": {}},
        {"id": 5, "text": f"The quarterly figures of the firm look good. {REFUSAL}", "context": {"tool_choice": "required"}},
    ]
    assert [verdict["flagged"] for verdict in run("--test", "-", lines=lines)[:-1]] == [False, True, False, False, True]


def test_mistakes_are_named():
    lines = [{"id": "a", "text": "It rains.", "is_refusal": True}, {"id": "b", "text": REFUSAL, "is_refusal": False}]
    summary = run("--test", "-", lines=lines)[-1]["summary"]
    assert (summary["missed"], summary["false_alarms"]) == (["a"], ["b"])


def test_a_bad_line_is_an_error_line_and_stops_nothing():
    lines = ["{", '["no", "object"]', {"id": "x"}, {"id": "y", "text": 5}, {"id": "ok", "text": REFUSAL}]
    *answers, last = run("--test", "-", lines=lines)
    assert [answer.get("id") for answer in answers] == [None, None, "x", "y", "ok"]
    assert all("error" in answer for answer in answers[:-1])
    assert last["summary"]["errors"] == 4
    assert last["summary"]["texts"] == 1


def test_unicode_goes_through():
    verdict, _ = run("--test", "-", lines=['{"id": "中", "text": "\\ud800我没有任何工具。"}'])
    assert verdict["id"] == "中"
    assert verdict["flagged"]

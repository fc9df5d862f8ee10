"""`json_action`: the fence, its objects, its repairs (S7), and plain JSON fences (S8)."""

from __future__ import annotations

import pytest

from pipeline.dialects.json_action import JsonAction
from pipeline.turn import Arguments, Call
from pipeline.verdicts import FinishReason
from tests.pipeline.dialects.reading import calls_of, outcomes, read

PING = [("ping", {})]


def fence(inside, head="```json action\n", foot="\n```"):
    return head + inside + foot


@pytest.mark.parametrize(
    "text",
    [
        fence('{"tool": "ping", "parameters": {}}'),
        fence('{"tool": "ping", "parameters": {}}', "```JSON  Action \n"),
        fence('{"tool": "ping", "parameters": {}}', "``` json action\n"),
        fence('{"tool": "ping", "parameters": {}}', "~~~json action\n", "\n~~~"),
        fence('{"tool": "ping", "parameters": {}}', "````json action\n", "\n`````"),
        fence('{"tool": "ping", "parameters": {}}', "   ```json action\n   ", "\n   ```"),
        fence('{"tool": "ping", "parameters": {}}', "```json action\r\n", "\r\n```\r\n"),
        fence('{"tool": "ping", "parameters": {}}', "```json action ", " ```"),
        fence('{"tool": "ping", "parameters": {}}', "```json action\n", "```"),
        fence('{"name": "ping", "arguments": {}}'),
        fence('{"name": "ping", "input": {}}'),
        fence('{"parameters": {}, "tool": "ping"}'),
        fence('{"tool": "ping", "parameters": {}, "id": 7}'),
    ],
)
def test_forms_of_the_fence(text):
    reading = read(text)
    assert calls_of(reading) == PING
    assert reading.text == ""
    assert outcomes(reading) == [("parsed", [])]


@pytest.mark.parametrize(
    ("inside", "calls", "repairs"),
    [
        ('{"tool": "ping"}', PING, ["missing_arguments"]),
        ('{"tool": "ping", "parameters": null}', PING, ["missing_arguments"]),
        ('{"tool": "ping", "parameters": " "}', PING, ["missing_arguments"]),
        ('{"tool": "save", "parameters": "{\\"path\\": \\"a\\"}"}', [("save", {"path": "a"})], ["stringified_arguments"]),
        ('{"tool": "save", "parameters": {"path": "a", "n": "5"}}', [("save", {"path": "a", "n": 5})], ["value_type"]),
        ('{"tool": "save", "parameters": {"path": "a",},}', [("save", {"path": "a"})], ["trailing_comma"]),
        ("{“tool”: “ping”, “parameters”: {}}", PING, ["smart_quotes"]),
        ('{"tool": "save", "parameters": {"path": None, "flag": True}}', [("save", {"path": None, "flag": True})], ["python_literals"]),
        ('{"tool": "save", "parameters": {"path": "C:\\q"}}', [("save", {"path": "C:\\q"})], ["invalid_escape"]),
        ('{"tool": "save", "parameters": {"path": "a\nb"}}', [("save", {"path": "a\nb"})], ["control_characters"]),
        ('{"tool": "save", "parameters": {"path": "say "hi" now"}}', [("save", {"path": 'say "hi" now'})], ["inner_quotes"]),
        ('{"tool": "save", "parameters": {"path": "a", "tags": ["b"', [("save", {"path": "a", "tags": ["b"]})], ["missing_brackets"]),
        ('{"tool": "PING", "parameters": {}}', PING, ["name_case"]),
        ('{"tool": "functions.ping", "parameters": {}}', PING, ["name_prefix"]),
    ],
)
def test_repairs(inside, calls, repairs):
    reading = read(fence(inside))
    assert calls_of(reading) == calls
    assert reading.text == ""
    assert outcomes(reading) == [("repaired", repairs)]


@pytest.mark.parametrize(
    ("inside", "outcome"),
    [
        ('{"tool": "save"}', "bad_arguments"),
        ('{"tool": "save", "parameters": null}', "bad_arguments"),
        ('{"tool": "ping", "parameters": ["a"]}', "bad_arguments"),
        ('{"tool": "ping", "parameters": "text"}', "bad_arguments"),
        ('{"tool": "ping", "parameters": 5}', "bad_arguments"),
        ('{"tool": "", "parameters": {}}', "malformed"),
        ('{"tool": {"x": 1}, "parameters": {}}', "malformed"),
        ('{"parameters": {}}', "malformed"),
        ('{"name": "demo-app", "version": "1"}', "malformed"),
        ('{"tool": "TOOL_NAME", "parameters": {}}', "placeholder"),
        ('{"tool": "ping", "parameters": }', "malformed"),
        ('{"tool": "ping", "parameters": {}}}', "malformed"),
        ("{'tool': 'ping', 'parameters': {}}", "malformed"),
        ('{"tool": "ping", "parameters": {}} and more', "malformed"),
        ('{"tool": "save", "parameters": {"path": "print("a", "b")"}}', "malformed"),
        ("[1]", "malformed"),
    ],
)
def test_what_is_not_legal_stays_text_and_says_why(inside, outcome):
    text = fence(inside)
    reading = read(text)
    assert reading.calls == []
    assert reading.text == text
    assert [block.outcome.value for block in reading.blocks] == [outcome]
    assert reading.blocks[0].fault
    assert text.startswith(reading.blocks[0].text[:10])


@pytest.mark.parametrize(
    "text",
    [
        "```json action",
        "```json action\n",
        "```json action, then",
        "```json action\nText",
        "```json action\n{...}\n```",
        "```json actions\n{}",
    ],
)
def test_a_mention_is_no_block(text):
    reading = read(text)
    assert (reading.calls, reading.blocks, reading.text) == ([], [], text)


def test_several_calls_in_one_fence_and_in_several():
    one, two = '{"tool": "ping", "parameters": {}}', '{"tool": "save", "parameters": {"path": "x"}}'
    both = [("ping", {}), ("save", {"path": "x"})]
    for inside in (f"[{one}, {two}]", f"{one}\n{two}", f"{one},\n{two}", f"[{one}]\n[{two}]"):
        reading = read(fence(inside))
        assert calls_of(reading) == both
        assert [call.index for call in reading.calls] == [0, 1]
        assert reading.text == ""
    assert calls_of(read(fence(one) + "\n" + fence(two))) == both
    lacking = read(fence(one, foot="\n") + fence(two))
    assert calls_of(lacking) == both
    assert outcomes(lacking) == [("repaired", ["missing_fence"]), ("parsed", [])]


def test_one_unknown_name_does_not_damage_its_neighbours():
    inside = '[{"tool": "ping", "parameters": {}}, {"tool": "nope", "parameters": {}}, {"tool": "ping", "parameters": {}}]'
    reading = read(fence(inside), unknown_tools="text")
    assert calls_of(reading) == PING * 2
    assert '{"tool": "nope", "parameters": {}}' in reading.text
    assert reading.rejected_tool_names == ["nope"]
    alone = read(fence('{"tool": "nope", "parameters": {}}'), unknown_tools="retry")
    assert (alone.calls, alone.rejected_tool_names) == ([], ["nope"])


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH, None])
def test_a_complete_object_needs_no_closing_fence_at_the_end(finish):
    for tail in ("", "\n", "\n``", "\n  "):
        reading = read('```json action\n{"tool": "ping", "parameters": {}}' + tail, finish=finish)
        assert calls_of(reading) == PING
        assert outcomes(reading) == [("repaired", ["missing_fence"])]


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH, None])
@pytest.mark.parametrize(
    "cut",
    [
        '{"tool": "ping", "parameters": {}',
        '{"tool": "save", "parameters": {"path": "half',
        '[{"tool": "ping", "parameters": {}}',
        '{"tool": "ping", "parameters": {}},',
    ],
)
def test_a_truncated_block_is_never_a_call(cut, finish):
    text = "Go.\n```json action\n" + cut
    reading = read(text, finish=finish)
    assert (reading.calls, reading.text) == ([], text)


def test_a_refused_fence_is_still_a_fence():
    text = (
        fence('{"tool": }\n```json action\n{"tool": "ping", "parameters": {}}') + "\nNow:\n" + fence('{"tool": "ping", "parameters": {}}')
    )
    reading = read(text)
    assert calls_of(reading) == PING
    assert reading.text.rstrip() == text[: text.rindex("```json action")].rstrip()


# --- plain JSON fences (S8) ---

EXACT = '{"tool": "save", "parameters": {"path": "x"}}'
SAVED = [("save", {"path": "x"})]


@pytest.mark.parametrize(
    "text",
    [
        fence(EXACT, "```json\n"),
        "Look:\n\n" + fence(EXACT, "```json\n") + "\n\n",
        fence(EXACT, "~~~JSON\n", "\n~~~"),
        fence(EXACT, "```json\n", ""),
    ],
)
def test_a_plain_fence_that_is_the_last_thing_counts(text):
    reading = read(text)
    assert calls_of(reading) == SAVED
    assert reading.text == ("Look:" if text.startswith("Look") else "")


@pytest.mark.parametrize(
    "text",
    [
        fence(EXACT, "```json\n") + "\nThat is it.",
        fence(EXACT, "```json\n") + "\n<b>",
        fence('{"tool": "save", "parameters": {}}', "```json\n"),
        fence('{"tool": "nope", "parameters": {}}', "```json\n"),
        fence('{"tool": "ping", "parameters": {}, "x": 1}', "```json\n"),
        fence('{"tool": "ping"}', "```json\n"),
        fence('{"name": "ping", "tool": "ping", "parameters": {}}', "```json\n"),
        fence('{"tool": "ping", "parameters": [1]}', "```json\n"),
        fence('{"a": 1}', "```json\n"),
        fence("[1, 2]", "```json\n"),
        "Inline ```json\n" + EXACT + "\n```",
    ],
)
def test_other_plain_fences_are_text(text):
    reading = read(text)
    assert (reading.calls, reading.text) == ([], text)
    assert all(block.outcome.value == "fenced_example" for block in reading.blocks)


def test_what_rules_a_plain_fence_out_releases_it_at_once():
    from pipeline.dialects.options import ParserOptions
    from pipeline.sieve.sieve import Sieve
    from pipeline.testing import laws
    from tests.pipeline.dialects.reading import DIALECTS, TOOLS

    for head in ('```json\n{"port":', '```json\n{"tool": "nope", "', "```json\n[1", '```json\n{"tool": 5'):
        sieve = Sieve(DIALECTS, ParserOptions(tools=TOOLS))
        assert laws.released(sieve.feed(head)) >= len(head) - 1, head


def test_a_plain_call_and_those_after_it_wait_for_the_end():
    action = fence('{"tool": "ping", "parameters": {}}')
    both = fence(EXACT, "```json\n") + "\n" + action
    assert calls_of(read(both)) == SAVED + PING
    spoilt = read(both + "\nOk.")
    assert calls_of(spoilt) == PING
    assert spoilt.text.startswith("```json\n")
    two = fence(EXACT, "```json\n") + "\n" + fence(EXACT, "```json\n")
    assert calls_of(read(two)) == SAVED * 2
    assert calls_of(read(two + "\n\n[Tool Result: save] done")) == SAVED * 2


def test_a_quote_of_the_request_is_not_run():
    quote = "Please use:\n" + fence(EXACT, "```json\n") + "\nThanks."
    reading = read(fence(EXACT, "```json\n"), quotes=(quote,))
    assert reading.calls == []
    assert outcomes(reading) == [("quoted", [])]
    assert calls_of(read(fence(EXACT), quotes=(quote,))) == SAVED


# --- writing ---


def test_what_is_written_is_read_back_with_one_fence_a_call():
    value = {"path": "```\n{}]]>", "body": 'a "q" \\ \u2028', "n": 10**30, "o": {"k": None}, "": [1.5]}
    calls = [Call("1", "save", Arguments(value)), Call("2", "a.b/c:d", Arguments('{ "x" : 1 }'))]
    text = JsonAction().render_calls(calls)
    assert text.count("```json action\n") == 2
    assert calls_of(read(text, tools=())) == [("save", value), ("a.b/c:d", {"x": 1})]
    assert JsonAction().render_calls([]) == ""


def test_poison_is_quoted_and_never_a_call():
    text = JsonAction().render_calls([Call("1", "save", Arguments('{"a": '))])
    assert read(text).calls == []

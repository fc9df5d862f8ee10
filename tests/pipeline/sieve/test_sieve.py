"""The sieve as a stage and as a stream: what goes out when, code spans, reasoning, results, limits, early calls."""

from __future__ import annotations

import json

import pytest

from pipeline.dialects.options import ParserOptions
from pipeline.events import (
    ArgumentsDelta,
    BlockSeen,
    CallBegun,
    CallDone,
    Dropped,
    Failed,
    Finish,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from pipeline.settings import Settings
from pipeline.sieve.sieve import Sieve
from pipeline.stages.sieve import SieveStage
from pipeline.testing import laws
from pipeline.text.echo import escape
from pipeline.turn import Emulation, Tool, ToolKind, Turn
from pipeline.verdicts import Api, BlockOutcome, ErrorKind, FinishReason, Noted, SpanKind
from tests.pipeline.dialects.reading import DIALECTS, TOOLS, calls_of, outcomes, read

PING = '<tool_calls><invoke name="ping"></invoke></tool_calls>'
FENCE = '```json action\n{"tool": "ping", "parameters": {}}\n```'


def sieve(*, unescape=False, tools=TOOLS, **options):
    return Sieve(DIALECTS, ParserOptions(tools=tools, **options), unescape=unescape)


def shown(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def kinds(events):
    return [type(event).__name__ for event in events]


# --- what goes out when ---


def test_plain_pieces_go_through_as_they_are():
    running = sieve()
    assert running.feed("Hello") == [TextDelta("Hello", (0, 5))]
    assert running.feed(", world") == [TextDelta(", world", (5, 12))]
    assert running.feed("") == []
    assert running.close(FinishReason.STOP) == []


def test_a_call_is_told_with_the_character_that_completes_it():
    running = sieve()
    assert running.feed(PING[:-1]) == []
    assert kinds(running.feed(">")) == ["BlockSeen", "CallDone"]
    fence = sieve()
    assert fence.feed(FENCE) == []
    assert kinds(fence.feed("\n")) == ["BlockSeen", "CallDone"]


def test_text_before_a_call_is_not_kept_waiting_for_it():
    running = sieve()
    assert shown(running.feed("Let me see. <tool_")) == "Let me see."
    assert shown(running.feed("box> ok")) == " <tool_box> ok"


@pytest.mark.parametrize("text", ["x <", "x <|DSML|tool_cal", "x `", "x ```js", "x ```json act", "x ~~", "<thin", "\n\n", "x \\"])
def test_what_was_held_comes_out_at_the_end(text):
    reading = read(text)
    assert (reading.text, reading.calls, reading.blocks) == (text, [], [])


def test_white_space_next_to_a_call():
    assert read(f"\n\n{PING}\n").text == ""
    assert read(f"a\n\n{PING}\n\nb").text == "a\n\n\n\nb"
    assert read(f"a\n\n{PING}\n").text == "a"
    assert read(f" \n{PING}\n\nb").text == "b"
    assert read(f"a{PING}b").text == "ab"
    assert read("  a  ").text == "  a  "
    dropped = [event for event in read(f" {PING} ").events if isinstance(event, Dropped)]
    assert [(event.kind, event.span) for event in dropped] == [
        (SpanKind.TRIMMED, (0, 1)),
        (SpanKind.TRIMMED, (len(PING) + 1, len(PING) + 2)),
    ]


def test_a_spare_closer_or_a_cut_off_opener_is_swallowed_right_behind_a_call_only():
    for tail in ("</tool_calls>", "\n</invoke>\n</tool_calls>\n", "<|DSML|tool_cal", "\n<tool_calls>\n", "\n<", "\n``", "</tool"):
        reading = read(PING + tail)
        assert (reading.text, len(reading.calls)) == ("", 1), tail
    for tail in (" so </tool_calls>", " so <|DSML|tool_cal", " so <"):
        assert read(PING + tail).text == tail.lstrip()
    assert read(FENCE + "\n```\n").text == ""
    assert read(FENCE + "\n```\ncode\n```").text == "```\ncode\n```"
    assert read("<tool_calls><invoke name=''></invoke></tool_calls></invoke>").text.endswith("</tool_calls></invoke>")


# --- code ---


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{PING}\n```",
        f"```xml\n{PING}\n",
        f"````\n```\n{PING}\n```\n````",
        f"~~~\n{PING}\n```\n{PING}\n~~~",
        f"> ```\n> {PING}\n> ```",
        f"- x\n\n  ```\n  {PING}\n  ```",
        f"Use `{PING}` here",
        f"Use ``a`{PING}`` here",
        f"a ` b {PING} c\nd ` e",
        f"```xml {PING}\n```",
        f"```xml {PING}",
        f"~~~ {PING}",
        f"a `b\n{PING}`",
    ],
)
def test_blocks_in_code_are_examples(text):
    reading = read(text)
    assert (reading.calls, reading.text) == ([], text)
    assert all(block.outcome is BlockOutcome.FENCED_EXAMPLE for block in reading.blocks)


@pytest.mark.parametrize(
    "text",
    [
        f"a ` b {PING}",
        f"a ` b {PING} c\n\nd ` e",
        f"a ` b\n\n{PING} c ` d",
        f"`a` {PING}",
        f"\\` {PING} `",
        f"> ```\n> x\n{PING}",
        f"- ```\n  x\n\n{PING}",
        f"- a ` b\n- {PING} ` c",
        f"# a ` b\n{PING} ` c",
        f"```\nx\n```\n{PING}",
        f"``` x ` y {PING} z",
        f"a ` b\n{FENCE}\nc ` d",
    ],
)
def test_blocks_outside_of_code_are_calls(text):
    assert calls_of(read(text)) == [("ping", {})]


def test_a_block_behind_an_unmatched_run_waits_for_its_paragraph():
    running = sieve()
    assert shown(running.feed(f"a ` b {PING} c")) == "a ` b"
    assert running.feed(" d") == []
    assert [event for event in running.feed("\n\n") if isinstance(event, CallDone)]
    other = sieve()
    other.feed(f"a ` b {PING} c")
    assert shown(other.feed(" ` d")) == f" {PING} c ` d"


def test_backticks_inside_a_block_close_no_span():
    block = '<tool_calls><invoke name="save"><parameter name="path">`x`</parameter></invoke></tool_calls>'
    assert calls_of(read(f"a ` b {block}\n\n")) == [("save", {"path": "`x`"})]


# --- reasoning ---


@pytest.mark.parametrize(
    ("text", "reasoning", "left", "calls"),
    [
        (f"<think>maybe {PING}</think>{PING}", f"maybe {PING}", "", 1),
        ("<think>x</think>\n\nHi", "x", "\n\nHi", 0),
        (" \n<Thinking>x</thinking>Hi", "x", "Hi", 0),
        ("<think></think>Hi", "", "Hi", 0),
        (f"<think>never {PING}", f"never {PING}", "", 0),
        ("<think>a</thin", "a</thin", "", 0),
        ("<think>a</think><think>b</think>c", "a", "<think>b</think>c", 0),
        ("a</think>b", "", "a</think>b", 0),
        ("a <think>b</think>", "", "a <think>b</think>", 0),
        ("<thinker>", "", "<thinker>", 0),
    ],
)
def test_reasoning(text, reasoning, left, calls):
    got = read(text)
    assert (got.reasoning, got.text, len(got.calls)) == (reasoning, left, calls)


# --- invented results ---


@pytest.mark.parametrize(
    "result",
    [
        "[Tool Result: ping] pong",
        "<tool_result>",
        '<tool_result tool="ping">',
        "<tool_result_2>",
        "<|DSML|tool_result>",
        "  <tool_results>",
    ],
)
def test_an_invented_result_is_cut_with_what_follows(result):
    text = f"So.\n{PING}\n{result}\nnice\n{PING}"
    reading = read(text)
    assert (reading.text, len(reading.calls)) == ("So.", 1)
    assert reading.events[-1] == Dropped(SpanKind.CUT, (text.index(result.lstrip()), len(text)))
    running = sieve()
    running.feed(text)
    assert running.cut
    assert kinds(running.feed("more")) == ["Dropped"]
    assert running.close(FinishReason.STOP) == []


@pytest.mark.parametrize(
    "text",
    [
        f"[Tool Result: x] y\n{PING}",
        f"{PING}\nSee <tool_result>",
        f"{PING}\n```\n[Tool Result: x]\n```",
        f"{PING}\n[Tool Results]",
        f"{PING}\n<tool_resulting>",
    ],
)
def test_other_mentions_of_results_are_text(text):
    reading = read(text)
    assert len(reading.calls) == 1
    assert reading.text.strip() == text.replace(PING, "").strip()


# --- limits ---


def test_a_block_longer_than_the_limit_is_text():
    block = f'<tool_calls><invoke name="save"><parameter name="path">{"x" * 50}</parameter></invoke></tool_calls>'
    assert len(read(block, max_block_chars=len(block)).calls) == 1
    reading = read(block + " tail", max_block_chars=len(block) - 1)
    assert (reading.calls, reading.text) == ([], block + " tail")
    assert outcomes(reading) == [("oversize", [])]


def test_nothing_waits_over_more_than_the_limit():
    text = f"a ` b {PING} " + "word " * 40
    assert calls_of(read(text, max_block_chars=400)) == [("ping", {})]
    long = read(text, max_block_chars=80)
    assert (long.calls, long.text) == ([], text)


# --- echo ---


def test_escapes_are_undone_in_text_and_arguments():
    marker = "<|DSML|tool_calls> ```json action\n"
    said = f'See {escape(marker)}\n<tool_calls><invoke name="save"><parameter name="path"><![CDATA[{escape(marker)}]]></parameter></invoke></tool_calls>'
    reading = read(said, unescape=True)
    assert reading.text.strip() == f"See {marker}".strip()
    assert calls_of(reading) == [("save", {"path": marker})]
    assert "¬" in read(said).text


# --- early calls (E4) ---

SAVE_FENCE = '```json action\n{"tool": "save", "parameters": {"path": "a\\nb", "n": "5", "z": [1, {"b": 2}]}}\n```'
SAVE_BLOCK = (
    '<tool_calls><invoke name="save"><parameter name="path"><![CDATA[a\nb]]></parameter><parameter name="n">5</parameter>'
    '<parameter name="z">[1,{"b":2}]</parameter></invoke></tool_calls>'
)
SAVED = ("save", {"path": "a\nb", "n": 5, "z": [1, {"b": 2}]})


@pytest.mark.parametrize("text", [SAVE_FENCE, SAVE_BLOCK])
def test_arguments_stream_as_they_come(text):
    for size in (1, 4, 1000):
        events = laws.run(sieve(stream_arguments=True), laws.pieces(f"Go.\n{text}\nDone.", size))
        laws.check_calls(events)
        laws.check_spans(f"Go.\n{text}\nDone.", events)
        done = next(event for event in events if isinstance(event, CallDone))
        assert (done.name, json.loads(done.arguments)) == SAVED
        assert shown(events) == "Go.\n\nDone."
    running = sieve(stream_arguments=True)
    events = running.feed(text[: text.index("b", text.index("path"))])
    assert isinstance(events[0], CallBegun)
    assert "".join(event.text for event in events if isinstance(event, ArgumentsDelta)).startswith('{"path":"a')


@pytest.mark.parametrize("text", [SAVE_FENCE, SAVE_BLOCK])
def test_a_committed_call_that_ends_badly_is_a_failed_turn_and_never_looks_complete(text):
    cut = text[: text.index("z") + 6]
    for broken, reason in ((cut, FinishReason.LENGTH), (cut + '{{{ <x> "', FinishReason.STOP)):
        running = sieve(stream_arguments=True)
        events = running.feed(broken) + running.close(reason)
        assert isinstance(events[-1], Failed)
        assert events[-1].kind is ErrorKind.BROKEN_CALL
        assert not any(isinstance(event, CallDone) for event in events)
        assert shown(events) == ""
        arguments = "".join(event.text for event in events if isinstance(event, ArgumentsDelta))
        with pytest.raises(json.JSONDecodeError):
            json.loads(arguments)
        assert running.feed("more") == []


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"tool": "save", "parameters": {"path": "a"}}\n```',
        'a ` b <tool_calls><invoke name="save"><parameter name="path">a</parameter></invoke></tool_calls>',
        '```json action\n{"tool": "nope", "parameters": {"path": "a"}}\n```',
        '```json action\n{"parameters": {"path": "a"}, "tool": "save"}\n```',
    ],
)
def test_what_is_pending_or_undeclared_is_not_committed(text):
    events = laws.run(sieve(stream_arguments=True), [text])
    assert not any(isinstance(event, CallBegun) for event in events)
    assert sum(isinstance(event, CallDone) for event in events) == 1


def test_escapes_are_undone_in_streamed_arguments():
    marker = "<|DSML|tool_calls>"
    text = json.dumps({"tool": "save", "parameters": {"path": f"a {escape(marker)} b", "z": [escape(marker)]}})
    for size in (1, 3, 1000):
        events = laws.run(sieve(stream_arguments=True, unescape=True), laws.pieces(f"```json action\n{text}\n```", size))
        laws.check_calls(events)
        (call,) = [event for event in events if isinstance(event, CallDone)]
        assert json.loads(call.arguments) == {"path": f"a {marker} b", "z": [marker]}


# --- the stage ---


def stage_of(turn=None, **settings):
    notes = []

    def note(noted, /, **fields):
        notes.append((noted, fields))

    turn = turn or Turn(api=Api.OPENAI_CHAT, emulation=Emulation(dialect="json_action", tools=TOOLS))
    receiver = SieveStage(Settings(**settings)).open(turn, note)
    return receiver, notes


def test_the_stage_stays_out_of_turns_that_are_not_emulated():
    stage = SieveStage(Settings())
    turn = Turn(api=Api.OPENAI_CHAT)
    assert stage.prepare(turn, lambda *_, **__: None) is turn
    assert stage.open(turn, lambda *_, **__: None) is None
    assert (stage.name, stage.per_attempt) == ("sieve", True)


def test_an_unknown_dialect_fails_when_the_chain_is_built():
    with pytest.raises(ValueError, match="unknown dialect 'klingon'"):
        SieveStage(Settings(dialects=("klingon",)))


def test_text_is_sieved_and_everything_else_passes():
    receiver, notes = stage_of()
    thought = ReasoningDelta("hm")
    assert receiver.feed(thought) == [thought]
    assert shown(receiver.feed(TextDelta("Hi. " + FENCE[:20]))) == "Hi."
    assert receiver.feed(TextDelta(FENCE[20:])) == []
    end = Finish(FinishReason.STOP, Usage(3, 4))
    events = receiver.close(end)
    assert kinds(events) == ["Dropped", "BlockSeen", "CallDone", "Finish"]
    assert events[-1] is end
    assert notes == [(Noted.BLOCK, {"dialect": "json_action", "outcome": BlockOutcome.PARSED, "repairs": (), "calls": 1})]


def test_native_calls_and_calls_in_text_are_numbered_together():
    receiver, _ = stage_of()
    native = CallDone(0, "x", "{}", native=True)
    events = [*receiver.feed(TextDelta(PING)), *receiver.feed(native), *receiver.feed(TextDelta(PING)), *receiver.close(Finish())]
    calls = [event for event in events if isinstance(event, CallDone)]
    assert [(call.index, call.native) for call in calls] == [(0, False), (1, True), (2, False)]


def test_an_invented_result_ends_the_attempt():
    receiver, notes = stage_of()
    events = receiver.feed(TextDelta(f"{PING}\n[Tool Result: ping] pong"))
    assert kinds(events) == ["BlockSeen", "CallDone", "Dropped", "Dropped", "Finish"]
    assert events[-1].reason is FinishReason.TOOL_CALLS
    assert receiver.feed(TextDelta("more")) == []
    assert notes[-1] == (Noted.RESULT_CUT, {"chars": len("[Tool Result: ping] pong")})


def test_a_broken_early_call_ends_the_attempt():
    receiver, _ = stage_of(stream_arguments=True)
    receiver.feed(TextDelta(SAVE_FENCE[:60]))
    events = receiver.close(Finish(FinishReason.LENGTH))
    assert isinstance(events[-1], Failed)
    assert sum(isinstance(event, Finish | Failed) for event in events) == 1


def test_a_failed_end_flushes_and_stays_the_end():
    receiver, _ = stage_of()
    receiver.feed(TextDelta("cut <tool_"))
    failed = Failed(ErrorKind.UPSTREAM_CUT, "gone")
    events = receiver.close(failed)
    assert shown(events) == " <tool_"
    assert events[-1] is failed


def test_options_come_from_the_settings_and_the_turn():
    custom = Tool(name="patch", kind=ToolKind.CUSTOM)
    turn = Turn(api=Api.OPENAI_CHAT, emulation=Emulation(dialect="dsml", tools=(custom,), escaped=True))
    receiver, _ = stage_of(turn, tolerance="wide", unknown_tools="text")
    events = receiver.feed(
        TextDelta(f'<invoke name="patch"></invoke> {escape("<invoke ")}x <tool_calls><invoke name="no"></invoke></tool_calls>')
    )
    events += receiver.close(Finish())
    (call,) = [event for event in events if isinstance(event, CallDone)]
    assert (call.name, call.kind) == ("patch", ToolKind.CUSTOM)
    assert shown(events) == '<invoke x <tool_calls><invoke name="no"></invoke></tool_calls>'
    assert [event.outcome for event in events if isinstance(event, BlockSeen)] == [BlockOutcome.REPAIRED, BlockOutcome.UNKNOWN_TOOL]


# --- what waits ---


@pytest.mark.parametrize("over", [-3, 0, 1, 12, 19, 20, 21, 40])
@pytest.mark.parametrize("tail", ["\n<tool_result>zz", "\n[Tool Result: zz] yy", "</tool_calls> z"])
def test_a_block_that_waited_too_long_is_text_at_the_same_place_at_every_cut(over, tail):
    read(f"a `{PING}{'x' * 20}{tail}", max_block_chars=len(PING) + over)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f'a {PING}{PING[:12]}<invoke name=""></invoke>{PING[12:]}', 'a <invoke name=""></invoke>'),
        (f'a\n\n{PING}\n{PING}\n{PING[:12]}<invoke name=""></invoke>{PING[12:]}', 'a\n\n\n\n<invoke name=""></invoke>'),
        (f"a {PING} {PING}", "a"),
    ],
)
def test_white_space_stays_where_a_later_block_has_text(text, left):
    assert shown(read(text).events) == left


JSON = '```json\n{"tool": "ping", "parameters": {}}\n```\n'


@pytest.mark.parametrize("count", [2, 3, 4, 6])
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("over", range(-6, 8, 2))
def test_plain_json_calls_that_wait_too_long_are_text_at_the_same_place_at_every_cut(count, limit, over):
    read(f"{JSON} " * count, max_block_chars=limit * (len(JSON) + 1) + over)


@pytest.mark.parametrize("over", range(-2, 20))
def test_a_block_whose_time_ran_out_is_no_call_that_a_result_could_follow(over):
    read(f"` {PING}` abcdef\n\n[Tool Result: x] y", max_block_chars=len(PING) + over)


@pytest.mark.parametrize("left", ["[", "[Tool", "[Tool Result"])
def test_what_begins_no_opener_stays_at_the_end_behind_a_call(left):
    assert shown(read(f"{PING}{left}").events) == left


@pytest.mark.parametrize(
    "text",
    [
        '```json action\n{"tool": "ping", "name": "save", "parameters": {"path": "p"}}\n```',
        '```json action\n{"tool": "save", "tool": "nope", "parameters": {"path": "p"}}\n```',
        '```json action\n{"name": "save", "tool": "ping", "arguments": {"path": "p"}}\n```',
        '<tool_calls><invoke name="nope"><parameter name="a"><![CDATA[v</parameter></invoke></tool_calls>',
    ],
)
def test_the_same_call_whether_arguments_stream_or_not(text):
    assert calls_of(read(text, stream_arguments=True)) == calls_of(read(text)) != []


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("cut", range(40, 141, 7))
def test_no_call_begins_in_the_place_of_a_committed_one_that_did_not_end(wide, cut):
    one = '<invoke name="save"><parameter name="path">a</parameter></invoke>'
    text = f'<tool_calls>{one}<invoke name="save"><parameter name="path"><![CDATA[b</parameter></invoke></tool_calls> {PING}'[: 40 + cut]
    events = read(text, stream_arguments=True, wide=wide).events
    assert isinstance(events[-1], Failed) or not any(isinstance(event, Failed) for event in events)
    begun = [event.index for event in events if isinstance(event, CallBegun)]
    done = [event.index for event in events if isinstance(event, CallDone)]
    assert set(begun) <= set(done) or isinstance(events[-1], Failed)

from __future__ import annotations

import json

import msgspec
import pytest

from pipeline.events import ArgumentsDelta, CallBegun, CallDone, Failed, Finish, ReasoningDelta, TextDelta
from pipeline.settings import Settings
from pipeline.stage import Encoding, Stage, StageError
from pipeline.stages.re_encode import ReEncode
from pipeline.turn import Emulation, Message, ResponseFormat, Role, Text, Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, ErrorKind, FinishReason, Noted
from tests.conformance.answers import Notes, both, encoder, read_body, read_stream, violations, write_body, write_stream

EMULATED = Emulation("json_action", (), contract_bytes=400)
HOLD = Settings(text_before_call="hold")


def turn(api: Api = Api.OPENAI_CHAT, **fields: object) -> Turn:
    return Turn(api=api, model="m", **{"emulation": EMULATED, **fields})


def test_it_is_a_stage_and_the_encoding():
    stage = ReEncode(Settings())
    one = turn()
    assert isinstance(stage, Stage) and isinstance(stage, Encoding)
    assert (stage.name, stage.per_attempt) == ("re_encode", False)
    assert stage.prepare(one, Notes()) is one
    assert stage.open(one, Notes()) is None


@pytest.mark.parametrize("api", list(Api))
def test_every_protocol_is_written_streamed_and_whole(api):
    answer = both(turn(api), [TextDelta("a"), CallDone(0, "f", "{}")])
    assert answer.text == "a" and len(answer.calls) == 1


# --- R8 -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(Api))
def test_one_call_is_emitted_and_the_others_are_counted(api):
    one = turn(api, parallel_calls=False)
    events = [TextDelta("a"), CallDone(0, "f", "{}"), TextDelta("b"), CallDone(1, "g", "{}"), CallDone(2, "h", "{}"), TextDelta("c")]
    answer = both(one, events)
    assert answer.text == "abc" and len(answer.calls) == 1
    for write in (
        lambda notes: write_stream(one, [events], Finish(), notes=notes),
        lambda notes: write_body(one, events, Finish(), notes=notes),
    ):
        notes = Notes()
        write(notes)
        assert notes.told == [(Noted.CALLS_DROPPED, {"count": 2, "reason": "parallel"})]


def test_begun_calls_are_dropped_too():
    one = turn(parallel_calls=False)
    events = [
        CallBegun(0, "f"),
        CallBegun(1, "g"),
        ArgumentsDelta(1, "{}"),
        ArgumentsDelta(0, '{"a":1}'),
        CallDone(1, "g", "{}"),
        CallDone(0, "f", '{"a":1}'),
    ]
    assert both(one, events).calls == [("function", "f", '{"a":1}')]


def test_nothing_is_noted_when_nothing_was_dropped():
    notes = Notes()
    write_stream(turn(parallel_calls=False), [[CallDone(0, "f", "{}")]], Finish(), notes=notes)
    assert notes.told == []


# --- stop sequences -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(Api))
def test_a_stop_sequence_cuts_visible_text_and_tells_the_engine(api):
    one = turn(api, stop=("END", "\n\n"))
    notes = Notes()
    writer = encoder(msgspec.structs.replace(one, stream=True), notes=notes)
    raw = writer.feed([TextDelta("so far E")])
    assert not writer.stopped
    raw += writer.feed([TextDelta("ND and more"), CallDone(0, "f", "{}")])
    assert writer.stopped
    raw += writer.feed([TextDelta("never seen")]) + writer.finish(Finish())
    assert violations(one, raw) == []
    answer = read_stream(one, raw)
    assert answer.text == "so far " and answer.calls == []
    assert notes.told == [(Noted.STOP_SEQUENCE_HIT, {"index": 0})]
    if api is Api.ANTHROPIC_MESSAGES:
        assert answer.finish == ("stop_sequence", "END")
    whole = both(one, [TextDelta("so far END and more"), CallDone(0, "f", "{}")], Finish(FinishReason.LENGTH))
    assert whole.text == "so far "


def test_stop_sequences_do_not_look_into_calls_and_do_not_reach_across_them():
    one = turn(stop=("}", "STOP"))
    answer = both(one, [TextDelta("ST"), CallDone(0, "f", '{"a":{}}'), TextDelta("OP"), ReasoningDelta("STOP"), TextDelta("x")])
    assert answer.text == "STOPx" and answer.calls == [("function", "f", '{"a":{}}')]


def test_a_hit_behind_calls_leaves_the_finish_to_the_calls():
    one = turn(Api.ANTHROPIC_MESSAGES, stop=("END",))
    answer = both(one, [CallDone(0, "f", "{}"), TextDelta("x END y")])
    assert answer.finish == ("tool_use", None) and answer.text == "x "


def test_what_was_held_for_a_stop_sequence_comes_at_the_end():
    assert both(turn(stop=("END",)), [TextDelta("the EN")]).text == "the EN"


@pytest.mark.parametrize("api", list(Api))
def test_stop_sequences_hold_without_emulation_too(api):
    """An upstream may take none, and one that does leaves nothing to find."""
    one = turn(api, stop=("END",), emulation=None)
    assert both(one, [TextDelta("a END b")]).text == "a "
    assert both(one, [TextDelta("a ")], Finish(FinishReason.STOP_SEQUENCE)).text == "a "
    assert not encoder(turn(emulation=None)).stopped


# --- strict tools -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_calls_that_break_a_strict_schema_are_delivered_and_noted(stream):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    notes = Notes()
    writer = encoder(turn(stream=stream, tools=(Tool("f", parameters=schema, strict=True), Tool("g", parameters=schema))), notes=notes)
    raw = writer.feed([CallDone(0, "f", '{"a":1}'), CallDone(1, "f", '{"a":"x"}'), CallDone(2, "f", ""), CallDone(3, "g", "{}")])
    raw += writer.finish(Finish())
    assert notes.told == [(Noted.STRICT_VIOLATION, {"count": 2})]
    assert raw.count(b'"call_') == 4


# --- grammars and formats -----------------------------------------------------------------------------------------------------------

DIGITS = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+|none"}


def noted(one: Turn, *events: object, finish: Finish | None = None) -> list[tuple[Noted, dict[str, object]]]:
    """What is told of these events, which must be the same streamed and whole."""
    streamed, whole = Notes(), Notes()
    write_stream(one, [events], finish or Finish(), notes=streamed)
    write_body(one, events, finish or Finish(), notes=whole)
    assert streamed.told == whole.told
    return whole.told


@pytest.mark.parametrize(
    ("definition", "given", "broken"),
    [
        ("[0-9]+|none", "42", False),
        ("[0-9]+|none", "none", False),
        ("[0-9]+|none", "42 or so", True),
        ("[0-9]+|none", "about none", True),
        (r"[\s\S]*", "a\nb", False),
        ("(a+)+b", "a" * 50_000, True),
        ("(?=lookahead)", "x", False),
        ("[unclosed", "x", False),
        ("a{1000}{1000}{1000}", "x", False),
    ],
)
def test_an_input_that_breaks_its_regex_grammar_is_delivered_and_noted(definition, given, broken):
    form = {**DIGITS, "definition": definition}
    one = turn(Api.OPENAI_RESPONSES, tools=(Tool("count", kind=ToolKind.CUSTOM, format=form),))
    call = CallDone(0, "count", json.dumps({"input": given}), kind=ToolKind.CUSTOM)
    assert noted(one, call, call) == ([(Noted.GRAMMAR_VIOLATION, {"count": 2})] if broken else [])
    assert both(one, [call]).calls == [("custom_tool_call", "", "count", given, "completed")]


def test_other_grammars_and_other_tools_are_not_looked_at():
    lark = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    tools = (Tool("a", kind=ToolKind.CUSTOM, format=lark), Tool("b", kind=ToolKind.CUSTOM, format={"type": "text"}), Tool("c"))
    calls = [CallDone(at, tool.name, '{"input":"x"}', kind=tool.kind) for at, tool in enumerate(tools)]
    assert noted(turn(Api.OPENAI_RESPONSES, tools=tools), *calls) == []


ANY_OBJECT = ResponseFormat(None, {"type": "json_object"})
ONE_NUMBER = ResponseFormat({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"type": "json_schema"})


@pytest.mark.parametrize(
    ("wanted", "text", "broken"),
    [
        (ANY_OBJECT, ' {"a": 1}\n', False),
        (ANY_OBJECT, "[1]", True),
        (ANY_OBJECT, "Here it is: {}", True),
        (ANY_OBJECT, '```json\n{"a": 1}\n```', True),
        (ONE_NUMBER, '{"n": 5}', False),
        (ONE_NUMBER, '{"n": "5"}', True),
        (ONE_NUMBER, "{}", True),
        (ONE_NUMBER, "", False),
    ],
)
@pytest.mark.parametrize("api", list(Api))
def test_a_final_text_that_is_not_what_was_asked_for_is_delivered_and_noted(api, wanted, text, broken):
    one = turn(api, response_format=wanted)
    pieces = [TextDelta(text[at : at + 3]) for at in range(0, len(text), 3)]
    assert noted(one, *pieces) == ([(Noted.FORMAT_VIOLATION, {})] if broken else [])
    assert both(one, pieces).text == text


def test_formats_are_looked_at_where_they_are_ours_to_look_after():
    one = turn(response_format=ANY_OBJECT)
    call, text = CallDone(0, "f", "{}"), TextDelta("I look.")
    assert noted(one, text, call) == []  # not the final text yet
    assert noted(one, text, CallBegun(0, "f"), call) == []
    assert noted(one, text, finish=Finish(FinishReason.LENGTH)) == []
    assert noted(msgspec.structs.replace(one, emulation=None), text) == []  # the upstream was asked
    assert noted(msgspec.structs.replace(one, emulation=msgspec.structs.replace(EMULATED, injected=False)), text) == []
    notes = Notes()
    writer = encoder(msgspec.structs.replace(one, stream=True), notes=notes)
    writer.feed([text])
    writer.fail(Failed(ErrorKind.UPSTREAM_CUT, "cut"))
    assert notes.told == []
    assert noted(one, *[TextDelta("x" * 600_000)] * 3) == []  # too long to be kept


# --- text before calls --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(Api))
def test_held_text_comes_behind_the_calls(api):
    one = turn(api)
    events = [TextDelta("I "), TextDelta("look."), CallDone(0, "f", "{}"), TextDelta(" Done.")]
    answer = both(one, events, settings=HOLD)
    assert answer.text == "I look. Done."
    if api is not Api.OPENAI_CHAT:
        assert [part[0] for part in answer.parts][-1] == "text"
    writer = encoder(msgspec.structs.replace(one, stream=True), HOLD)
    assert writer.feed(events[:2]) == b""
    assert b"look." not in writer.feed(events[2:])
    assert b"look." in writer.finish(Finish())


def test_held_text_without_a_call_comes_at_the_end():
    assert both(turn(), [TextDelta("just "), ReasoningDelta("hm"), TextDelta("words")], settings=HOLD).text == "just words"


def test_text_is_not_held_where_no_call_can_come():
    writer = encoder(turn(emulation=None, stream=True), HOLD)
    assert b"now" in writer.feed([TextDelta("now")])


def test_text_streams_by_default():
    writer = encoder(turn(stream=True))
    assert b"now" in writer.feed([TextDelta("now")])


# --- markers ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_marker_in_delivered_text_is_noted_once(stream):
    notes = Notes()
    writer = encoder(turn(stream=stream), notes=notes)
    writer.feed([TextDelta("<tool_"), TextDelta("calls> and <tool_calls>")])
    writer.finish(Finish())
    assert notes.told == [(Noted.MARKER_TEXT, {"dialect": "dsml"})]


def test_a_marker_is_noted_for_a_failed_turn_too():
    notes = Notes()
    writer = encoder(turn(stream=True), notes=notes)
    writer.feed([TextDelta("```json action\n")])
    writer.fail(Failed(ErrorKind.UPSTREAM_CUT, "cut"))
    assert notes.told == [(Noted.MARKER_TEXT, {"dialect": "json_action"})]


def test_a_turn_that_is_not_emulated_is_not_looked_at():
    notes = Notes()
    write_stream(turn(emulation=None), [[TextDelta("<tool_calls>")]], Finish(), notes=notes)
    assert notes.told == []


# --- ends ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_with_a_broken_call_is_a_failed_turn(stream):
    writer = encoder(turn(stream=stream))
    writer.feed([CallBegun(0, "f"), ArgumentsDelta(0, '{"a":')])
    with pytest.raises(StageError) as broken:
        writer.finish(Finish())
    assert broken.value.failed.kind is ErrorKind.BROKEN_CALL
    assert b"error" in writer.fail(broken.value.failed)


def test_keep_alives_go_through():
    assert encoder(turn(stream=True)).keep_alive(12.0).startswith(b":")
    assert encoder(turn()).keep_alive(12.0) == b""
    quick = Settings(silence_block_s=5.0)
    assert b"text_delta" in encoder(turn(Api.ANTHROPIC_MESSAGES, stream=True), quick).keep_alive(6.0)


def test_the_contract_is_left_out_of_estimates_where_usage_is_the_client_s():
    messages = (Message(Role.USER, (Text("x" * 800),)),)
    counts = [
        both(turn(Api.ANTHROPIC_MESSAGES, messages=messages), [TextDelta("x")], settings=Settings(usage=usage)).usage["input_tokens"]
        for usage in ("upstream", "client")
    ]
    assert counts[0] - counts[1] == 100


def test_the_attempt_s_usage_is_told_as_it_is():
    usage = both(turn(include_usage=True), [TextDelta("x")], Finish(usage=Usage(input_tokens=3, output_tokens=4))).usage
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 4, 7)


def test_reading_and_writing_agree_on_the_body():
    raw = write_body(turn(), [TextDelta("x")], Finish())
    assert read_body(turn(), raw).text == "x"
    assert json.loads(raw)["object"] == "chat.completion"


def test_a_stop_sequence_in_text_that_waits_behind_a_call_leaves_the_call_whole():
    one = turn(stop=("END",))
    events = [CallBegun(0, "f"), TextDelta("x END y"), ArgumentsDelta(0, '{"a":'), ArgumentsDelta(0, "1}"), CallDone(0, "f", '{"a":1}')]
    answer = both(one, events)
    assert answer.calls == [("function", "f", '{"a":1}')] and answer.text == "x "
    writer = encoder(msgspec.structs.replace(one, stream=True))
    writer.feed(events[:3])
    assert not writer.stopped

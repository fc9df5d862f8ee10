"""The normalize stage: dispatch, state, tools from history (N1 to N4)."""

import msgspec
import pytest

from pipeline.settings import Settings
from pipeline.stage import Stage, StageError
from pipeline.stages.normalize import Normalize
from pipeline.turn import Turn
from pipeline.verdicts import Api, DroppedParameter, HistoryState, Mode, Noted, ReplacedContent
from tests.support.requests_read import Notes

HELLO = {"role": "user", "content": "hello"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "ping", "arguments": '{"n":1}'}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "pong"}
ANSWER = {"role": "assistant", "content": "done"}
PING = {"type": "function", "function": {"name": "ping"}}


def prepare(*messages, notes=None, settings=None, **body):
    turn = Turn(Api.OPENAI_CHAT, body={"model": "m", "messages": list(messages), **body})
    return Normalize(settings or Settings()).prepare(turn, Notes() if notes is None else notes)


def test_it_is_a_stage_that_leaves_answers_alone():
    stage = Normalize(Settings())
    assert isinstance(stage, Stage)
    assert (stage.name, stage.per_attempt) == ("normalize", False)
    assert stage.open(Turn(Api.OPENAI_CHAT), Notes()) is None


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.OPENAI_CHAT, {"messages": [HELLO]}),
        (Api.ANTHROPIC_MESSAGES, {"messages": [HELLO], "max_tokens": 9}),
        (Api.OPENAI_RESPONSES, {"input": "hello"}),
    ],
)
def test_every_protocol_has_its_reader(api, body):
    notes = Notes()
    turn = Normalize(Settings()).prepare(Turn(api, body={"model": "m", **body}), notes)
    assert turn.messages[0].parts[0].text == "hello"
    assert notes == [(Noted.NORMALIZED, {"state": HistoryState.AWAITING_DECISION, "tools": 0, "messages": 1})]


@pytest.mark.parametrize("api", list(Api))
def test_malformed_requests_end_in_a_named_failure(api):
    with pytest.raises(StageError) as caught:
        Normalize(Settings()).prepare(Turn(api, body={"model": "m", "messages": 7, "input": 7, "max_tokens": 1}), Notes())
    assert caught.value.failed.parameter in ("messages", "input")


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([HELLO], HistoryState.AWAITING_DECISION),
        ([HELLO, CALL], HistoryState.CALLS_PENDING),
        ([HELLO, CALL, RESULT], HistoryState.RESULTS_RECEIVED),
        ([HELLO, CALL, RESULT, ANSWER], HistoryState.ANSWERED),
    ],
)
def test_the_state_comes_from_the_messages(messages, state):
    assert prepare(*messages, tools=[PING]).state is state
    assert prepare(*messages, tools=[PING], tool_choice="required").state is state


def test_what_an_earlier_stage_read_is_not_read_again():
    stage = Normalize(Settings())
    read = stage.prepare(Turn(Api.OPENAI_CHAT, body={"model": "m", "messages": [HELLO], "tools": [PING]}), Notes())
    assert stage.prepare(read, Notes()) is read
    moved_on = msgspec.structs.replace(read, messages=(*read.messages, *prepare(ANSWER).messages))
    assert stage.prepare(moved_on, Notes()).state is HistoryState.ANSWERED


@pytest.mark.parametrize(
    ("policy", "messages", "rebuilt"),
    [
        ("results", [HELLO, CALL, RESULT], True),
        ("results", [HELLO, CALL], True),
        ("results", [HELLO, CALL, RESULT, HELLO], False),
        ("results", [HELLO, CALL, RESULT, ANSWER], False),
        ("always", [HELLO, CALL, RESULT, HELLO], True),
        ("always", [HELLO, ANSWER, HELLO], False),
        ("never", [HELLO, CALL, RESULT], False),
    ],
)
def test_tools_come_back_from_history_while_results_are_being_returned(policy, messages, rebuilt):
    notes = Notes()
    turn = prepare(*messages, notes=notes, settings=Settings(tools_from_history=policy))
    assert [tool.name for tool in turn.tools] == (["ping"] if rebuilt else [])
    assert turn.tools_rebuilt is rebuilt
    assert notes.of(Noted.TOOLS_REBUILT) == ([{"count": 1}] if rebuilt else [])
    assert notes.of(Noted.NORMALIZED)[0]["tools"] == len(turn.tools)


def test_nothing_is_rebuilt_where_tools_came_or_are_forbidden_or_native():
    history = (HELLO, CALL, RESULT)
    assert not prepare(*history, tools=[PING]).tools_rebuilt
    assert prepare(*history, tool_choice="none").tools == ()
    assert prepare(*history, settings=Settings(tools=Mode.NATIVE)).tools == ()
    assert prepare(*history, settings=Settings(tools=Mode.RESCUE)).tools == ()


def test_an_empty_list_of_tools_counts_as_none():
    assert prepare(HELLO, CALL, RESULT, tools=[]).tools_rebuilt


def test_a_demand_may_name_a_tool_of_the_history_and_no_other():
    named = {"type": "function", "function": {"name": "ping"}}
    assert prepare(HELLO, CALL, RESULT, tool_choice=named).tool_choice.name == "ping"
    for choice, policy in (({"type": "function", "function": {"name": "pong"}}, "results"), (named, "never"), ("required", "never")):
        with pytest.raises(StageError) as caught:
            prepare(HELLO, CALL, RESULT, tool_choice=choice, settings=Settings(tools_from_history=policy))
        assert caught.value.failed.parameter == "tool_choice"


def test_losses_are_noted_by_fixed_names_alone():
    notes = Notes()
    part = {"role": "user", "content": [{"type": "secret-kind", "secret": "s3cr3t"}, {"type": "other-kind"}]}
    turn = prepare(part, notes=notes, tools=[PING, {"type": "secret-tool"}], store=True)
    assert notes.of(Noted.PARAMETER_DROPPED) == [{"parameter": DroppedParameter.TOOL_OTHER}, {"parameter": DroppedParameter.STORE}]
    assert notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.UNKNOWN_PART, "count": 2}]
    assert "secret" not in repr(notes) + repr(turn.warnings)


@pytest.mark.parametrize(
    ("parameters", "odd"),
    [
        ({"type": "object", "properties": {}, "required": ["ghost"]}, True),
        ({"type": "object", "required": ["ghost"]}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"type": "object", "properties": ["a"], "required": "a"}, False),
        ({}, False),
    ],
)
def test_a_schema_that_demands_what_it_does_not_describe_is_taken_and_noted(parameters, odd):
    notes = Notes()
    tool = {"type": "function", "function": {"name": "pong", "parameters": parameters}}
    assert [tool.name for tool in prepare(HELLO, notes=notes, tools=[PING, tool]).tools] == ["ping", "pong"]
    assert notes.of(Noted.TOOL_SCHEMA_ODD) == ([{"count": 1}] if odd else [])


def test_strict_settings_reach_the_readers():
    odd = {"type": "function", "function": {"name": "fs.read"}}
    assert prepare(HELLO, tools=[odd]).tools
    with pytest.raises(StageError):
        prepare(HELLO, tools=[odd], settings=Settings(strict_params=True))


def test_an_error_among_the_results_just_returned_is_told():
    def turn(*, failed, tail=()):
        content = [{"type": "tool_result", "tool_use_id": "c1", "content": "x", "is_error": failed}]
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ping", "input": {}}]}
        body = {"model": "m", "max_tokens": 9, "messages": [HELLO, call, {"role": "user", "content": content}, *tail]}
        return Normalize(Settings()).prepare(Turn(Api.ANTHROPIC_MESSAGES, body=body), Notes())

    assert turn(failed=True).results_failed
    assert not turn(failed=False).results_failed
    assert not turn(failed=True, tail=[ANSWER, HELLO]).results_failed

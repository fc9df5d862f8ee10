"""Calls that are not what they should be: told, never run, never lost without a word (S13, E4)."""

from __future__ import annotations

import json

import pytest

from pipeline.events import CallBegun, CallDone, Failed, Finish
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Arguments, Call, Message, Role, Tool, ToolKind, Turn
from pipeline.verdicts import Api, BlockOutcome, ErrorKind, FinishReason, Mode
from tests.cases.upstream_faults import STOP, call, calls, delta, sse
from tests.support.reading import read

LIVE = Settings(stream_arguments=True)


def answer(*entries: dict, finish: dict = STOP, settings: Settings | None = None, turn: Turn | None = None):
    return read([sse(*(calls(entry) for entry in entries), finish).encode()], turn=turn, settings=settings)


@pytest.mark.parametrize("arguments", ['{"q":', "[1]", '"text"', "5", "nonsense", '{"q":"x"} and more'])
def test_arguments_that_are_no_object_make_a_malformed_block(arguments: str):
    got = answer(call(0, "c", "look", arguments))
    assert got.calls == [] and isinstance(got.end, Finish) and got.end.reason is FinishReason.STOP
    assert [(block.dialect, block.outcome, block.names, block.text) for block in got.blocks] == [
        ("native", BlockOutcome.MALFORMED, ("look",), arguments)
    ]


def test_a_cut_call_is_unterminated_unless_its_value_is_whole():
    got = answer(call(0, "c", "look", '{"q":"x"}'), call(1, "d", "read", '{"p"'), finish=delta(finish="length"))
    assert got.calls == [("look", '{"q":"x"}')] and [block.outcome for block in got.blocks] == [BlockOutcome.UNTERMINATED]
    assert isinstance(got.end, Finish) and got.end.reason is FinishReason.LENGTH


def test_a_begun_call_that_ends_badly_fails_the_turn():
    got = answer(call(0, "c", "look", '{"q":'), settings=LIVE)
    assert got.live == [("look", '{"q":')] and got.calls == []
    assert isinstance(got.end, Failed) and got.end.kind is ErrorKind.BROKEN_CALL and not got.end.retryable


def test_a_route_that_only_translates_gives_arguments_as_they_come():
    whole, live = (answer(call(0, "c", "look", '{"q":"x"}'), settings=Settings(tools=mode)) for mode in (Mode.RESCUE, Mode.NATIVE))
    assert whole.calls == live.calls == live.live and whole.live == []


@pytest.mark.parametrize("arguments", ["", "  ", "null", '"{\\"q\\":1}"', ' {"q":1}\n'])
@pytest.mark.parametrize("settings", [Settings(), LIVE])
def test_legal_odd_arguments_become_an_object(arguments: str, settings: Settings):
    got = answer(call(0, "c", "look", arguments), settings=settings)
    assert [json.loads(text) for _, text in got.calls] == [{"q": 1} if "q" in arguments else {}]


def test_a_call_without_a_name_is_none():
    got = answer(call(0, "c", "", "{}"))
    assert got.calls == [] and [block.fault for block in got.blocks] == ["the call has no tool name"]


def test_names_that_come_in_pieces_or_grow():
    pieces = answer(call(0, "c", "get_"), call(0, None, "weather"), call(0, None, None, "{}"))
    grown = answer(call(0, "c", "get_"), call(0, None, "get_weather"), call(0, None, "get_weather", "{}"))
    assert pieces.calls == grown.calls == [("get_weather", "{}")]


def test_the_first_call_goes_out_when_the_next_one_proves_its_end():
    reader = Upstream(Settings()).read(Turn(Api.OPENAI_CHAT), UpstreamTraits(), "", lambda *_, **__: None)
    assert reader.feed(sse(calls(call(0, "c", "look", '{"q":"x"}')), end="").encode()) == []
    assert reader.feed(sse(calls(call(1, "d", "read", "")), end="").encode()) == [CallDone(0, "look", '{"q":"x"}', native=True)]


def test_custom_tools_come_back_as_custom_even_when_the_model_writes_the_raw_input():
    turn = Turn(Api.OPENAI_RESPONSES, tools=(Tool("patch", kind=ToolKind.CUSTOM),))
    for arguments in ('{"input":"*** Begin"}', "*** Begin"):
        got = answer(call(0, "c", "patch", arguments), turn=turn, settings=LIVE)
        assert [json.loads(text) for _, text in got.calls] == [{"input": "*** Begin"}]


def test_names_unfit_for_the_wire_come_back_as_the_caller_wrote_them():
    turn = Turn(Api.OPENAI_RESPONSES, tools=(Tool("fs.read/all"), Tool("fs_read_all"), Tool("über")))
    got = answer(call(0, "a", "fs_read_all_2", "{}"), call(1, "b", "fs_read_all", "{}"), call(2, "c", "_ber", "{}"), turn=turn)
    assert [name for name, _ in got.calls] == ["fs.read/all", "fs_read_all", "über"]


def test_interleaved_one_character_pieces_take_linear_work():
    text = '{"q":"' + "}" * 3000 + '"}'
    entries = [
        call(index, f"c{index}" if not at else None, f"t{index}" if not at else None, char)
        for at, char in enumerate(text)
        for index in (0, 1)
    ]
    assert answer(*entries).calls == [("t0", text), ("t1", text)]


def test_entries_of_any_shape_are_survived():
    odd = [None, 5, [], {}, {"function": None}, {"function": 7}, {"index": "x", "id": 4}, {"function": {"name": 3, "arguments": 1.5}}]
    got = read([sse({"choices": [{"delta": {"tool_calls": odd}}]}, {"choices": [{"delta": {"tool_calls": {"a": 1}}}]}, STOP).encode()])
    assert got.calls == [] and isinstance(got.end, Finish)


SIGNED = {"google": {"thought_signature": "c2ln+/=="}}


@pytest.mark.parametrize("settings", [Settings(), LIVE])
def test_what_hangs_on_a_call_stays_with_it(settings: Settings):
    signed = {**call(0, "c", "look", '{"q":"x"}'), "extra_content": SIGNED}
    late = {"index": 1, "extra_content": SIGNED, "function": {}}
    frames = sse(*(calls(entry) for entry in (signed, call(1, "d", "read", "{}"), late, call(2, "e", "plain", "{}"))), STOP)
    reader = Upstream(settings).read(Turn(Api.OPENAI_CHAT), UpstreamTraits(), "", lambda *_, **__: None)
    events = [*reader.feed(frames.encode()), *reader.close()]
    done = [json.loads(event.extra or "null") for event in events if isinstance(event, CallDone)]
    assert done == [SIGNED, SIGNED, None]
    begun = [json.loads(event.extra or "null") for event in events if isinstance(event, CallBegun)]
    assert begun == ([SIGNED, None, None] if settings is LIVE else [])


def test_and_goes_back_upstream_with_the_call():
    made = Call("c1", "look", Arguments("{}"), extra=SIGNED)
    turn = Turn(Api.OPENAI_CHAT, model="m", messages=(Message(Role.ASSISTANT, (made,)),), tools=(Tool("look"),))

    def sent(traits: UpstreamTraits) -> dict:
        body = json.loads(Upstream(Settings(tools=Mode.NATIVE)).build(turn, traits, frozenset()).body)
        return body["messages"][-1]["tool_calls"][0]

    assert sent(UpstreamTraits())["extra_content"] == SIGNED
    assert "extra_content" not in sent(UpstreamTraits(extra_fields=False))

"""Laws of the writers, for arbitrary answers: streamed and put together again equals whole, nothing is lost, the grammar finds nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import (
    ArgumentsDelta,
    BlockSeen,
    CallBegun,
    CallDone,
    Dropped,
    Event,
    Failed,
    Finish,
    ReasoningDelta,
    TextDelta,
)
from pipeline.json_values import well_formed
from pipeline.settings import Settings
from pipeline.turn import Emulation, Tool, ToolKind, Turn, Usage
from pipeline.verdicts import Api, BlockOutcome, ErrorKind, FinishReason, SpanKind
from tests.conformance.answers import encoder, read_body, read_stream, violations, write_body, write_stream
from tests.conformance.grammar import check_writes

TOOLS = (Tool("look"), Tool("patch", kind=ToolKind.CUSTOM), Tool("ns.find", namespace="ns"))
NAMES = ["look", "patch", "ns.find", "ns.other", "undeclared/name", "名前"]

texts = st.text(st.characters(exclude_categories=[]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
arguments = st.one_of(
    st.dictionaries(st.text(max_size=4), values, max_size=3).map(json.dumps),
    st.text(max_size=8).map(lambda text: json.dumps({"input": text}, ensure_ascii=False)),
    st.sampled_from(["{}", "", '{ "a" : 1 }']),
)
silent = st.sampled_from(
    [BlockSeen("dsml", BlockOutcome.PARSED, (0, 1)), Dropped(SpanKind.TRIMMED, (0, 1)), TextDelta(""), ReasoningDelta("")]
)


@st.composite
def answers(draw) -> list[Event]:
    """Events of one answer. Begun calls may overlap each other and anything else."""
    events: list[Event] = []
    begun: dict[int, tuple[str, list[str], str]] = {}
    index = 0
    for _ in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["text", "text", "reasoning", "call", "begin", "more", "more", "silent"]))
        if kind == "text":
            events.append(TextDelta(draw(texts)))
        elif kind == "reasoning":
            events.append(ReasoningDelta(draw(texts)))
        elif kind == "silent":
            events.append(draw(silent))
        elif kind == "call":
            events.append(CallDone(index, draw(st.sampled_from(NAMES)), draw(arguments)))
            index += 1
        elif kind == "begin":
            name, whole = draw(st.sampled_from(NAMES)), draw(arguments)
            cut = draw(st.integers(0, len(whole)))
            begun[index] = (name, [whole[:cut], whole[cut:]], whole)
            events.append(CallBegun(index, name))
            index += 1
        elif begun:
            at = draw(st.sampled_from(sorted(begun)))
            events += _next_of(begun, at)
    while begun:
        events += _next_of(begun, draw(st.sampled_from(sorted(begun))))
    return events


def _next_of(begun: dict[int, tuple[str, list[str], str]], at: int) -> list[Event]:
    name, pieces, whole = begun[at]
    if pieces:
        return [ArgumentsDelta(at, pieces.pop(0))]
    del begun[at]
    return [CallDone(at, name, whole)]


@st.composite
def grouped(draw, events: list[Event]) -> list[list[Event]]:
    """The events as an engine may hand them over."""
    groups: list[list[Event]] = [[]]
    for event in events:
        if draw(st.booleans()):
            groups.append([])
        groups[-1].append(event)
    return groups


usages = st.none() | st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    cached_tokens=st.integers(0, 100),
    cache_write_tokens=st.integers(0, 100),
    reasoning_tokens=st.integers(0, 100),
)
finishes = st.builds(Finish, st.sampled_from(FinishReason), usages)
turns = st.builds(
    Turn,
    api=st.sampled_from(Api),
    model=st.text(max_size=6),
    tools=st.just(TOOLS),
    include_usage=st.booleans(),
    reasoning_wanted=st.booleans(),
    legacy_functions=st.just(False),
    parallel_calls=st.booleans(),
    stop=st.sampled_from([(), ("a",), ("ab", "\n")]),
    emulation=st.none() | st.just(Emulation("json_action", TOOLS)),
)
route_settings = st.builds(Settings, text_before_call=st.sampled_from(["stream", "hold"]))


@given(st.data(), answers(), finishes, turns, route_settings)
def test_streamed_and_put_together_equals_whole(data, events, finish, turn, route):
    groups = data.draw(grouped(events))
    streamed = read_stream(turn, write_stream(turn, groups, finish, route))
    whole = read_body(turn, write_body(turn, events, finish, route))
    if turn.api is Api.OPENAI_CHAT and not turn.include_usage:
        whole = whole._replace(usage=None)
    assert streamed == whole


@given(answers(), finishes, st.sampled_from(Api))
def test_nothing_is_lost(events, finish, api):
    turn = Turn(api=api, tools=TOOLS, reasoning_wanted=True)
    answer = read_body(turn, write_body(turn, events, finish))
    assert answer.text == well_formed("".join(event.text for event in events if isinstance(event, TextDelta)))
    done = [event for event in events if isinstance(event, CallDone)]
    assert len(answer.calls) == len(done)
    begun = {event.index: at for at, event in reversed(list(enumerate(events))) if isinstance(event, CallBegun | CallDone)}
    in_order = sorted(done, key=lambda event: begun[event.index])
    for call, event in zip(answer.calls, in_order, strict=True):
        name, said = (call[2], call[3]) if api is Api.OPENAI_RESPONSES else (call[1], call[2])
        assert event.name in (name, f"ns.{name}")
        if "custom" not in call[0]:
            assert json.loads(said) == json.loads(event.arguments or "{}")


@given(st.data(), answers(), turns)
def test_a_stream_that_fails_is_legal_up_to_the_error(data, events, turn):
    groups = data.draw(grouped(events[: data.draw(st.integers(0, len(events)))]))
    write_stream(turn, groups, Failed(ErrorKind.UPSTREAM_CUT, "cut"))


@given(st.data(), answers(), finishes, turns)
def test_silence_anywhere_leaves_the_answer_as_it_is(data, events, finish, turn):
    turn = msgspec.structs.replace(turn, stream=True)
    plain = read_stream(turn, write_stream(turn, [events], finish))
    writer = encoder(turn)
    writes = []
    for group in data.draw(grouped(events)):
        writes.append(writer.keep_alive(data.draw(st.sampled_from([10.0, 60.0]))))
        writes.append(writer.feed(group))
    writes.append(writer.finish(finish))
    raw = b"".join(writes)
    assert check_writes(writes) == []
    assert violations(turn, raw, silence=True) == []
    assert read_stream(turn, raw) == plain


@pytest.mark.parametrize("api", list(Api))
@settings(max_examples=30)
@given(answers())
def test_a_legacy_client_gets_one_function_call_at_the_most(api, events):
    turn = Turn(api=api, tools=TOOLS, legacy_functions=True)
    answer = read_stream(turn, write_stream(turn, [events], Finish()))
    assert len(answer.calls) == min(1, sum(isinstance(event, CallDone) for event in events))

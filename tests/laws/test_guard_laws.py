"""Laws of the history guard, over arbitrary histories with duplicated, missing, reordered and broken calls and results."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import json_values
from pipeline.settings import Settings
from pipeline.stages.history_guard import HistoryGuard
from pipeline.turn import Arguments, Call, Message, Result, Role, Text, Turn
from pipeline.verdicts import Api, Noted

IDS = st.sampled_from(["", "a", "b", "c", "a_2", "d" * 40])
ARGUMENTS = st.sampled_from(["{}", "", '{"x": 1}', '{"x": ', "[1]", '"{}"', "null", "nope"])
TEXTS = st.integers(0, 10**9).map(lambda number: f"text {number}")

text_parts = TEXTS.map(Text)
result_parts = st.builds(lambda id_, text, error: Result(id_, (Text(text),), is_error=error), IDS, TEXTS, st.booleans())
call_parts = st.builds(lambda id_, raw: Call(id_, "tool", Arguments(raw)), IDS, ARGUMENTS)

messages = st.one_of(
    st.builds(lambda parts: Message(Role.ASSISTANT, tuple(parts)), st.lists(st.one_of(text_parts, call_parts), min_size=1, max_size=4)),
    st.builds(lambda parts: Message(Role.USER, tuple(parts)), st.lists(st.one_of(text_parts, result_parts), min_size=1, max_size=4)),
    st.builds(lambda part: Message(Role.SYSTEM, (part,)), text_parts),
)
histories = st.lists(messages, max_size=12).map(tuple)


def guard(history: tuple[Message, ...]) -> Turn:
    return HistoryGuard(Settings()).prepare(Turn(api=Api.OPENAI_CHAT, messages=history), lambda *_, **__: None)


def assert_balanced(history: tuple[Message, ...]) -> None:
    """What a strict server checks: every call answered at once, by one result each, with ids of its own."""
    seen: set[str] = set()
    for at, message in enumerate(history):
        calls = [part for part in message.parts if isinstance(part, Call)]
        ids = [call.id for call in calls]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        assert not seen & set(ids)
        seen |= set(ids)
        assert all(call.arguments.value() is not None for call in calls)
        if calls:
            answers: list[str] = []
            for follower in history[at + 1 :]:
                if len(answers) == len(calls):
                    break
                assert follower.role is Role.USER
                for part in follower.parts:
                    if len(answers) < len(calls):
                        assert isinstance(part, Result)
                        answers.append(part.call_id)
            assert sorted(answers) == sorted(ids)
    results = [part.call_id for message in history for part in message.parts if isinstance(part, Result)]
    assert sorted(results) == sorted(seen)


def words(history: tuple[Message, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for message in history:
        for part in message.parts:
            for text in (part,) if isinstance(part, Text) else part.content if isinstance(part, Result) else ():
                found["text " + text.text.rsplit("text ", 1)[-1]] += "text " in text.text
    return +found


@given(histories)
@settings(max_examples=400, deadline=None)
def test_after_the_guard_every_history_is_balanced(history: tuple[Message, ...]) -> None:
    assert_balanced(guard(history).messages)


@given(histories)
@settings(max_examples=200, deadline=None)
def test_the_guard_loses_and_invents_no_text(history: tuple[Message, ...]) -> None:
    assert words(guard(history).messages) == words(history)


@given(histories)
@settings(max_examples=200, deadline=None)
def test_what_the_guard_mended_it_calls_clean(history: tuple[Message, ...]) -> None:
    once = guard(history)
    twice = guard(once.messages)
    assert twice.messages is once.messages


@given(histories)
@settings(max_examples=200, deadline=None)
def test_the_same_history_is_mended_the_same(history: tuple[Message, ...]) -> None:
    assert guard(history).messages == guard(history).messages


clean_turns = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["{}", '{"x": 1}', '{ "x" : [ 1, 2 ] }'])),
    max_size=6,
)


@given(clean_turns)
@settings(max_examples=100, deadline=None)
def test_clean_history_is_the_same_object_and_costs_one_parse_a_call(turns: list[tuple[int, str]]) -> None:
    history: list[Message] = [Message(Role.USER, (Text("go"),))]
    for at, (count, raw) in enumerate(turns):
        history.append(Message(Role.ASSISTANT, tuple(Call(f"c{at}_{n}", "tool", Arguments(raw)) for n in range(count))))
        history.append(Message(Role.USER, tuple(Result(f"c{at}_{n}", (Text("ok"),)) for n in range(count))))
    turn = Turn(api=Api.OPENAI_CHAT, messages=tuple(history))
    parses: list[object] = []
    real = json_values.loads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "loads", lambda text: parses.append(text) or real(text))
        notes: list[Noted] = []
        assert HistoryGuard(Settings()).prepare(turn, lambda outcome, **_: notes.append(outcome)) is turn
        for message in turn.messages:
            for part in message.parts:
                if isinstance(part, Call):
                    part.arguments.value()
                    part.arguments.text()
    assert notes == [Noted.HISTORY_CLEAN]
    assert len(parses) == sum(count for count, _ in turns)


def test_three_thousand_calls_of_one_id_pair_up() -> None:
    count = 3000
    history = [
        *(Message(Role.ASSISTANT, (Call("same", "tool", Arguments("{}")),)) for _ in range(count)),
        *(Message(Role.USER, (Result("same", (Text("ok"),)),)) for _ in range(count)),
    ]
    mended = guard(tuple(history)).messages
    assert len(mended) == 2 * count
    for call, answer in zip(mended[::2], mended[1::2], strict=True):
        assert call.parts[0].id == answer.parts[0].call_id

"""Pairing results with calls: nearest message first, then in order (G3)."""

from __future__ import annotations

from pipeline.history.pairing import pair
from pipeline.turn import Arguments, Call, Message, Result, Role, Text


def calls(*ids: str) -> Message:
    return Message(Role.ASSISTANT, tuple(Call(id_, f"tool_{at}", Arguments("{}")) for at, id_ in enumerate(ids)))


def results(*ids: str) -> Message:
    return Message(Role.USER, tuple(Result(id_) for id_ in ids))


def pairs(*messages: Message) -> dict:
    return {call: answer.place for call, answer in pair(messages).answers.items()}


def test_by_id_whatever_the_order() -> None:
    assert pairs(calls("a", "b"), results("b", "a")) == {(0, 0): (1, 1), (0, 1): (1, 0)}


def test_nearest_message_first_then_in_order() -> None:
    assert pairs(calls("a"), calls("a", "a"), results("a", "a", "a")) == {(1, 0): (2, 0), (1, 1): (2, 1), (0, 0): (2, 2)}


def test_a_result_never_belongs_to_a_later_call() -> None:
    assert pairs(results("a"), calls("a")) == {}


def test_whether_anything_but_results_stands_between() -> None:
    words = Message(Role.USER, (Text("hurry"),))
    found = pair((calls("a", "b"), results("a"), words, results("b"))).answers
    assert found[0, 0].at_once
    assert not found[0, 1].at_once

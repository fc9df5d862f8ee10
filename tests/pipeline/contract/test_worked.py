"""When example turns stand in the conversation (C6)."""

from __future__ import annotations

import pytest

from pipeline.contract.worked import wants_examples
from pipeline.turn import Arguments, Call, Message, Result, Role, Text

KINDS = {
    "s": Message(Role.SYSTEM, (Text("s"),)),
    "u": Message(Role.USER, (Text("u"),)),
    "c": Message(Role.ASSISTANT, (Call("c", "x", Arguments("{}")),)),
    "r": Message(Role.USER, (Result("c"),)),
    "t": Message(Role.USER, (Result("c"), Text("so?"))),
    "a": Message(Role.ASSISTANT, (Text("a"),)),
}


@pytest.mark.parametrize("history", ["", "u", "su", "uau", "uaua", "ucr", "sucr", "uct", "ucrs", "ucrr"])
def test_until_the_first_results_are_in(history: str) -> None:
    assert wants_examples([KINDS[kind] for kind in history])


@pytest.mark.parametrize("history", ["ucra", "ucrau", "ucrc", "ucrcr", "ucru", "ucu"])
def test_not_once_the_conversation_has_a_call_that_is_done_with(history: str) -> None:
    assert not wants_examples([KINDS[kind] for kind in history])

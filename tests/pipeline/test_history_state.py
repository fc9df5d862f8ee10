"""The state machine of a conversation (N4)."""

from pathlib import Path

import pytest

from pipeline.history_state import START, TRANSITIONS, Step, as_mermaid, state_of
from pipeline.turn import Arguments, Call, Message, Result, Role, Text
from pipeline.verdicts import HistoryState

AWAITING, PENDING = HistoryState.AWAITING_DECISION, HistoryState.CALLS_PENDING
RECEIVED, ANSWERED = HistoryState.RESULTS_RECEIVED, HistoryState.ANSWERED


def user(text="u"):
    return Message(Role.USER, (Text(text),))


def answer(text="a"):
    return Message(Role.ASSISTANT, (Text(text),))


def calls(*ids, text=None):
    said = (Text(text),) if text else ()
    return Message(Role.ASSISTANT, (*said, *(Call(one, "ping", Arguments("{}")) for one in ids)))


def results(*ids, text=None):
    said = (Text(text),) if text else ()
    return Message(Role.USER, (*(Result(one, (Text("x"),)) for one in ids), *said))


SYSTEM, DEVELOPER = Message(Role.SYSTEM, (Text("s"),)), Message(Role.DEVELOPER, (Text("d"),))


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([], AWAITING),
        ([SYSTEM], AWAITING),
        ([user()], AWAITING),
        ([user(), answer()], ANSWERED),
        ([answer()], ANSWERED),
        ([user(), answer(), user()], AWAITING),
        ([user(), calls("1")], PENDING),
        ([user(), calls("1", text="I look.")], PENDING),
        ([user(), calls("1"), results("1")], RECEIVED),
        ([user(), calls("1", "2"), results("1")], PENDING),
        ([user(), calls("1", "2"), results("1", "2")], RECEIVED),
        ([user(), calls("1", "2"), results("2"), results("1")], RECEIVED),
        ([user(), calls("1"), results("1"), calls("2")], PENDING),
        ([user(), calls("1"), results("1"), answer()], ANSWERED),
        ([user(), calls("1"), results("1"), user()], AWAITING),
        # Text in the same message as a result, and instructions anywhere, change nothing.
        ([user(), calls("1"), results("1", text="so?")], RECEIVED),
        ([user(), calls("1"), results("1"), SYSTEM], RECEIVED),
        ([user(), calls("1"), DEVELOPER], PENDING),
        ([user(), calls("1"), DEVELOPER, results("1"), SYSTEM], RECEIVED),
        ([user(), answer(), SYSTEM], ANSWERED),
        # A client may split one reply into text and calls.
        ([user(), calls("1"), answer("Waiting.")], PENDING),
        ([user(), calls("1"), answer("Waiting."), results("1")], RECEIVED),
        ([user(), calls("1"), calls("2"), results("1")], PENDING),
        # The user moved on: what nobody answered is no longer awaited.
        ([user(), calls("1"), user("never mind")], AWAITING),
        ([user(), calls("1"), user("never mind"), calls("2"), results("2")], RECEIVED),
        ([user(), calls("1"), user("hurry"), results("1")], RECEIVED),
        # Orphans are results too; repeated and empty ids pair by count.
        ([user(), results("stray")], RECEIVED),
        ([user(), calls("1"), results("stray")], PENDING),
        ([user(), calls("1", "1"), results("1")], PENDING),
        ([user(), calls("1", "1"), results("1", "1")], RECEIVED),
        ([user(), calls("", ""), results("")], PENDING),
        ([user(), calls("", ""), results("", "")], RECEIVED),
        ([user(), calls("1"), results("1", "1")], RECEIVED),
        ([user(), calls("1"), results("1"), answer(), user(), calls("1"), results("1")], RECEIVED),
    ],
)
def test_the_state_of_a_history(messages, state):
    assert state_of(messages) is state


def test_the_table_is_total():
    assert TRANSITIONS.keys() == {(state, step) for state in HistoryState for step in Step}
    assert START is AWAITING


def test_every_state_can_be_reached_and_left():
    for state in HistoryState:
        others = set(HistoryState) - {state}
        assert any(TRANSITIONS[other, step] is state for other in others for step in Step)
        assert any(TRANSITIONS[state, step] is not state for step in Step)


def test_the_drawing_shows_every_cell_of_the_table():
    drawn = {}
    first, start, *arrows = as_mermaid().splitlines()
    assert (first, start.strip()) == ("stateDiagram-v2", "[*] --> awaiting_decision")
    for arrow in arrows:
        ends, steps = arrow.strip().split(": ")
        source, target = ends.split(" --> ")
        drawn.update({(HistoryState(source), Step(step)): HistoryState(target) for step in steps.split(", ")})
    assert drawn == TRANSITIONS


def test_a_long_history_is_walked_once():
    def stream():
        yield user()
        for number in range(20_000):
            yield calls(str(number))
            yield results(str(number))

    assert state_of(stream()) is RECEIVED


def test_the_page_in_the_docs_is_the_drawing_of_the_table():
    page = (Path(__file__).parents[2] / "docs" / "states.md").read_text(encoding="utf-8")
    assert page.split("```mermaid\n")[1].split("```")[0] == as_mermaid()
    for name in [*HistoryState, *Step]:
        assert f"| `{name}` |" in page

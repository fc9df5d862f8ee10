"""history_guard: G1 to G6, on turns as normalize leaves them."""

from __future__ import annotations

import json

import pytest

from pipeline.history import records
from pipeline.settings import Settings
from pipeline.stages.history_guard import HistoryGuard
from pipeline.turn import Arguments, Call, Image, Message, Result, Role, Text, Turn
from pipeline.verdicts import Api, HistoryRepair, Mode, Noted


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def calls(*calls_: tuple[str, str, object], text: str = "") -> Message:
    parts = tuple(Call(id_, name, Arguments(raw)) for id_, name, raw in calls_)
    return Message(Role.ASSISTANT, ((Text(text), *parts) if text else parts))


def result(id_: str, text: str | None = "ok", **fields: object) -> Message:
    return Message(Role.USER, (Result(id_, () if text is None else (Text(text),), **fields),))


def guard(*messages: Message, api: Api = Api.OPENAI_CHAT, mode: Mode = Mode.EMULATE) -> tuple[Turn, Turn, list[tuple[Noted, dict]]]:
    turn = Turn(api=api, messages=messages)
    notes: list[tuple[Noted, dict]] = []
    out = HistoryGuard(Settings(tools=mode)).prepare(turn, lambda outcome, **fields: notes.append((outcome, fields)))
    return turn, out, notes


def kinds(notes: list[tuple[Noted, dict]]) -> dict[HistoryRepair, int]:
    return {fields["kind"]: fields["count"] for outcome, fields in notes if outcome is Noted.HISTORY_REPAIRED}


BROKEN = {
    "unescaped quotes": '{"city": "the "old" town"}',
    "python literals": "{'city': 'Gent', 'units': None}",
    "two objects": '{"city": "Gent"}{"city": "Brugge"}',
    "cut off": '{"path": "a", "bo',
    "array": '["Gent"]',
    "number": "7",
    "text": "Gent",
    "json text": '"Gent"',
    "twice encoded array": '"[1]"',
    "encoded three times": json.dumps(json.dumps('{"a": 1}')),
    "not a number": '{"a": NaN}',
    "a list as such": ["Gent"],
    "a number as such": 7,
}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_poison_becomes_a_record_and_its_result_a_user_message(raw: object, mode: Mode) -> None:
    last = user("Continue.")
    _, out, notes = guard(user("Weather?"), calls(("c1", "lookup_city", raw)), result("c1", "bad arguments"), last, mode=mode)
    assert [message.role for message in out.messages] == ["user", "assistant", "user", "user"]
    (record,) = out.messages[1].parts
    assert "lookup_city" in record.text
    assert "taken out of the history" in record.text
    assert (raw if isinstance(raw, str) else json.dumps(raw, separators=(",", ":"))) in record.text
    assert out.messages[2] == user("[Tool Result: lookup_city] bad arguments")
    assert out.messages[3] is last
    assert kinds(notes) == {HistoryRepair.POISONED_CALL: 1}


@pytest.mark.parametrize("raw", ["", "  \n", None, "null", "{}", '{"a": 18446744073709551616}'])
def test_empty_and_legal_arguments_are_no_poison(raw: object) -> None:
    turn, out, notes = guard(user("x"), calls(("c1", "ping", raw)), result("c1"))
    assert out is turn
    assert notes == [(Noted.HISTORY_CLEAN, {})]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [({"city": "Gent"}, HistoryRepair.SERIALISED_OBJECT), (json.dumps('{"city": "Gent"}'), HistoryRepair.UNWRAPPED_STRING)],
)
def test_objects_and_wrapped_strings_are_put_right_and_said(raw: object, kind: HistoryRepair) -> None:
    turn, out, notes = guard(user("x"), calls(("c1", "lookup_city", raw)), result("c1"))
    assert out is not turn
    (call,) = out.messages[1].parts
    assert json.loads(call.arguments.text()) == {"city": "Gent"}
    assert kinds(notes) == {kind: 1}


def test_an_object_is_what_an_anthropic_client_gives() -> None:
    turn, out, notes = guard(user("x"), calls(("c1", "lookup_city", {"city": "Gent"})), result("c1"), api=Api.ANTHROPIC_MESSAGES)
    assert out is turn
    assert notes == [(Noted.HISTORY_CLEAN, {})]


def test_only_the_broken_one_of_two_calls_is_rewritten() -> None:
    _, out, _ = guard(
        user("Do both."),
        calls(("c1", "lookup_city", '{"city": "Gent"}'), ("c2", "save_note", '{"path": "a", "body": "x'), text="Both."),
        result("c1", "12 C"),
        result("c2", "error"),
        user("Go on."),
    )
    said, call, record = out.messages[1].parts
    assert said == Text("Both.")
    assert call.id == "c1"
    assert "save_note" in record.text
    assert [part.call_id for part in out.messages[2].parts] == ["c1"]
    assert out.messages[3] == user("[Tool Result: save_note] error")
    assert out.messages[4] == user("Go on.")


def test_a_broken_call_without_result_gets_none_invented() -> None:
    _, out, notes = guard(user("x"), calls(("c1", "save_note", '{"path": "a", "bo')), user("Continue."))
    assert len(out.messages) == 3
    assert not any(isinstance(part, Call | Result) for message in out.messages for part in message.parts)
    assert kinds(notes) == {HistoryRepair.POISONED_CALL: 1}


def test_a_quote_is_cut_at_4_kb_and_says_its_length() -> None:
    raw = '{"body": "' + "é" * 5000
    _, out, _ = guard(user("x"), calls(("c1", "save_note", raw)))
    (record,) = out.messages[1].parts
    assert f"({len(raw.encode())} bytes in all)" in record.text
    assert raw[:2000] in record.text
    assert len(record.text.encode()) < records.QUOTE_BYTES + 300


def test_the_record_does_not_call_valid_json_broken() -> None:
    _, out, _ = guard(user("x"), calls(("c1", "a", "[1]"), ("c2", "a", "[1")))
    array, broken = out.messages[1].parts
    assert "were valid JSON but not an object" in array.text
    assert "were not valid JSON" in broken.text


def test_empty_result_of_a_broken_call_is_stated() -> None:
    _, out, _ = guard(user("x"), calls(("c1", "a", "{")), result("c1", None))
    assert out.messages[2] == user("[Tool Result: a] (no output)")


def test_an_image_of_a_loose_result_is_kept() -> None:
    image = Image("data:image/png;base64,iVBORw0KGgo=")
    _, out, _ = guard(user("x"), Message(Role.USER, (Result("gone", (Text("see"), image), name="shot"),)))
    assert out.messages[1].parts == (Text("[Tool Result: shot] see"), image)


def test_an_orphan_result_becomes_a_user_message() -> None:
    _, out, notes = guard(user("a"), result("zz", "late result"), user("b"))
    assert out.messages[1] == user("[Tool Result: zz] late result")
    assert kinds(notes) == {HistoryRepair.ORPHAN_RESULT: 1}


def test_a_second_result_of_one_call_is_an_orphan_and_not_lost() -> None:
    _, out, notes = guard(user("a"), calls(("c1", "ping", "{}")), result("c1", "one"), result("c1", "two"))
    assert out.messages[3] == user("[Tool Result: c1] two")
    assert kinds(notes) == {HistoryRepair.ORPHAN_RESULT: 1}


def test_a_result_before_its_call_is_an_orphan() -> None:
    _, out, notes = guard(result("c1", "early"), calls(("c1", "ping", "{}")))
    assert out.messages[0] == user("[Tool Result: c1] early")
    assert out.messages[2].parts[0].is_missing
    assert kinds(notes) == {HistoryRepair.ORPHAN_RESULT: 1, HistoryRepair.MISSING_RESULT: 1}


def test_a_missing_result_is_stated_and_never_called_cancelled() -> None:
    _, out, notes = guard(
        user("a"),
        calls(("c1", "lookup_city", '{"city": "Gent"}'), ("c2", "lookup_city", '{"city": "Lier"}')),
        result("c2", "9 C"),
        user("b"),
    )
    missing, present = out.messages[2].parts
    assert missing == Result("c1", (Text("no result was recorded"),), "lookup_city", is_missing=True)
    assert present.content == (Text("9 C"),)
    assert out.messages[3] == user("b")
    assert kinds(notes) == {HistoryRepair.MISSING_RESULT: 1}


def test_calls_that_end_the_history_get_their_statement_too() -> None:
    _, out, _ = guard(user("a"), calls(("c1", "ping", "{}")))
    assert out.messages[2].parts[0].is_missing


def test_user_text_between_call_and_result_goes_behind_the_result() -> None:
    hurry = user("by the way, hurry")
    _, out, notes = guard(user("a"), calls(("c1", "lookup_city", "{}")), hurry, result("c1", "7 C"), user("b"))
    assert [part.content for part in out.messages[2].parts] == [(Text("7 C"),)]
    assert out.messages[3] is hurry
    assert kinds(notes) == {HistoryRepair.MOVED_RESULT: 1}


def test_text_before_a_result_in_one_message_goes_behind_it() -> None:
    both = Message(Role.USER, (Text("so?"), Result("c1", (Text("7 C"),))))
    _, out, notes = guard(user("a"), calls(("c1", "lookup_city", "{}")), both)
    assert isinstance(out.messages[2].parts[0], Result)
    assert out.messages[3] == user("so?")
    assert kinds(notes) == {HistoryRepair.MOVED_RESULT: 1}


def test_text_behind_results_in_one_message_is_sound() -> None:
    both = Message(Role.USER, (Result("c1", (Text("7 C"),)), Text("so?")))
    turn, out, _ = guard(user("a"), calls(("c1", "lookup_city", "{}"), text="I look."), both)
    assert out is turn


def test_one_id_twice_in_a_message_pairs_in_order() -> None:
    _, out, notes = guard(user("a"), calls(("d", "one", "{}"), ("d", "two", "{}")), result("d", "first"), result("d", "second"), user("b"))
    assert [call.id for call in out.messages[1].parts] == ["d", "d_2"]
    assert [(part.call_id, part.name, part.content[0].text) for part in out.messages[2].parts] == [
        ("d", "one", "first"),
        ("d_2", "two", "second"),
    ]
    assert kinds(notes) == {HistoryRepair.REPEATED_ID: 1}


def test_an_id_that_repeats_across_turns_goes_to_the_nearest_call() -> None:
    _, out, notes = guard(
        user("a"),
        calls(("d", "one", "{}")),
        user("never mind"),
        calls(("d", "two", "{}")),
        result("d", "second"),
        result("d", "late first"),
    )
    found = {part.name: part for message in out.messages for part in message.parts if isinstance(part, Result)}
    assert found["two"].content == (Text("second"),)
    assert found["one"].content == (Text("late first"),)
    assert kinds(notes) == {HistoryRepair.REPEATED_ID: 1, HistoryRepair.MOVED_RESULT: 1}


def test_a_new_id_never_meets_one_that_is_there() -> None:
    _, out, _ = guard(
        user("a"), calls(("d", "a", "{}")), result("d"), calls(("d", "b", "{}")), result("d"), calls(("d_2", "c", "{}")), result("d_2")
    )
    ids = [part.id for message in out.messages for part in message.parts if isinstance(part, Call)]
    assert ids == ["d", "d_3", "d_2"]


def test_empty_ids_pair_by_order_and_get_ids() -> None:
    _, out, _ = guard(user("a"), calls(("", "one", "{}"), ("", "two", "{}")), result("", "first"), result("", "second"))
    assert [call.id for call in out.messages[1].parts] == ["call_1", "call_2"]
    assert [(part.call_id, part.content[0].text) for part in out.messages[2].parts] == [("call_1", "first"), ("call_2", "second")]


def test_a_new_id_keeps_to_forty_characters() -> None:
    long = "x" * 40
    _, out, _ = guard(user("a"), calls((long, "a", "{}"), (long, "b", "{}")), result(long), result(long))
    assert [len(call.id) <= 40 for call in out.messages[1].parts] == [True, True]


def test_flags_of_a_result_stay() -> None:
    _, out, _ = guard(
        user("a"), calls(("c1", "a", "{}"), ("c1", "b", "{}")), result("c1", "boom", is_error=True), result("c1", "half", is_partial=True)
    )
    first, second = out.messages[2].parts
    assert first.is_error
    assert second.is_partial


def test_a_system_message_between_call_and_result_goes_behind() -> None:
    system = Message(Role.SYSTEM, (Text("note"),))
    _, out, _ = guard(user("a"), calls(("c1", "a", "{}")), system, result("c1"))
    assert out.messages[3] is system


def test_untouched_messages_stay_the_same_objects() -> None:
    first, second = user("a"), calls(("c1", "a", "{}"))
    turn, out, _ = guard(first, second, result("c1"), calls(("c2", "a", "{")))
    assert out is not turn
    assert out.messages[0] is first
    assert out.messages[1].parts[0] is second.parts[0]


def test_no_receiver() -> None:
    assert HistoryGuard(Settings()).open(Turn(api=Api.OPENAI_CHAT), lambda *_, **__: None) is None

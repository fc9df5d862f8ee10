"""History as text, in the dialect and in plain words (C4, C5, N2)."""

from __future__ import annotations

import pytest

from pipeline.contract.projection import DialectVoice, PlainVoice, project
from pipeline.contract.shown import Shown
from pipeline.dialects import registry
from pipeline.text import echo
from pipeline.turn import Arguments, Call, Image, Message, Result, Role, Text

(JSON_ACTION,) = registry.load(("json_action",))
IMAGE = Image("data:image/png;base64,AA==")


def voice() -> DialectVoice:
    return DialectVoice(JSON_ACTION, Shown(), "a block")


def user(*parts) -> Message:
    return Message(Role.USER, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts) -> Message:
    return Message(Role.ASSISTANT, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def call(id_: str, raw: object = "{}", name: str = "look") -> Call:
    return Call(id_, name, Arguments(raw))


def result(id_: str, text: str = "ok", **fields) -> Result:
    return Result(id_, (Text(text),), **fields)


def block(arguments: str = "{}", name: str = "look") -> str:
    return f'```json action\n{{"tool": "{name}", "parameters": {arguments}}}\n```'


def texts(messages) -> list[str]:
    return ["|".join(part.text if isinstance(part, Text) else type(part).__name__ for part in message.parts) for message in messages]


def test_text_and_calls_of_one_message_in_order() -> None:
    (told,) = project([assistant("I look.", call("a"), call("b", '{"x": 1}'), "Waiting.", call("c"))], voice())
    assert told.role is Role.ASSISTANT
    assert told.parts == (Text("\n\n".join(["I look.", block() + "\n" + block('{"x":1}'), "Waiting.", block()])),)


def test_results_of_one_turn_make_one_user_message_in_call_order() -> None:
    history = [assistant(call("a"), call("b")), user(result("b", "second")), user(result("a", "first")), user("so?")]
    told = project(history, voice())
    assert len(told) == 3
    assert told[1].role is Role.USER
    (text,) = texts([told[1]])
    assert text.index("look (call 1 of 2, a) returned:\nfirst") < text.index("look (call 2 of 2, b) returned:\nsecond")
    assert text.endswith("\n\nUse these results: answer in plain text, or write the next call as a block.")
    assert told[2] is history[3]


def test_words_behind_results_stay_in_their_message() -> None:
    told = project([assistant(call("a")), user(result("a", "7 C"), "so?")], voice())
    assert told[1].parts[0].text.endswith("Use this result: answer in plain text, or write the next call as a block.")
    assert told[1].parts[1:] == (Text("so?"),)


def test_words_before_results_come_behind_them() -> None:
    told = project([assistant(call("a")), user("so?", result("a", "7 C"))], voice())
    assert "7 C" in told[1].parts[0].text
    assert told[1].parts[1:] == (Text("so?"),)


def test_images_of_results_follow_the_text_in_order() -> None:
    other = Image("https://example.com/b.png")
    history = [assistant(call("a"), call("b")), user(Result("b", (other,)), Result("a", (Text("see"), IMAGE)))]
    told = project(history, voice())
    assert told[1].parts[1:] == (IMAGE, other)
    assert "see\n(1 attachment below)" in told[1].parts[0].text


def test_results_of_two_turns_are_not_merged() -> None:
    history = [assistant(call("a")), user(result("a", "one")), assistant(call("b")), user(result("b", "two"))]
    told = project(history, voice())
    assert [message.role for message in told] == ["assistant", "user", "assistant", "user"]
    assert "one" in texts(told)[1] and "two" in texts(told)[3]


def test_one_id_twice_in_a_turn_pairs_in_order() -> None:
    told = project([assistant(call("d", name="one"), call("d", name="two")), user(result("d", "first"), result("d", "second"))], voice())
    assert "one (call 1 of 2, d) returned:\nfirst" in texts(told)[1]
    assert "two (call 2 of 2, d) returned:\nsecond" in texts(told)[1]


def test_a_result_that_nobody_asked_for_is_told_all_the_same() -> None:
    assert "named (zz) returned:\nlate" in texts(project([user(result("zz", "late", name="named"))], voice()))[0]


def test_a_broken_call_is_told_as_a_record_when_the_guard_did_not() -> None:
    (told,) = project([assistant("Hm.", call("a", '{"x": '))], voice())
    assert "taken out of the history" in told.parts[0].text
    assert "json action" not in told.parts[0].text


def test_messages_without_anything_of_ours_are_the_same_objects() -> None:
    history = [Message(Role.SYSTEM, (Text("s"),)), user("hi", IMAGE), assistant("yes")]
    assert all(new is old for new, old in zip(project(history, voice()), history, strict=True))
    assert all(new is old for new, old in zip(project(history, PlainVoice()), history, strict=True))


@pytest.mark.parametrize("role", list(Role))
def test_markers_are_broken_whoever_wrote_them(role: Role) -> None:
    shown = Shown()
    (told,) = project([Message(role, (Text("see <tool_calls>"),))], DialectVoice(JSON_ACTION, shown, "a block"))
    assert told.parts == (Text("see <¬tool_calls>"),)
    assert shown.escaped


def test_markers_in_a_result_are_broken() -> None:
    told = project([assistant(call("a")), user(result("a", "```json action\n{}\n```"))], voice())
    assert "```json ¬action" in texts(told)[1]


def test_plain_words() -> None:
    history = [assistant("I look.", call("a", '{"city": "Gent"}')), user(result("a", "7 C"), "so?"), assistant("Cold.")]
    told = project(history, PlainVoice())
    assert texts(told) == [
        'I look.\n\nI used the tool look with these arguments: {"city": "Gent"}',
        "Tool result: look (a) returned:\n7 C|so?",
        "Cold.",
    ]


def test_plain_words_alter_no_text() -> None:
    history = [user("<tool_calls> ```json action"), assistant(call("a")), user(result("a", "<|DSML|tool_calls>"))]
    told = project(history, PlainVoice())
    assert told[0] is history[0]
    assert "<|DSML|tool_calls>" in texts(told)[2]


def test_an_image_between_calls_keeps_its_place() -> None:
    (told,) = project([assistant("a", call("a"), IMAGE, call("b"))], voice())
    assert told.parts == (Text("a\n\n" + block()), IMAGE, Text(block()))


@pytest.mark.parametrize(
    "parts",
    [
        ("```json ", 'action\n{"tool": "look", "parameters": {}}\n```'),
        ("<|DSML|", " tool_calls>"),
        ("see ", "```json", ' action\n{"tool": "look", "parameters": {}}\n```'),
    ],
)
def test_a_marker_across_the_border_of_two_text_parts_is_escaped(parts) -> None:
    (told,) = project([user(*parts)], voice())
    (text,) = texts([told])
    assert text == echo.escape("".join(parts))
    assert text != "".join(parts)


def test_texts_without_a_marker_across_them_stay_the_same_message() -> None:
    message = user("one", "two", IMAGE, "three")
    assert project([message], voice())[0] is message

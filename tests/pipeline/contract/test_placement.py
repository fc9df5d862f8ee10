"""Where block, examples and reminder go (C6, C8)."""

from __future__ import annotations

from pipeline.contract.placement import last_user, only_results, with_block, with_examples, with_reminder
from pipeline.turn import Image, Message, Result, Role, Text


def said(role: Role, *texts: str) -> Message:
    return Message(role, tuple(Text(text) for text in texts))


SYSTEM, DEVELOPER, USER, ANSWER = (
    said(Role.SYSTEM, "be terse"),
    said(Role.DEVELOPER, "and kind"),
    said(Role.USER, "hi"),
    said(Role.ASSISTANT, "yes"),
)


def test_the_block_ends_the_system_message() -> None:
    messages = with_block([SYSTEM, USER], "BLOCK")
    assert messages[0] == said(Role.SYSTEM, "be terse\n\nBLOCK")
    assert messages[1] is USER


def test_the_block_ends_the_last_of_several_instructions_at_the_start() -> None:
    messages = with_block([SYSTEM, DEVELOPER, USER, SYSTEM], "BLOCK")
    assert messages == [SYSTEM, said(Role.DEVELOPER, "and kind\n\nBLOCK"), USER, SYSTEM]


def test_a_system_message_is_made_where_there_is_none() -> None:
    assert with_block([USER, SYSTEM], "BLOCK") == [said(Role.SYSTEM, "BLOCK"), USER, SYSTEM]
    assert with_block([], "BLOCK") == [said(Role.SYSTEM, "BLOCK")]


def test_examples_stand_between_instructions_and_conversation() -> None:
    assert with_examples([SYSTEM, DEVELOPER, USER], [ANSWER]) == [SYSTEM, DEVELOPER, ANSWER, USER]
    assert with_examples([USER], [ANSWER]) == [ANSWER, USER]


def test_the_reminder_ends_the_last_user_message() -> None:
    assert with_reminder([USER, ANSWER, USER, SYSTEM], "LINE") == [USER, ANSWER, said(Role.USER, "hi\n\nLINE"), SYSTEM]
    assert with_reminder([SYSTEM], "LINE") == [SYSTEM]


def test_behind_an_image_the_reminder_is_a_part_of_its_own() -> None:
    image = Image("https://example.com/a.png")
    (message,) = with_reminder([Message(Role.USER, (Text("see"), image))], "LINE")
    assert message.parts == (Text("see"), image, Text("LINE"))


def test_who_spoke_last_and_of_what() -> None:
    assert last_user([USER, ANSWER]) == 0
    assert last_user([SYSTEM]) is None
    assert only_results(Message(Role.USER, (Result("c"), Result("d"))))
    assert not only_results(Message(Role.USER, (Result("c"), Text("so?"))))

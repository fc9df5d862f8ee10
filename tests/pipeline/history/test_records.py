"""Honest words for what was taken out (G2)."""

from __future__ import annotations

from pipeline.history import records
from pipeline.turn import Arguments, Call, Image, Result, Text


def test_a_quote_is_never_cut_inside_a_character() -> None:
    said = records.poisoned_call(Call("c", "t", Arguments("{" + "x" + "é" * 4000)))
    assert "�" not in said
    assert "(8002 bytes in all)" in said


def test_a_short_quote_is_whole() -> None:
    assert records.poisoned_call(Call("c", "t", Arguments('{"a": '))).endswith('They were: {"a": ]')


def test_texts_of_a_result_stand_on_lines_of_their_own() -> None:
    assert records.result_text(Result("c", (Text("a"), Text(""), Text("b")))) == "a\nb"
    assert records.result_text(Result("c", (Text("high "), Text("4.1 m")))) == "high 4.1 m"


def test_a_result_of_an_image_alone_has_output() -> None:
    image = Image("https://example.com/a.png")
    assert records.result_text(Result("c", (image,))) == ""
    assert records.media(Result("c", (Text("x"), image))) == (image,)


def test_no_output_is_said() -> None:
    assert records.result_text(Result("c")) == "(no output)"


def test_a_loose_result_says_whose_it_is() -> None:
    result = Result("c9", (Text("7"),))
    assert records.loose_result(result, "lookup") == "[Tool Result: lookup] 7"
    assert records.loose_result(result, None) == "[Tool Result: c9] 7"
    assert records.loose_result(Result("", (Text("7"),)), None) == "[Tool Result: unknown tool] 7"

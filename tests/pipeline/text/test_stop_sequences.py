from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.testing.growth import growth
from pipeline.text.stop_sequences import StopSequences


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    search = StopSequences(stops)
    text = "".join(search.feed(piece) for piece in pieces)
    return text + search.close(), search.hit


def expected(stops: list[str], text: str) -> tuple[str, str | None]:
    """The plain reading: the earliest end wins, at the same end the longer one."""
    found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return text, None
    end, _, stop = min(found)
    return text[: end - len(stop)], stop


@pytest.mark.parametrize(
    ("stops", "text", "told", "hit"),
    [
        (["END"], "before END after", "before ", "END"),
        (["END"], "no match EN", "no match EN", None),
        (["abc", "b"], "xabc", "xa", "b"),
        (["abc", "bc"], "xabc", "x", "abc"),
        (["aab"], "aaab", "a", "aab"),
        (["\n\n"], "a\nb\n\nc", "a\nb", "\n\n"),
        (["", "x"], "ax", "a", "x"),
        ([], "text", "text", None),
        (["é😀"], "café😀!", "caf", "é😀"),
    ],
)
def test_stops(stops, text, told, hit):
    assert expected(stops, text) == (told, hit)
    for size in (1, 2, 3, len(text)):
        assert run(stops, [text[at : at + size] for at in range(0, len(text), size)]) == (told, hit)


def test_only_what_may_still_match_is_held():
    search = StopSequences(["STOP"])
    assert search.feed("go on") == "go on"
    assert search.feed(" ST") == " "
    assert search.feed("AND") == "STAND"
    assert search.feed("S") == ""
    assert search.feed("") == ""
    assert search.close() == "S"


def test_after_an_interruption_matching_starts_anew():
    search = StopSequences(["STOP"])
    assert search.feed("ST") == ""
    assert search.close() == "ST"
    assert search.feed("OP") == "OP"
    assert search.hit is None


def test_after_a_hit_nothing_comes():
    search = StopSequences(["x"])
    assert search.feed("axb") == "a"
    assert search.feed("c") == "" and search.close() == ""
    assert search.hit == "x"


@given(
    st.lists(st.text("ab", max_size=4), max_size=4),
    st.lists(st.text("abc", max_size=5), max_size=8),
)
def test_the_cut_does_not_matter_and_the_plain_reading_agrees(stops, pieces):
    assert run(stops, pieces) == expected(stops, "".join(pieces))


@pytest.mark.parametrize("stops", [["ab", "\x00"], ["ab", "b\x00", "\x00"], ["]", "^", "-", "\\"]])
def test_a_first_character_that_never_comes_costs_nothing(stops):
    assert growth(lambda size: "a " * (size // 2), lambda text: StopSequences(stops).feed(text), 16_000, 16) < 2.5

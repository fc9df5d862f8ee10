"""CDATA sections behind a refused block, wherever the pieces end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.open_fence import OpenFence
from pipeline.text.sections import Sections

PARTS = ["<![CDATA[", "]]>", "]]", ">", "<", "</tool_calls>", "</|DSML|tool_calls>", "\n", "\n\n", " ", "a", "[", "!", "\r", "\t"]


def runs(pieces: list[str]) -> list[tuple[str, bool]]:
    """The runs, neighbours of one kind joined."""
    sections = Sections()
    joined: list[tuple[str, bool]] = []
    for piece in pieces:
        for text, quoted in sections.runs(piece):
            assert text
            if joined and joined[-1][1] is quoted:
                joined[-1] = (joined[-1][0] + text, quoted)
            else:
                joined.append((text, quoted))
    return joined


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("<a><![CDATA[x]]></a>", ["x]]>"]),
        ("<a><![CDATA[x]]> \n </a>", ["x]]> \n "]),
        ("<![CDATA[x]]>y]]></a>", ["x]]>y]]></"]),
        ("<![CDATA[x]]> more</invoke> <![CDATA[y", ["x]]> more</", "y"]),
        ("<![CDATA[x]]> more</tool_calls> <![CDATA[y", ["x]]> more</"]),
        ("<![CDATA[x<![CDATA[y]]>z]]></a>", ["x<![CDATA[y]]>z]]>"]),
        ("<![CDATA[]]]]><![CDATA[>]]></a>", ["]]]]>", ">]]>"]),
        ("<![CDATA[x", ["x"]),
        ("no section", []),
        ("</tool_calls> <![CDATA[x]]>", []),
        ("\n\n<![CDATA[x]]>", []),
        ("<![CDATA[\n\n</tool_calls>]]></a>", ["\n\n</tool_calls>]]>"]),
    ],
)
def test_what_is_quoted(text: str, quoted: list[str]) -> None:
    assert [run for run, inside in runs([text]) if inside] == quoted


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join), st.data())
def test_the_same_at_every_cut_and_nothing_lost(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = runs([text])
    assert "".join(run for run, _ in whole) == text
    assert runs(pieces) == whole == runs(list(text))


@given(st.lists(st.sampled_from(["`", "``", "```", "````", "~~~", "\n", "\n\n", " ", "a", "\r"]), max_size=20).map("".join), st.data())
def test_a_fence_in_the_middle_of_a_line_ends_at_the_same_place_at_every_cut(text: str, data: st.DataObject) -> None:
    def read(pieces: list[str]) -> tuple[str, str]:
        fence, inside, behind = OpenFence("`", 3), "", ""
        for piece in pieces:
            for run, quoted in fence.runs(piece):
                assert not (quoted and behind)
                inside, behind = (inside + run, behind) if quoted else (inside, behind + run)
        return inside, behind

    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    whole = read([text])
    assert "".join(whole) == text
    assert (
        read([text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if start < end])
        == whole
        == read(list(text))
    )


@pytest.mark.parametrize(
    ("text", "behind"),
    [("a```b", "b"), ("a``b````c", "c"), ("a\n``` b", " b"), ("a\n\nb", "b"), ("a\n \r\nb", "b"), ("a~~~b", ""), ("a", "")],
)
def test_where_a_fence_in_the_middle_of_a_line_ends(text: str, behind: str) -> None:
    assert "".join(run for run, quoted in OpenFence("`", 3).runs(text) if not quoted) == behind

"""Where a markdown text stands, after any character (S4): fences, containers, code spans. CommonMark itself judges in `tests/laws`."""

from __future__ import annotations

import re

import pytest

from pipeline.text.markdown import Markdown, Stop, first_of

NOTHING = re.compile("(?P<whole>(?!))")


class Ear:
    """Hears of spans, paragraphs and fences."""

    def __init__(self):
        self.heard = []

    def span_closed(self, index):
        self.heard.append(("span", index))

    def paragraph_ended(self):
        self.heard.append("paragraph")

    def fence_opened(self):
        self.heard.append("fence")

    def fence_denied(self):
        self.heard.append("no fence")


def through(text, size):
    """The scanner behind the text, read in pieces of a size; every run of three or more is taken as markdown."""
    markdown = Markdown(NOTHING, first_of("<"))
    ear = markdown.waiting = Ear()
    for start in range(0, len(text), size):
        piece = text[start : start + size]
        at = 0
        while True:
            stop = markdown.scan(piece, at)
            at = markdown.at
            if stop is Stop.END:
                break
            assert stop is Stop.RUN
            markdown.take_run()
    return markdown, ear.heard


def state(markdown):
    return (
        markdown.lines.fence_length,
        markdown.lines.fence_char,
        markdown.lines.in_prefix,
        list(markdown.open),
        markdown.maybe,
        markdown.run_length,
    )


TEXTS = [
    "a `b` c ``d` e`` f",
    "a ` b\n\nc ` d",
    "```xml\ncode\n```\nafter `",
    "````\n```\n````\n`",
    "~~~ `x`\n`\n~~~",
    "``` a`b\nc",
    "> ```\n> x\ny `",
    "- a\n\n  ```\n  x\n  ```\n  `",
    "1. a\n   ~~~\n2. b `",
    "***\n  ```\n",
    "a `\n---\nb",
    "a `\n# b `\nc `",
    "-\n\n  `a",
    "\\` \\\\` \\\\\\`",
    "a\r\n\r\nb `\r\rc",
    "a ````` b",
    "    ```\nx",
    "\t- ```",
    "> > `a\n>b` c",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_state_does_not_depend_on_cuts(text):
    whole, heard = through(text, len(text))
    for size in (1, 2, 3, 5):
        markdown, also = through(text, size)
        assert state(markdown) == state(whole)
        assert also == heard


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        ("```\n", 3),
        ("   ````xml\nx", 4),
        ("    ```\n", 0),
        ("~~~ a`b\n", 3),
        ("``` a`b\n", 0),
        ("```\n```\n", 0),
        ("```\n``` x\n", 3),
        ("```\n~~~\n", 3),
        ("````\n```\n", 4),
        ("```\n`````  \n", 0),
        ("> ```\n> x\n", 3),
        ("> ```\nx\n", 0),
        ("- ```\n  x\n", 3),
        ("- ```\n\n  x\n", 3),
        ("- ```\nx\n", 0),
        ("- - ```\n    x\n", 3),
        ("10) ```\n    x\n", 3),
        ("- - ```\n\n\n    x\n", 3),
        ("> - ```\n\n", 0),
        ("- > - ```\n\n", 0),
        ("- > - ```\n  >\n", 3),
        ("> - > ```\n>\n", 0),
        ("* * *\n  ```\n", 3),
        ("text\n```\n", 3),
    ],
)
def test_fences_open_and_close(text, fence):
    assert through(text, 1)[0].lines.fence_length == fence


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("a ` b", [1]),
        ("a `b` c", []),
        ("a ``b` c", [2, 1]),
        ("a ``b` c`` d", []),
        ("a `b ``c`` d", [1]),
        ("a ` b\n\nc", []),
        ("a ` b\nc", [1]),
        ("- a ` b\n- c", []),
        ("a ` b\n> c", []),
        ("> a ` b\nc", [1]),
        ("# a ` b\nc", []),
        ("a ` b\n===\nc", []),
        ("a ` b\n```\n", []),
        ("\\` a", []),
        ("\\\\` a", [1]),
        ("\\`` a", [1]),
    ],
)
def test_open_runs(text, runs):
    for size in (1, len(text)):
        markdown, _ = through(text + ".", size)
        assert markdown.open == runs


def test_who_waits_is_told_in_order():
    assert through("a ` b ` c\n\nd", 1)[1] == [("span", 0), "paragraph"]
    assert through("``` x ` y", 2)[1] == ["no fence"]
    assert through("``` x\ny", 3)[1] == ["fence", "paragraph"]
    assert through("``` x ``` y", 4)[1] == ["no fence", ("span", 0)]


def test_a_run_at_the_end_of_a_piece_is_not_judged_yet():
    markdown = Markdown(NOTHING, first_of("<"))
    assert markdown.scan("a ``", 0) is Stop.END
    assert (markdown.run_length, markdown.resting) == (2, False)
    assert markdown.scan("` b", 0) is Stop.RUN
    assert (markdown.run_length, markdown.at) == (3, 1)


def test_openers_brackets_and_what_may_become_one():
    markdown = Markdown(re.compile(r"(?P<whole><x>)|<(?:\Z|x\Z)"), first_of("<"))
    assert markdown.scan("a <b> <x>", 0) is Stop.OPENER
    assert (markdown.at, markdown.first_in_line) == (6, False)
    markdown.skip()
    assert markdown.scan("a <b> <x> <x", 7) is Stop.HOLD
    assert markdown.at == 10
    markdown.watch = True
    assert markdown.scan("y\n  [ z", 0) is Stop.BRACKET
    markdown.skip()
    assert markdown.scan("y\n  [ z\n [", 4) is Stop.BRACKET

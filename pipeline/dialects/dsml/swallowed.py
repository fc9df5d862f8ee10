"""A CDATA section that was never closed swallows the next parameter with its section (S5): how that looks, and how our rendering never looks like it.

The sign is a closer of a parameter, an opener of the next and a CDATA opener in one row, with white space at the most between them, inside of
one section. A value may hold just that by right, a page on this format for one: our own rendering then divides it between two sections,
so that what it writes never bears the sign, and is read back as it was (C4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.text.letters import GREATER, LESS
from pipeline.text.tag_heads import PARAMETER
from pipeline.text.tags import BAD, SECTION, read_tag

_HEAD = re.compile(f"[{LESS}]")
_SPACE = re.compile(r"\s*")
_NEAR = re.compile(rf"[{GREATER}]\s*\Z")
_LONGEST = 512
_WINDOW = 2 * _LONGEST + 64


def signs(text: str, *, dsml: bool) -> Iterator[int]:
    """The places of the CDATA openers that make the sign in the text of one section."""
    for section in SECTION.finditer(text):
        place = section.start()
        window = text[max(0, place - _WINDOW) : place]
        if _NEAR.search(window) is not None and _ends_in_row(window, dsml=dsml):
            yield place


def _ends_in_row(window: str, *, dsml: bool) -> bool:
    """Does the window end in a closer and an opener of parameters of this family?"""
    for found in _HEAD.finditer(window):
        closer = read_tag(window, found.start(), _LONGEST)
        if closer is None or closer == BAD or closer.word != PARAMETER or closer.dsml != dsml or not closer.closing:
            continue
        opener = read_tag(window, _skip(window, closer.end), _LONGEST)
        if opener is None or opener == BAD or opener.word != PARAMETER or opener.dsml != dsml or opener.closing:
            continue
        if _skip(window, opener.end) == len(window):
            return True
    return False


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def divide(text: str) -> str:
    """The text for a section of our own, every sign in it divided between two sections; the same object when there is none."""
    places = list(signs(text, dsml=True))
    if not places:
        return text
    out: list[str] = []
    start = 0
    for place in places:
        out += [text[start : place + 1], "]]><![CDATA["]
        start = place + 1
    return "".join([*out, text[start:]])

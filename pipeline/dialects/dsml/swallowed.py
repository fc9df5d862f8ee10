"""A CDATA section that was never closed swallows what follows up to the end of another one (S5): how that looks, and how our rendering never does.

The sign, inside of one section: the opener of a parameter with a CDATA opener right behind it, and somewhere before it the closer of a parameter. The
end of that other section then seems to be this one's. A value may hold just that by right, a page on this format for one: our own
rendering then divides it between two sections, so that what it writes never bears the sign, and is read back as it was (C4).
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
_WINDOW = _LONGEST + 64


def signs(text: str, *, dsml: bool) -> Iterator[int]:
    """The places of the CDATA openers that make the sign in the text of one section."""
    closer: int | None = None
    for section in SECTION.finditer(text):
        place = section.start()
        window = text[max(0, place - _WINDOW) : place]
        if _NEAR.search(window) is not None and _ends_in_opener(window, dsml=dsml):
            if closer is None:
                closer = _first_closer(text, dsml=dsml)
            if closer < place:
                yield place


def _ends_in_opener(window: str, *, dsml: bool) -> bool:
    """Does the window end in the opener of a parameter of this family?"""
    for found in _HEAD.finditer(window):
        tag = read_tag(window, found.start(), _LONGEST)
        if tag is not None and tag != BAD and tag.word == PARAMETER and tag.dsml == dsml and not tag.closing:
            space = _SPACE.match(window, tag.end)
            if space is not None and space.end() == len(window):
                return True
    return False


def _first_closer(text: str, *, dsml: bool) -> int:
    """The place of the first closer of a parameter; the length of the text if there is none."""
    for found in _HEAD.finditer(text):
        tag = read_tag(text, found.start(), _LONGEST)
        if tag is not None and tag != BAD and tag.word == PARAMETER and tag.dsml == dsml and tag.closing:
            return found.start()
    return len(text)


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

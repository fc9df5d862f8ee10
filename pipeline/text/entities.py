"""XML character references: the five named ones and numeric ones, decoded once (S5).

In: text outside CDATA. Out: the same text decoded; the same object when nothing is to decode. What is no valid reference stays as it is.
"""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

LONGEST_REFERENCE = 10
"""No valid reference is longer."""


def decode(text: str) -> str:
    """Decode every reference once."""
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return _NAMED[found[1]]
    code = int(found[2]) if found[2] else int(found[3], 16)
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return found[0]
    return chr(code)

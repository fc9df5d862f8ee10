"""Is there anything to see in a text? In: a text. Out: yes or no. Promise: linear, and over at the first character that can be seen."""

from __future__ import annotations

import re

# Format and control characters, and what fonts draw as nothing: joiners, fillers, variation selectors, tags.
_UNSEEN = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SEEN = re.compile(f"[^{_UNSEEN}]")


def visible(text: str) -> bool:
    """Whether the text holds a character that a reader can see. White space and invisible characters are none."""
    return _SEEN.search(text) is not None

"""What imitates the result of a call (S12): the tags and words that we, and others, give results in.

As regular expressions, whole and begun: `<tool_result>` of either family with any number behind it, and `[Tool Result: `.
"""

from __future__ import annotations

from pipeline.text.tag_heads import BOUNDARY, begun, canonical_start, dsml_start, either, head_prefix, keyword

_WORD = "tool_result"
_MORE = r"(?:[sS]|_[0-9]{1,6})?+"
BRACKET = "[Tool Result: "

RESULT_TAG = f"(?:{dsml_start(closers=False)}|{canonical_start(closers=False)}){keyword(_WORD)}{_MORE}{BOUNDARY}"
RESULT_TAG_PART = either(
    (
        head_prefix((_WORD,), (_WORD,), closers=False),
        rf"(?:{dsml_start(closers=False)}|{canonical_start(closers=False)}){begun(_WORD, rf'(?:[sS]|_[0-9]{{0,6}})?+{chr(92)}Z')}",
    )
)

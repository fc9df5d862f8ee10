"""A cheap estimate of token counts, for usage that an upstream did not report and for `count_tokens`.

In: text. Out: a whole number of tokens. Measured rule of thumb, not a tokenizer: about 4 characters a token in text of Latin letters, about
one token a character in CJK, kana and hangul, about 2 bytes a token in other scripts and emoji. One pass in C, no per-character loop.
"""

from __future__ import annotations

import re

_CJK = re.compile("[぀-ヿ㐀-鿿가-힯豈-﫿＀-￯]+")


def estimate(text: str) -> int:
    """Tokens in this text, at least 1 where there is any text. Linear, a few nanoseconds a character."""
    if not text:
        return 0
    if text.isascii():
        return (len(text) + 3) // 4
    dense = sum(map(len, _CJK.findall(text)))
    ascii_chars = len(text.encode("ascii", "ignore"))
    other = len(text) - ascii_chars - dense
    return max(1, (ascii_chars + 3) // 4 + dense + other // 2 + other % 2)

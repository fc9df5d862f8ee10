"""A cheap estimate of token counts, where no tokenizer is at hand and none could be right for every model (X42, AR15).

In: text. Out: tokens, rounded up. Four ASCII characters are a token: the tool definitions of real agents measure 4.2 to 4.9 of them with
a common tokenizer, dense code about 3. Letters of two bytes (accents, Cyrillic, Greek, Arabic) run at two a token, CJK characters at one,
emoji at half. So the estimate is a little high rather than low: clients use it to see when a context is full.
"""

from __future__ import annotations

_ASCII_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Tokens in the text, about. Linear, without a loop in Python; 0 for the empty text alone."""
    if text.isascii():
        return -(-len(text) // _ASCII_PER_TOKEN)
    total = len(text)
    # Encoders count the characters by width: every character beyond the basic plane is two UTF-16 units, and so on down.
    astral = len(text.encode("utf-16-le", "surrogatepass")) // 2 - total
    ascii_count = len(text.encode("ascii", "ignore"))
    size = len(text.encode("utf-8", "surrogatepass"))
    # ascii + two + three + astral = total, and ascii + 2*two + 3*three + 4*astral = size.
    three = size - ascii_count - 4 * astral - 2 * (total - ascii_count - astral)
    two = total - ascii_count - three - astral
    quarters = ascii_count + 2 * two + 4 * three + 8 * astral
    return -(-quarters // _ASCII_PER_TOKEN)

"""The head of a tag, from `<` to the end of its keyword, as regular expressions: one definition for the parser, the hold-back and the echo escape.

A head is `<`, then either noise and `DSML` (any case, repeated, with any separators around it) or a few pipes and blanks, then a
keyword. The family tells the two apart: `dsml` and `canonical`. Every repetition is bounded and possessive, so a match looks at
a bounded number of characters and never backtracks over more than that: this is what makes hold-back finite and time linear (S2, S14).
`prefix` patterns match a text that may still become a head when more arrives; they match up to the end of the text only.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.text.letters import (
    BLANKS,
    DOUBLE_QUOTES,
    EQUALS,
    ESCAPE,
    GREATER,
    INVISIBLE,
    LESS,
    PIPES,
    SINGLE_QUOTES,
    SLASHES,
    letter,
    none_of,
)

MOST_NOISE = 16
LONGEST_HEAD = 160
"""No head is longer: `<`, noise, four times `DSML` with noise behind each, a keyword with zero-width characters in it."""

WRAPPER = "tool_calls"
OLD_WRAPPER = "function_calls"
INVOKE = "invoke"
PARAMETER = "parameter"

# A separator is whatever is no letter, digit, line break, bracket, quote, mark of markdown or of code; the escape is none (C10).
_NO_NOISE = none_of(LESS, GREATER, EQUALS, DOUBLE_QUOTES, SINGLE_QUOTES, "[](){}`&;\\", ESCAPE)
NOISE = rf"(?:_|[^\w\n\r{_NO_NOISE}])"
OPEN_NOISE = rf"(?:_|[^\w\n\r{_NO_NOISE}{none_of(SLASHES)}])"
_LIGHT = f"[{BLANKS}{INVISIBLE}{none_of(PIPES, SLASHES)}]"
_OPEN_LIGHT = f"[{BLANKS}{INVISIBLE}{none_of(PIPES)}]"
LESS_CLASS = f"[{LESS}]"
BOUNDARY = rf"(?=[^\w\-.:{ESCAPE}])"
BOUNDARY_OR_END = rf"(?![\w\-.:{ESCAPE}])"
_BETWEEN = f"[{INVISIBLE}]{{0,2}}+"


def keyword(word: str) -> str:
    """A keyword in any case, with look-alikes, zero-width characters between its letters."""
    return _BETWEEN.join(letter(char) for char in word)


def begun(word: str, tail: str = "") -> str:
    """A keyword of which the text may end at any letter, then `tail`, or the end."""
    pattern = tail
    for at, char in reversed(list(enumerate(word))):
        inner = rf"(?:\Z|{pattern})" if pattern else r"\Z"
        pattern = letter(char) + (_BETWEEN if at < len(word) - 1 else "") + inner
    return pattern


def either(patterns: Iterable[str]) -> str:
    """An alternation as a group."""
    return "(?:" + "|".join(patterns) + ")"


def dsml_start(*, closers: bool) -> str:
    """`<` and everything up to the keyword of a DSML tag."""
    noise = NOISE if closers else OPEN_NOISE
    return f"{LESS_CLASS}{noise}{{0,{MOST_NOISE}}}+(?:{keyword('dsml')}{noise}{{0,{MOST_NOISE}}}+){{1,4}}+"


def canonical_start(*, closers: bool) -> str:
    """`<` and everything up to the keyword of a canonical tag."""
    return f"{LESS_CLASS}{_LIGHT if closers else _OPEN_LIGHT}{{0,8}}+"


def head(dsml: Iterable[str], canonical: Iterable[str], *, closers: bool) -> str:
    """A whole head with one of these keywords, and a character behind it that ends the keyword."""
    return either(
        (
            dsml_start(closers=closers) + either(keyword(word) for word in dsml),
            canonical_start(closers=closers) + either(keyword(word) for word in canonical),
        )
    )


def head_prefix(dsml: Iterable[str], canonical: Iterable[str], *, closers: bool) -> str:
    """A text that ends before its head is decided."""
    noise = NOISE if closers else OPEN_NOISE
    light = _LIGHT if closers else _OPEN_LIGHT
    words = either((r"\Z", begun("dsml"), *(begun(word) for word in dsml)))
    return either(
        (
            f"{LESS_CLASS}{noise}{{0,{MOST_NOISE}}}+(?:{keyword('dsml')}{noise}{{0,{MOST_NOISE}}}+){{1,4}}+{words}",
            rf"{LESS_CLASS}{noise}{{0,{MOST_NOISE}}}+(?:\Z|{begun('dsml')})",
            rf"{LESS_CLASS}{light}{{0,8}}+{either((chr(92) + 'Z', *(begun(word) for word in canonical)))}",
        )
    )

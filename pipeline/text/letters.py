"""Which characters stand for which in a tag that a model wrote with drift (S5): classes for regular expressions, nothing else.

Models swap `<` for `＜`, pipes for bars of other widths, letters for look-alikes of other scripts, and sprinkle zero-width characters.
Everything here is data for the patterns of `tag_heads` and `tags`; nothing of it is ever applied to a value.
"""

from __future__ import annotations

import re

ESCAPE = "¬"
"""The character that echo escaping puts before a keyword (C10). No class below holds it, so no pattern ever skips it."""

LESS = "<＜﹤〈"
GREATER = ">＞﹥〉"
SLASHES = "/／∕⁄⧸"
EQUALS = "=＝﹦꞊"
DOUBLE_QUOTES = '"“”„‟＂'
SINGLE_QUOTES = "'‘’‚‛＇"
PIPES = "|｜￨│∣❘ǀ¦"

# Zero-width and format characters, soft hyphen, byte order mark, control characters that are no white space.
INVISIBLE = "\u200b-\u200f\u2060-\u2064\u2066-\u2069\u202a-\u202e\ufeff\u00ad\u061c\u180e\x00-\x08\x0e-\x1b\x7f"
BLANKS = " \\t\u00a0\u2000-\u200a\u202f\u205f\u3000"

_LOOK_ALIKES = {
    "a": "аɑαӓａАΑＡ",
    "c": "сϲⅽｃСϹⅭＣ",
    "d": "ԁⅾｄⅮＤ",
    "e": "еёҽ℮εｅЕΕＥ",
    "f": "ϝｆＦ",
    "g": "ɡցｇԌＧ",
    "i": "іıⅰιｉІΙİⅠＩ",
    "k": "кκｋКΚKＫ",
    "l": "ӏⅼⅬｌＬ",
    "m": "мⅿｍМΜⅯＭ",
    "n": "ոηｎΝＮ",
    "o": "оοօｏОΟＯ",
    "p": "рρｐРΡＰ",
    "r": "гꭇｒＲ",
    "s": "ѕſꜱｓЅＳ",
    "t": "тτｔТΤＴ",
    "u": "υսｕՍＵ",
    "v": "ѵνⅴｖѴⅤＶ",
    "_": "＿▁",
}

_FOLD = {ord(other): letter for letter, others in _LOOK_ALIKES.items() for other in others}
_DROPPED = re.compile(f"[{INVISIBLE}]")


def letter(char: str) -> str:
    """A class for one keyword character with its cases and look-alikes."""
    return f"[{re.escape(char.lower())}{char.upper() if char.isalpha() else ''}{_LOOK_ALIKES.get(char, '')}]"


def fold(word: str) -> str:
    """A keyword or attribute name in plain lower-case letters; for comparing with keywords only."""
    return _DROPPED.sub("", word).translate(_FOLD).lower()


def none_of(*sets: str) -> str:
    """The inside of a negated class."""
    return "".join(re.escape(char) for chars in sets for char in chars)

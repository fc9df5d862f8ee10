"""Echo safety (C10): markers in text that we show a model cannot become calls when the model repeats them.

In: text of users, tools and records. Out: the same text with `¬` before the keyword of whatever looks like a tag of ours (`<|DSML|tool_calls>`
becomes `<|DSML|¬tool_calls>`) and before `action` in the info string of an action fence. Where such a `¬` stands already, one more joins
it, so that the mapping is one to one: `unescape(escape(text)) == text` for every text. Text without a marker comes back as the
same object. No pattern of the sieve skips `¬`, hence escaped text is never an opener.

`Unescaper` undoes it piece by piece; it holds back no more than the `¬`s of one place and the beginning of the keyword behind them.
"""

from __future__ import annotations

import re

from pipeline.text.letters import ESCAPE, LESS
from pipeline.text.tag_heads import (
    BOUNDARY_OR_END,
    INVOKE,
    LONGEST_HEAD,
    OLD_WRAPPER,
    PARAMETER,
    WRAPPER,
    begun,
    canonical_start,
    dsml_start,
    either,
    keyword,
)

_DSML_WORDS = (WRAPPER, OLD_WRAPPER, INVOKE, PARAMETER)
_WORDS = (WRAPPER, INVOKE, PARAMETER)
FENCE_INFO = r"(?:```|~~~)[ \t]{0,16}+[jJ][sS][oO][nN][ \t]{1,16}+"
"""From the last three marks of a fence to the word `action`. The sieve reads the same."""
_ACTION = "[aA][cC][tT][iI][oO][nN]"

_DSML_HEAD = dsml_start(closers=True)
_LIGHT_HEAD = canonical_start(closers=True)
_AFTER_DSML = either(keyword(word) for word in _DSML_WORDS) + BOUNDARY_OR_END
_AFTER_LIGHT = either(keyword(word) for word in _WORDS) + BOUNDARY_OR_END
_AFTER_FENCE = _ACTION + r"(?!\w)"


def _places(escapes: str) -> re.Pattern[str]:
    return re.compile(
        either(
            (
                f"{_DSML_HEAD}{escapes}(?={_AFTER_DSML})",
                f"{_LIGHT_HEAD}{escapes}(?={_AFTER_LIGHT})",
                f"{FENCE_INFO}{escapes}(?={_AFTER_FENCE})",
            )
        )
    )


_ESCAPABLE = _places(f"{ESCAPE}*+")
_ESCAPED = _places(f"{ESCAPE}++")
_LOOKS_MARKED = re.compile(f"[{LESS}]|```|~~~")


def escape(text: str) -> str:
    """Break every marker in the text; the same object when there is none."""
    if _LOOKS_MARKED.search(text) is None:
        return text
    broken, count = _ESCAPABLE.subn(rf"\g<0>{ESCAPE}", text)
    return broken if count else text


def unescape(text: str) -> str:
    """Undo `escape`; the same object when there is nothing to undo."""
    if ESCAPE not in text:
        return text
    plain, count = _ESCAPED.subn(lambda found: found[0][:-1], text)
    return plain if count else text


# For the piecewise form: which of the three kinds of places the text before a run of escapes ends in.
_PLACE = re.compile(rf"(?P<dsml>{_DSML_HEAD})\Z|(?P<light>{_LIGHT_HEAD})\Z|{FENCE_INFO}\Z")
_FOLLOWS = {
    "dsml": (re.compile(_AFTER_DSML), re.compile(either((r"\Z", *(begun(word) for word in _DSML_WORDS))))),
    "light": (re.compile(_AFTER_LIGHT), re.compile(either((r"\Z", *(begun(word) for word in _WORDS))))),
    None: (re.compile(_AFTER_FENCE), re.compile("".join(rf"(?:\Z|[{c}{c.upper()}]" for c in "action") + r"\Z" + ")" * 6)),
}
_RUN = re.compile(f"{ESCAPE}+")


class Unescaper:
    """Undo `escape` on a text that arrives in pieces."""

    __slots__ = ("_before", "_place", "_run", "_word")

    def __init__(self) -> None:
        """Start at the beginning of a text."""
        self._before = ""
        self._run = 0
        self._word = ""
        self._place: str | None = None

    @property
    def held(self) -> int:
        """How many characters of the input are not given out yet."""
        return self._run + len(self._word)

    def feed(self, text: str) -> str:
        """Take the next piece, return what is decided."""
        if not self._run and ESCAPE not in text:
            self._before = (self._before + text)[-LONGEST_HEAD:]
            return text
        out: list[str] = []
        at = 0
        if self._run:
            at = self._resume(text, out)
        while at < len(text):
            found = _RUN.search(text, at)
            if found is None:
                out.append(text[at:])
                self._remember(text, at, len(text))
                break
            start, end = found.span()
            out.append(text[at:start])
            self._remember(text, at, start)
            at = end
            place = _PLACE.search(self._before)
            self._run = end - start
            if place is None:
                self._give(out, self._run)
                continue
            self._place = place.lastgroup
            at = self._resume(text, out, at)
        return "".join(out)

    def _remember(self, text: str, start: int, end: int) -> None:
        self._before = (self._before + text[max(start, end - LONGEST_HEAD) : end])[-LONGEST_HEAD:]

    def _resume(self, text: str, out: list[str], at: int = 0) -> int:
        """Go on behind a run of escapes that stands in a place; return where the text is undecided no more."""
        if not self._word:
            more = _RUN.match(text, at)
            if more is not None:
                self._run += more.end() - at
                at = more.end()
        word = self._word + text[at : at + LONGEST_HEAD - len(self._word)]
        whole, part = _FOLLOWS[self._place]
        found = whole.match(word)
        if found is not None and found.end() < len(word):
            self._give(out, self._run - 1)
        elif part.match(word) is not None or found is not None:
            self._word = word
            return len(text)
        else:
            self._give(out, self._run)
        # The word's own characters are plain text from here on; those of earlier pieces have no other place to come from.
        out.append(self._word)
        self._before = (self._before + self._word)[-LONGEST_HEAD:]
        self._word = ""
        return at

    def _give(self, out: list[str], count: int) -> None:
        out.append(ESCAPE * count)
        self._before = (self._before + ESCAPE * min(count, LONGEST_HEAD))[-LONGEST_HEAD:]
        self._run = 0

    def flush(self) -> str:
        """The text ends here, or something else stands between it and what comes: return what was held."""
        whole, _ = _FOLLOWS[self._place]
        count = self._run - 1 if self._run and whole.match(self._word) is not None else self._run
        rest = ESCAPE * count + self._word
        self._before = self._word = ""
        self._run = 0
        return rest

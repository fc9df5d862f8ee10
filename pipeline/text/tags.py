"""Read one tag of the DSML and canonical families, whatever noise the model put into it (S5).

In: text and the place of a `<`. Out: a `Tag`, None when more text is needed to tell, or `BAD` when it is no tag of ours. Promise: bounded by
`limit` characters, so what is looked at again when a tag arrives in pieces is bounded too; the answer depends on the text alone.
Attribute values come back as they were written, entities decoded; only keywords and attribute names are folded.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from pipeline.text import entities
from pipeline.text.letters import DOUBLE_QUOTES, EQUALS, GREATER, INVISIBLE, LESS, PIPES, SINGLE_QUOTES, SLASHES, fold, none_of
from pipeline.text.tag_heads import (
    BOUNDARY,
    INVOKE,
    NOISE,
    OLD_WRAPPER,
    PARAMETER,
    WRAPPER,
    begun,
    canonical_start,
    dsml_start,
    either,
    head_prefix,
    keyword,
)

BAD: Final = "bad"


class Tag(msgspec.Struct, frozen=True):
    """A tag: `word` is its keyword, `end` the place behind it. `string` is the attribute of that name."""

    word: str
    dsml: bool
    closing: bool
    end: int
    empty: bool = False
    name: str | None = None
    string: bool | None = None
    noisy: bool = False
    lost_end: bool = False
    misspelt: bool = False


DSML_WORDS = (WRAPPER, OLD_WRAPPER, INVOKE, PARAMETER)
WORDS = (WRAPPER, INVOKE, PARAMETER)
_ANY_CALLS = r"(?:[A-Za-z]{0,12}[_\-▁ ]?[Cc][Aa][Ll][Ll][Ss]?|[Tt][Oo][Oo][Ll])"
"""A wrapper's name misspelt, for the wide tolerance (S6): `calls`, `toolcalls`, `tool-call`, `tvoe_calls`."""

_CLEAN = re.compile(
    r"<(/?)([|｜]DSML[|｜])?(tool_calls|invoke|parameter)"
    r'(?: name="([^"&<>“”„‟＂]*)")?(?: string="(true|false)")?>'
)
_PLAIN_HEAD = re.compile("</?(?:[|｜]DSML[|｜](?:tool_calls|invoke|parameter)|tool_calls|invoke|parameter)")
_DSML_HEAD = dsml_start(closers=True)
_LIGHT_HEAD = canonical_start(closers=True)
_HEAD = re.compile(
    either(
        (
            f"{_DSML_HEAD}({'|'.join(keyword(word) for word in DSML_WORDS)}){BOUNDARY}",
            f"{_LIGHT_HEAD}({'|'.join(keyword(word) for word in WORDS)}){BOUNDARY}",
        )
    )
)
_WIDE_HEAD = re.compile(either((f"{_DSML_HEAD}({_ANY_CALLS}){BOUNDARY}", f"{_LIGHT_HEAD}({_ANY_CALLS}){BOUNDARY}")))
_HEAD_PART = re.compile(head_prefix(DSML_WORDS, WORDS, closers=True))
_WIDE_PART = re.compile(rf"(?:{_DSML_HEAD}|{_LIGHT_HEAD})[A-Za-z_\-▁ ]{{0,18}}\Z")

_LESS = f"[{LESS}]"
_GREATER = f"[{GREATER}]"
_FILL = re.compile(rf"(?:\s|{NOISE}(?<![{none_of(SLASHES)}]))*+")
_NAME = re.compile(rf"[\w\-.:{INVISIBLE}]+")
_GAP = re.compile(rf"[\s{INVISIBLE}]*+")
_EQUALS = re.compile(rf"[\s{INVISIBLE}]*+[{EQUALS}][\s{INVISIBLE}]*+")
_SOFT_DOUBLE = DOUBLE_QUOTES.replace('"', "")
_SOFT_SINGLE = SINGLE_QUOTES.replace("'", "")
_CLOSES = rf"(?=[\s{PIPES}]*+[{none_of(SLASHES)}{GREATER}])"
_NO_CLOSE = rf"(?![\s{PIPES}]*+[{none_of(SLASHES)}{GREATER}])"
_VALUES = (
    (re.compile('"'), re.compile(rf'"((?:[^"{_SOFT_DOUBLE}]|[{_SOFT_DOUBLE}]{_NO_CLOSE})*+)(?:"|[{_SOFT_DOUBLE}]{_CLOSES})')),
    (re.compile("'"), re.compile(rf"'((?:[^'{_SOFT_SINGLE}]|[{_SOFT_SINGLE}]{_NO_CLOSE})*+)(?:'|[{_SOFT_SINGLE}]{_CLOSES})")),
    (re.compile(f"[{_SOFT_DOUBLE}]"), re.compile(f"[{_SOFT_DOUBLE}]([^{DOUBLE_QUOTES}]*+)[{DOUBLE_QUOTES}]")),
    (re.compile(f"[{_SOFT_SINGLE}]"), re.compile(f"[{_SOFT_SINGLE}]([^{SINGLE_QUOTES}]*+)[{SINGLE_QUOTES}]")),
)
_BARE = re.compile(rf"[^\s{none_of(LESS, GREATER, EQUALS, DOUBLE_QUOTES, SINGLE_QUOTES, PIPES)}]*+")
_LINE_BREAK = re.compile("[\r\n]")

COMMENT = "<!--"
COMMENT_END = "-->"

SECTION = re.compile(rf"[{LESS}](?:{NOISE}(?<![{none_of(SLASHES)}])){{0,4}}+[{INVISIBLE}]{{0,2}}+\[[cC][dD][aA][tT][aA]\[")
_SECTION_PART = re.compile(
    rf"[{LESS}](?:{NOISE}(?<![{none_of(SLASHES)}])){{0,4}}+(?:\Z|\[(?:\Z|[cC](?:\Z|[dD](?:\Z|[aA](?:\Z|[tT](?:\Z|[aA]\Z))))))"
)
SECTION_END = re.compile(r"\]\][>＞]")


def may_be_section(text: str, at: int) -> bool:
    """Can a CDATA opener begin here when more arrives?"""
    return _SECTION_PART.match(text, at) is not None


def read_tag(text: str, at: int, limit: int, *, wide: bool = False) -> Tag | Literal["bad"] | None:
    """The tag that begins at this place."""
    clean = _CLEAN.match(text, at)
    if clean is not None and clean.end() - at <= limit:
        string = clean[5]
        return Tag(clean[3], clean[2] is not None, clean[1] == "/", clean.end(), False, clean[4], string == "true" if string else None)
    end = min(len(text), at + limit + 1)
    cut = len(text) <= at + limit
    head = _HEAD.match(text, at, end)
    misspelt = False
    if head is None and wide:
        head = _WIDE_HEAD.match(text, at, end)
        misspelt = head is not None
    if head is None:
        part = _HEAD_PART.match(text, at, end) or (wide and _WIDE_PART.match(text, at, end))
        return None if part and cut else BAD
    dsml = head[1] is not None
    word = WRAPPER if misspelt else fold(head[1] or head[2])
    closing = any(char in SLASHES for char in head[0])
    reader = _Reader(text, head.end(), end, cut=cut, noisy=_PLAIN_HEAD.fullmatch(head[0]) is None)
    return reader.read(WRAPPER if word == OLD_WRAPPER else word, dsml, closing, misspelt, at + limit)


class _Reader:
    """Reads the rest of one tag behind its keyword."""

    __slots__ = ("_at", "_cut", "_end", "_noisy", "_text")

    def __init__(self, text: str, at: int, end: int, *, cut: bool, noisy: bool) -> None:
        self._text = text
        self._at = at
        self._end = end
        self._cut = cut
        self._noisy = noisy

    def _more(self) -> Literal["bad"] | None:
        return None if self._cut else BAD

    def read(self, word: str, dsml: bool, closing: bool, misspelt: bool, last: int) -> Tag | Literal["bad"] | None:
        name: str | None = None
        string: bool | None = None
        text = self._text
        while True:
            fill = _FILL.match(text, self._at, self._end)
            start, self._at = self._at, fill.end() if fill else self._at
            if fill and fill[0].strip():
                self._noisy = True
            if self._at >= self._end:
                return self._more()
            char = text[self._at]
            empty = char in SLASHES
            if empty:
                fill = _FILL.match(text, self._at + 1, self._end)
                self._at = fill.end() if fill else self._at + 1
                if self._at >= self._end:
                    return self._more()
                char = text[self._at]
            if char in GREATER:
                done = self._at + 1
                noisy = self._noisy or char != ">"
                return Tag(word, dsml, closing, done, empty, name, string, noisy, False, misspelt) if done <= last else BAD
            if char in LESS and not empty and _LINE_BREAK.search(text, start, self._at):
                return Tag(word, dsml, closing, self._at, False, name, string, self._noisy, True, misspelt)
            if empty:
                return BAD
            attribute = self._attribute()
            if attribute is None or attribute == BAD:
                return self._more() if attribute is None else BAD
            key, value, slash = attribute
            if key == "name" and name is None:
                name = entities.decode(value)
            elif key == "string" and string is None and fold(value) in ("true", "false"):
                string = fold(value) == "true"
            if slash:
                self._at -= 1

    def _attribute(self) -> tuple[str, str, bool] | Literal["bad"] | None:
        """Name, value, and whether a slash behind a bare value belongs to the tag."""
        text, end = self._text, self._end
        found = _NAME.match(text, self._at, end)
        if found is None:
            return BAD
        if found.end() >= end:
            return None
        equals = _EQUALS.match(text, found.end(), end)
        if equals is None:
            gap = _GAP.match(text, found.end(), end)
            return None if gap and gap.end() == end else BAD
        at = equals.end()
        if at >= end:
            return None
        for opens, whole in _VALUES:
            if opens.match(text, at, end):
                value = whole.match(text, at, end)
                if value is None or (value.end() == end and value[0][-1] not in "\"'"):
                    return None
                self._at = value.end()
                self._noisy = self._noisy or value[0][0] not in "\"'" or value[0][-1] != value[0][0] or equals[0] != "="
                return fold(found[0]), value[1], False
        bare = _BARE.match(text, at, end)
        stop = bare.end() if bare else at
        if stop >= end:
            return None
        if stop == at:
            return BAD
        value_text = text[at:stop]
        self._noisy = True
        slash = value_text[-1] in SLASHES and text[stop] in GREATER
        self._at = stop
        return fold(found[0]), value_text[:-1] if slash else value_text, slash


def opener_patterns(*, wide: bool) -> tuple[str, str]:
    """Regular expressions for the head of a tag that opens a block, whole and begun (S2, S6)."""
    words = (WRAPPER, INVOKE)
    dsml, light = dsml_start(closers=False), canonical_start(closers=False)
    whole = [
        f"{dsml}{either(keyword(word) for word in (WRAPPER, OLD_WRAPPER, INVOKE))}{BOUNDARY}",
        f"{light}{either(keyword(word) for word in words)}{BOUNDARY}",
    ]
    part = [head_prefix((WRAPPER, OLD_WRAPPER, INVOKE), words, closers=False)]
    if wide:
        whole += [f"{dsml}{_ANY_CALLS}{BOUNDARY}", f"{light}{_ANY_CALLS}{BOUNDARY}"]
        part += [rf"(?:{dsml}|{light})[A-Za-z_\-▁]{{0,18}}\Z"]
    return either(whole), either(part)


def closer_patterns() -> tuple[str, str]:
    """Regular expressions for a whole closing tag of ours without attributes, whole and begun (S6, spare closers)."""
    noise = rf"(?:\s|{NOISE}){{0,16}}+"
    slash = rf"(?=[{LESS}][^{none_of(GREATER)}]{{0,64}}?[{none_of(SLASHES)}])"
    dsml = f"{_DSML_HEAD}{either(keyword(word) for word in DSML_WORDS)}"
    light = f"{_LIGHT_HEAD}{either(keyword(word) for word in WORDS)}"
    whole = rf"{slash}(?:{dsml}|{light}){noise}{_GREATER}"
    part = either(
        (
            rf"{slash}(?:{dsml}|{light}){noise}\Z",
            rf"{slash}{head_prefix(DSML_WORDS, WORDS, closers=True)}",
            rf"{_LESS}(?:{NOISE}){{0,16}}+(?:{keyword('dsml')}(?:{NOISE}){{0,16}}+){{0,4}}+(?:\Z|{begun('dsml')})",
        )
    )
    return whole, part

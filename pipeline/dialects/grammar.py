"""The openers of some dialects together, compiled: what the sieve looks for before and after the first call.

In: dialects. Out: patterns. Promise: compiled once for the same dialects, and one definition for what is held back and what is parsed (S2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pipeline.dialects.block import Opener
from pipeline.dialects.dialect import Dialect
from pipeline.text.letters import LESS
from pipeline.text.markdown import first_of
from pipeline.text.results import RESULT_TAG, RESULT_TAG_PART


class Way(NamedTuple):
    """One opener with its dialect."""

    whole: re.Pattern[str]
    part: re.Pattern[str]
    dialect: Dialect
    opener: Opener


class Grammar(NamedTuple):
    """The openers of some dialects, compiled."""

    starts: re.Pattern[str]
    before: re.Pattern[str]
    after: re.Pattern[str]
    tags: tuple[Way, ...]
    fences: tuple[Way, ...]
    spares: tuple[Way, ...]
    result: re.Pattern[str]
    result_part: re.Pattern[str]


@lru_cache(maxsize=64)
def grammar(dialects: tuple[Dialect, ...], wide: bool) -> Grammar:
    """The patterns for these dialects in a tolerance."""
    ways = [
        Way(re.compile(opener.whole), re.compile(opener.part), dialect, opener)
        for dialect in dialects
        for opener in dialect.openers(wide=wide)
    ]
    spares = [Way(re.compile(one.whole), re.compile(one.part), dialect, one) for dialect in dialects for one in dialect.spares]
    tags = tuple(way for way in ways if not way.opener.fence)
    wholes = [way.opener.whole for way in tags]
    parts = [way.opener.part for way in tags]
    late_wholes = [RESULT_TAG, *wholes, *(way.opener.whole for way in spares)]
    late_parts = [RESULT_TAG_PART, *parts, *(way.opener.part for way in spares)]
    return Grammar(
        starts=first_of("".join(sorted({*LESS, *(char for way in (*tags, *spares) for char in way.opener.starts)}))),
        before=_any_of(wholes, parts),
        after=_any_of(late_wholes, late_parts),
        tags=tags,
        fences=tuple(way for way in ways if way.opener.fence),
        spares=tuple(spares),
        result=re.compile(RESULT_TAG),
        result_part=re.compile(RESULT_TAG_PART),
    )


def _any_of(wholes: Sequence[str], parts: Sequence[str]) -> re.Pattern[str]:
    return re.compile(
        f"(?P<whole>{'|'.join(f'(?:{one})' for one in wholes) or '(?!)'})|{'|'.join(f'(?:{one})' for one in parts) or '(?!)'}"
    )

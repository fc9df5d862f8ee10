"""Does the raw input of a custom tool match its regex grammar (CR03)?

In: the grammar's definition, in the syntax of Rust's regex crate, which is what the Responses API takes. Out: yes or no for a whole text, or
nothing where the definition is none that is understood. Promise: linear time for every pattern and every text; definitions that would grow too
large are none.

The engine is the one of JSON Schema's `pattern`: Python's own backtracks, and both the pattern and the text are somebody else's. It reads
patterns as JavaScript means them, so what means something else there (a dot, inline flags) is written out, or not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

Matches = Callable[[str], bool]
_KEPT = 64
_MAX_DEFINITION_CHARS = 65_536
_OPTIONS = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
# A class that never ends is one piece to the end: no engine takes it, and it is not to be looked for again from each bracket in it (S14).
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)|\.|\(\?[A-Za-z-]+[:)]|.", re.DOTALL)


@lru_cache(maxsize=_KEPT)
def regex_grammar(definition: str) -> Matches | None:
    """A check whether a whole text matches; None for what is no regex here, or too large a one. Never raises."""
    if len(definition) > _MAX_DEFINITION_CHARS:
        return None
    pieces = _PIECE.findall(definition)
    if any(piece.startswith("(?") for piece in pieces):
        return None  # inline flags
    written = "".join("[^\\n]" if piece == "." else piece for piece in pieces)
    try:
        whole = jsonschema_rs.validator_for({"pattern": rf"\A(?:{written})\z"}, pattern_options=_OPTIONS)
    except (jsonschema_rs.ValidationError, ValueError):
        return None
    return whole.is_valid

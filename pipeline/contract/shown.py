"""What the model is shown of other people's text: markers broken (C10), quotable JSON fences remembered (S8).

In: texts of the request. Out: the same texts, made safe to repeat. One object lives for one request and knows at its end
whether anything was escaped and which texts hold a JSON fence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from pipeline.contract.plain_texts import PlainTexts
from pipeline.text import echo
from pipeline.turn import Arguments, Call

_JSON_FENCE = re.compile(r"(?:```|~~~)[ \t]*json", re.IGNORECASE)


class Shown:
    """Prepares texts, and keeps book of them."""

    def __init__(self, plain: PlainTexts | None = None) -> None:
        """Start with nothing shown. `plain` remembers over requests which texts need no second look."""
        self.escaped = False
        self.quotes: list[str] = []
        self._plain = plain if plain is not None else PlainTexts()

    def text(self, text: str) -> str:
        """The text as the model may see it; the same object when it holds nothing of ours."""
        key = self._plain.key(text)
        if key is not None and key in self._plain:
            return text
        safe = self._safe(text)
        if safe is text and key is not None and not (self.quotes and self.quotes[-1] is text):
            self._plain.add(key)
        return safe

    def _safe(self, text: str) -> str:
        safe = echo.escape(text)
        if safe is not text:
            self.escaped = True
        if ("```" in safe or "~~~" in safe) and _JSON_FENCE.search(safe) is not None:
            self.quotes.append(safe)
        return safe

    def call(self, call: Call) -> Call:
        """The call as the model would have written it: its argument texts escaped, as they were when it read them."""
        value = call.arguments.value()
        if value is None:
            return call
        safe = self._strings(value)
        return call if safe is value else msgspec.structs.replace(call, arguments=Arguments(safe))

    def _strings(self, value: object) -> object:
        if isinstance(value, str):
            return self._safe(value)
        if isinstance(value, list):
            items = [self._strings(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        if isinstance(value, Mapping):
            fields = {key: self._strings(item) for key, item in value.items()}
            return value if all(fields[key] is item for key, item in value.items()) else fields
        return value

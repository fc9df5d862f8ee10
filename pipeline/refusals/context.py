"""What a refusal has to be judged against: which tools were offered, and what was just returned (R2). Context comes before wording."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from pipeline.refusals.phrases import capabilities
from pipeline.refusals.words import fold
from pipeline.turn import Tool

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_STEM = 5
_COMMON = frozenset({"tool", "tools", "with", "that", "this", "from", "your", "user", "mcp", "input", "value", "name", "type", "data"})


class Context:
    """Tools offered in this turn, and whether results (`results`), failed ones among them (`failed`), were just returned."""

    def __init__(self, tools: Sequence[Tool], *, results: bool = False, failed: bool = False) -> None:
        """Nothing is computed before a rule asks for it."""
        self.tools = tools
        self.offered = bool(tools)
        self.results = results
        self.failed = failed

    @property
    def open(self) -> bool:
        """May an answer be a refusal at all?"""
        return self.offered and not (self.results and self.failed)

    def is_tool(self, word: str) -> bool:
        """Whether a word names an offered tool (the last word of the name where it has several)."""
        return word in self._names

    def is_topic(self, word: str) -> bool:
        """Whether the names of an offered tool or of its arguments have a word of the same stem."""
        return len(word) > 3 and word[:_STEM] in self._topics

    def can(self, capability: str) -> bool:
        """Whether an offered tool has the capability, as far as its names tell."""
        return capability in self._capabilities

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(words[-1] for tool in self.tools if (words := fold(tool.name, {})))

    @cached_property
    def _parts(self) -> frozenset[str]:
        names: list[str] = []
        for tool in self.tools:
            names.append(tool.name)
            properties = tool.parameters.get("properties")
            if isinstance(properties, dict):
                names += [key for key in properties if isinstance(key, str)]
        return frozenset(part.lower() for name in names for part in _PART.findall(name)) - _COMMON

    @cached_property
    def _topics(self) -> frozenset[str]:
        topics = {part for part in self._parts if len(part) > 3}
        for name in self._capabilities:
            topics |= {word for word in capabilities()[name] if len(word) > 3}
        return frozenset(word[:_STEM] for word in topics)

    @cached_property
    def _capabilities(self) -> frozenset[str]:
        return frozenset(name for name, words in capabilities().items() if words & self._parts)

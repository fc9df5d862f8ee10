"""The stable block of the contract: what the model is told about its tools (C1, C8, C9).

In: a `Brief`, all that the block depends on. Out: a `Contract`, text with its tier and size. Promise: the same brief gives the same
bytes in any process; the highest tier that fits is used; no tool is left out. Raises ContractTooLargeError.
"""

from __future__ import annotations

import msgspec

from pipeline.contract.examples import MAX_EXAMPLE_TURNS, best_to_show, example_call
from pipeline.contract.shown import Shown
from pipeline.contract.tiers import list_tools
from pipeline.contract.wording import wording
from pipeline.dialects.dialect import Dialect
from pipeline.turn import Tool
from pipeline.verdicts import Tier

TIERS = (Tier.FULL, Tier.COMPACT, Tier.NAMES)
"""From much to little."""


class Brief(msgspec.Struct, frozen=True):
    """What a block is made of. `whole` is the one tool shown in full (C3, named), `answer` the sentence about a JSON answer (CR10)."""

    tools: tuple[Tool, ...]
    dialect: Dialect
    neutral: bool = False
    parallel: bool = True
    whole: str | None = None
    answer: str | None = None


class Contract(msgspec.Struct, frozen=True):
    """The block. `size` is in UTF-8 bytes, `to_show` are the tools that make the best examples, `example` a legal block."""

    text: str
    tier: Tier
    size: int
    example: str
    to_show: tuple[Tool, ...]
    escaped: bool = False
    quotes: tuple[str, ...] = ()


class ContractTooLargeError(ValueError):
    """Not even the lowest tier fits. `size` is what it takes, in bytes."""

    def __init__(self, size: int, limit: int, tools: int) -> None:
        """Say what was needed and what was allowed."""
        super().__init__(f"describing {tools} tools takes at least {size} bytes, the limit (contract_max_bytes) is {limit}")
        self.size = size


def write(brief: Brief, max_bytes: int) -> Contract:
    """The block at the highest tier that stays within `max_bytes`."""
    size = 0
    for tier in TIERS:
        contract = write_tier(brief, tier)
        size = contract.size
        if size <= max_bytes:
            return contract
    raise ContractTooLargeError(size, max_bytes, len(brief.tools))


def write_tier(brief: Brief, tier: Tier) -> Contract:
    """The block at this tier, whatever its size."""
    words = wording(neutral=brief.neutral)
    shown = Shown()
    listed = shown.text(list_tools(brief.tools, tier, whole=brief.whole))
    to_show = best_to_show(brief.tools, brief.whole)
    call = example_call(to_show[0]) if to_show else None
    rules = (words.together if brief.parallel else words.one_only, *words.turns, *([shown.text(brief.answer)] if brief.answer else []))
    text = "\n\n".join(
        (
            words.opening,
            f"{words.tools}\n{listed}",
            brief.dialect.describe(brief.tools, call),
            "\n".join(f"- {rule}" for rule in rules),
        )
    )
    return Contract(
        text=text,
        tier=tier,
        size=len(text.encode()),
        example=brief.dialect.render_calls([call]) if call is not None else "",
        to_show=tuple(to_show[:MAX_EXAMPLE_TURNS]),
        escaped=shown.escaped,
        quotes=tuple(shown.quotes),
    )

"""Says what is wrong with a block and where, in words a model can act on (R4)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.events import BlockSeen
from pipeline.verdicts import BlockOutcome

_NEAR_CHARS = 24
_PLAIN = {
    BlockOutcome.MALFORMED: "it does not follow the format",
    BlockOutcome.UNTERMINATED: "it was not finished",
    BlockOutcome.OVERSIZE: "it is too long",
    BlockOutcome.BAD_ARGUMENTS: "its arguments do not fit the tool",
    BlockOutcome.PLACEHOLDER: "it repeats the placeholders of the format description instead of a tool's name and real values",
    BlockOutcome.UNKNOWN_TOOL: "it names a tool that is not available",
}


def fault_of(blocks: Sequence[BlockSeen], answer: str) -> tuple[str, str]:
    """The fault of the first of these blocks, and what was written from the block's beginning on (both may be empty).

    A block is reported as far as it was read, which is up to its fault; `answer`, the visible text it stands in, has the rest.
    """
    if not blocks:
        return "", ""
    block = blocks[0]
    at = answer.find(block.text) if block.text else -1
    written = answer[at:] if at >= 0 else block.text
    fault = block.fault.strip().rstrip(".") or _PLAIN.get(block.outcome, "")
    return f"{fault}{_where(block, written)}", written


def _where(block: BlockSeen, written: str) -> str:
    at = block.fault_at - block.span[0]
    if not block.fault_at or not 0 <= at <= len(written):
        return ""
    before = written[:at]
    line = before.count("\n") + 1
    column = at - (before.rfind("\n") + 1) + 1
    near = written[at : at + _NEAR_CHARS].split("\n", 1)[0].strip()
    return f" (line {line}, column {column} of the block{f', at {near}' if near else ', at the end of a line' if at < len(written) else ', at its end'})"

"""Contracts by content: an agent sends the same tools on every turn (C9).

In: briefs. Out: their contracts. Promise: bounded; keyed by content alone, so equal tools of another request hit as well.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from pipeline import json_values
from pipeline.contract.block import Brief, Contract, write

MAX_CONTRACTS = 128


class ContractCache:
    """The most recently used contracts of one route."""

    def __init__(self, max_bytes: int) -> None:
        """Take the limit of a block, in bytes."""
        self._max_bytes = max_bytes
        self._contracts: OrderedDict[bytes, Contract] = OrderedDict()

    def get(self, brief: Brief) -> Contract:
        """The brief's contract, written at the first time it is asked for. Raises ContractTooLargeError."""
        key = _content_key(brief)
        found = self._contracts.get(key)
        if found is None:
            found = write(brief, self._max_bytes)
            if len(self._contracts) >= MAX_CONTRACTS:
                self._contracts.popitem(last=False)
            self._contracts[key] = found
        else:
            self._contracts.move_to_end(key)
        return found


def _content_key(brief: Brief) -> bytes:
    tools = [[tool.name, tool.description, tool.parameters, tool.kind, tool.format] for tool in brief.tools]
    content = [brief.dialect.name, brief.neutral, brief.parallel, brief.whole, brief.answer, tools]
    return hashlib.blake2b(json_values.dumps_bytes(content), digest_size=16).digest()

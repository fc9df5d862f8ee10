"""Is there anything to mend? One look at every part, one parse a call (G4).

In: messages. Out: whether an upstream that insists on its protocol takes them as they are. Promise: copies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeline.turn import Call, Message, Result, Role
from pipeline.verdicts import HistoryRepair


def is_sound(messages: Sequence[Message]) -> bool:
    """True when no call is poisoned, ids are given and unique, and a message's calls get all their results right behind it."""
    seen: set[str] = set()
    due: set[str] = set()
    for message in messages:
        is_user = message.role is Role.USER
        if due and not is_user:
            return False
        only_results = True
        for part in message.parts:
            if isinstance(part, Call):
                if not part.id or part.id in seen or part.arguments.value() is None:
                    return False
                seen.add(part.id)
                due.add(part.id)
            elif isinstance(part, Result):
                if not is_user or not only_results or part.call_id not in due:
                    return False
                due.discard(part.call_id)
            else:
                only_results = False
                if due and is_user:
                    return False
    return not due


def has_orphan(messages: Sequence[Message]) -> bool:
    """Whether a result answers no call that stands before it: what no strict upstream takes, and no guard lets through (G3)."""
    called: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, Call):
                called.add(part.id)
            elif isinstance(part, Result) and part.call_id not in called:
                return True
    return False


def tidied(messages: Sequence[Message]) -> Counter[HistoryRepair]:
    """Count the arguments that `Arguments.text` puts right by itself: an object serialised, a string unwrapped (G1)."""
    found: Counter[HistoryRepair] = Counter()
    for message in messages:
        for part in message.parts:
            if isinstance(part, Call):
                raw = part.arguments.raw
                if isinstance(raw, dict):
                    found[HistoryRepair.SERIALISED_OBJECT] += 1
                elif isinstance(raw, str) and raw.lstrip()[:1] == '"' and part.arguments.value() is not None:
                    found[HistoryRepair.UNWRAPPED_STRING] += 1
    return found

"""Does the conversation show by itself how an exchange goes (C6)?

In: messages. Out: yes or no. Example turns stand in until it does: a call, its result and the step after it. A 135M model that
had examples only up to its first call repeated that call for ever after the result (0 of 4 answers); with them it answered 4 of 4.
Keeping them one request longer also keeps the prefix that the upstream has cached.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.turn import Message, Result, Role


def shows_an_exchange(messages: Sequence[Message]) -> bool:
    """True once the assistant has taken a step after a result."""
    returned = False
    for message in messages:
        if returned and message.role is Role.ASSISTANT:
            return True
        returned = returned or any(isinstance(part, Result) for part in message.parts)
    return False

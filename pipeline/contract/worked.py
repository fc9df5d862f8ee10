"""Do example turns stand in the conversation (C6)?

In: messages. Out: yes or no. They do while there is no call yet, and for the one request more that returns the first results. Without
that one a 135M model repeated its call for ever (0 of 4 answers after a result); with it it answered (4 of 4). It also keeps the
prefix that the upstream has cached.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.turn import Call, Message, Result, Role


def wants_examples(messages: Sequence[Message]) -> bool:
    """True until the conversation has a call, and while the results of its first calls are being returned."""
    called = at_results = False
    for message in messages:
        if message.role is Role.ASSISTANT:
            if at_results:
                return False
            called = called or _holds(message, Call)
        elif message.role is Role.USER:
            at_results = _holds(message, Result)
            if called and not at_results:
                return False
    return True


def _holds(message: Message, kind: type) -> bool:
    return any(isinstance(part, kind) for part in message.parts)

"""Where things go in the messages (C6, C8).

In: messages and texts. Out: a new list of messages. Promise: what is not touched stays the same object.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline.turn import Message, Result, Role, Text

_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)


def head_length(messages: Sequence[Message]) -> int:
    """How many system and developer messages stand at the start."""
    return next((at for at, message in enumerate(messages) if message.role not in _INSTRUCTING), len(messages))


def with_block(messages: Sequence[Message], block: str) -> list[Message]:
    """The block at the end of the last instructing message at the start; as a system message of its own where there is none."""
    head = head_length(messages)
    if not head:
        return [Message(Role.SYSTEM, (Text(block),)), *messages]
    return [*messages[: head - 1], _appended(messages[head - 1], block), *messages[head:]]


def with_examples(messages: Sequence[Message], examples: Sequence[Message]) -> list[Message]:
    """The worked exchanges between the instructions and the conversation."""
    head = head_length(messages)
    return [*messages[:head], *examples, *messages[head:]]


def with_reminder(messages: Sequence[Message], reminder: str) -> list[Message]:
    """The line at the end of the last user message; nothing where no user has spoken."""
    at = last_user(messages)
    if at is None:
        return list(messages)
    return [*messages[:at], _appended(messages[at], reminder), *messages[at + 1 :]]


def last_user(messages: Sequence[Message]) -> int | None:
    """Where the last user message stands."""
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role is Role.USER), None)


def only_results(message: Message) -> bool:
    """Does the message hold tool results and nothing else?"""
    return all(isinstance(part, Result) for part in message.parts)


def _appended(message: Message, text: str) -> Message:
    parts = message.parts
    if parts and isinstance(parts[-1], Text):
        parts = (*parts[:-1], Text(f"{parts[-1].text}\n\n{text}"))
    else:
        parts = (*parts, Text(text))
    return msgspec.structs.replace(message, parts=parts)

"""A native history that is safe to repeat (C10): where the upstream keeps structured messages, and a sieve stands behind it.

In: messages, and the keeper of what is shown. Out: the same messages with every marker in their texts, results and arguments broken; calls and
results stay what they are. Promise: a message without a marker is the same object; the escapes are one to one, so the sieve and the
reader of native calls undo them.
"""

from __future__ import annotations

import msgspec

from pipeline.contract.projection import whole_texts
from pipeline.contract.shown import Shown
from pipeline.turn import Call, Image, Media, Message, Part, Result, Text


def repeatable(messages: tuple[Message, ...], shown: Shown) -> tuple[Message, ...]:
    """All messages, safe to repeat; the same tuple where all of them are so already."""
    safe = tuple(_message(message, shown) for message in messages)
    return messages if all(new is old for new, old in zip(safe, messages, strict=True)) else safe


def _message(message: Message, shown: Shown) -> Message:
    parts = _parts(message.parts, shown)
    return message if parts is message.parts else msgspec.structs.replace(message, parts=parts)


def _parts(parts: tuple[Part, ...], shown: Shown) -> tuple[Part, ...]:
    """The parts made safe; the same tuple where nothing changed."""
    safe = tuple(_part(part, shown) for part in whole_texts(parts, shown))
    return parts if len(safe) == len(parts) and all(new is old for new, old in zip(safe, parts, strict=True)) else safe


def _part(part: Part, shown: Shown) -> Part:
    if isinstance(part, Text):
        text = shown.text(part.text)
        return part if text is part.text else Text(text)
    if isinstance(part, Call):
        return shown.call(part)
    if isinstance(part, Result):
        content = _parts(part.content, shown)
        if content is part.content:
            return part
        return msgspec.structs.replace(part, content=tuple(one for one in content if isinstance(one, Text | Image | Media)))
    return part

"""What a retry adds to the conversation: the answer that was discarded, and why and how to answer again (R4).

In: a correction, a legal block, the tools. Out: messages for the end of the conversation. Promise: everything before them keeps its
bytes; a long discarded answer is shown with its middle left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.refusals.corrections import correction_message
from pipeline.turn import Correction, Message, Role, Text, Tool

SHOWN_CHARS = 6000
"""Of a discarded answer, in characters: beginning and end."""


def correcting(correction: Correction, block: str, tools: Sequence[Tool]) -> list[Message]:
    """The discarded answer, where there was any, and the correction. The model's own words are in their escaped form already."""
    text = correction_message(correction, block=block, tools=tuple(tool.name for tool in tools))
    messages = [Message(Role.USER, (Text(text),))]
    if correction.discarded.strip():
        messages.insert(0, Message(Role.ASSISTANT, (Text(_shortened(correction.discarded)),)))
    return messages


def _shortened(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text
    half = SHOWN_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"

"""What reading an answer needs besides its text: made once for each attempt from the turn and the settings, shared by every dialect."""

from __future__ import annotations

from typing import Literal

import msgspec

from pipeline.turn import Tool


class ParserOptions(msgspec.Struct, frozen=True):
    """What a block parser must know besides the text."""

    tools: tuple[Tool, ...] = ()
    wide: bool = False
    stream_arguments: bool = False
    max_block_chars: int = 4 << 20
    max_tag_chars: int = 512
    quotes: tuple[str, ...] = ()
    unknown_tools: Literal["forward", "retry", "text"] = "forward"

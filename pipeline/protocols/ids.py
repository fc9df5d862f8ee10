"""Identifiers of what a client receives (X27).

In: a prefix. Out: that prefix and 24 letters and digits, unique by chance alone. The shape fits the strictest reader known: characters
`[A-Za-z0-9_-]`, at most 40 of them (29 for a call). This file alone takes entropy; everything else in the package is a function of its input.
"""

from __future__ import annotations

import os

COMPLETION = "chatcmpl-"
CALL = "call_"
MESSAGE_ANTHROPIC = "msg_01"
TOOL_USE = "toolu_01"
RESPONSE = "resp_"
MESSAGE = "msg_"
FUNCTION_CALL = "fc_"
CUSTOM_CALL = "ctc_"
REASONING = "rs_"
REQUEST = "req_"

_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# 256 is no multiple of 62, so eight letters come a little more often. Names need to be unique, not secret: 24 of them still hold 140 bits.
_LETTERS = (_ALPHABET * 5)[:256]


def mint(prefix: str) -> str:
    """Make a new identifier: `prefix` and 24 characters of base 62."""
    return prefix + os.urandom(24).translate(_LETTERS).decode()

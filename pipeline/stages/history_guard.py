"""Keeps a conversation alive in which something broke: history_guard.

In: a turn as normalize left it. Out: the same object when its history is sound, else a turn whose history any strict server
takes: poison as an honest record, calls and results in balance, ids unique (G1 to G3). Runs in every mode (G6), keeps no
state and never touches what the client stored (G5). It catches nothing: the engine lets a failed guard's request pass.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from pipeline.history.inspection import is_sound, tidied
from pipeline.history.mending import mend
from pipeline.settings import Settings
from pipeline.stage import Note, Receiver
from pipeline.turn import Turn
from pipeline.verdicts import Api, Noted


class HistoryGuard:
    """Mend broken calls and results of the history."""

    name = "history_guard"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Take a route's settings; the guard has no switch of its own."""

    def prepare(self, turn: Turn, note: Note) -> Turn:
        """Return the turn itself, or one with a mended history."""
        messages = turn.messages
        # An Anthropic client always gives objects; elsewhere an object is a client's slip that `Arguments.text` puts right.
        repairs = Counter() if turn.api is Api.ANTHROPIC_MESSAGES else tidied(messages)
        if not is_sound(messages):
            mended = mend(messages)
            messages, repairs = mended.messages, mended.repairs + repairs
        elif not repairs:
            note(Noted.HISTORY_CLEAN)
            return turn
        for kind, count in sorted(repairs.items()):
            note(Noted.HISTORY_REPAIRED, kind=kind, count=count)
        # The client's bytes no longer say what this turn says, so they must not pass for it.
        return msgspec.structs.replace(turn, messages=messages, raw=b"")

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002 - the signature is the protocol's
        """Stay out of the answer's way."""
        return None

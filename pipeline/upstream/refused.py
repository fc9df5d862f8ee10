"""Request fields that an upstream refuses, left out of what goes to it (U06, U12).

In: a body, the names that this upstream is known to refuse. Out: the body without them. Promise: what the client asked for and does not get
is told; what is done here anyway (stop sequences, one call only, the other name of the output limit) is no loss. Who put several wishes
into one field (`output_config`) tells of each itself.
"""

from __future__ import annotations

from pipeline.events import Failed
from pipeline.protocols.collector import Collector
from pipeline.stage import StageError
from pipeline.turn import Turn
from pipeline.verdicts import DroppedParameter, ErrorKind

NEEDED = frozenset({"model", "messages", "stream"})
"""What no request goes without, whatever an upstream says."""
_OURS = frozenset({"n", "stream_options", "parallel_tool_calls", "stop", "stop_sequences", "output_config"})
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
UNSEEN = _OURS | _LIMITS
"""Fields whose absence is told under another name, or is none of the client's business."""
_ASKS_NOTHING: tuple[object, ...] = (None, False, 0, "", "auto", "default", {}, [])


def leave_out(body: dict[str, object], refused: frozenset[str], lost: Collector, needed: frozenset[str] = NEEDED) -> dict[str, object]:
    """The body without the refused fields; the same object where none is in it."""
    gone = [name for name in body if name in refused and name not in needed]
    for name in gone:
        if name in _LIMITS:
            lost.drop(DroppedParameter.MAX_TOKENS)
        elif name not in _OURS:
            lost.drop_field(name)
    return {name: value for name, value in body.items() if name not in gone} if gone else body


def lose(name: str, value: object, lost: Collector) -> None:
    """Leave one field of the client's out, silently where its value asks for nothing."""
    if name not in _OURS and value not in _ASKS_NOTHING:
        lost.drop_field(name)


def refuse_choices(turn: Turn) -> None:
    """One answer is read and written: a demand for several, which passes through only, is refused (CR08). Raises StageError."""
    wanted = turn.sampling.get("n")
    if isinstance(wanted, int) and wanted > 1:
        raise StageError(Failed(ErrorKind.UNSUPPORTED_VALUE, "Invalid 'n': must be 1 for this model.", parameter="n"))

"""An exception in, its kind and the places it came through out. Pure. Its words stay out: they may quote what a peer sent."""

from __future__ import annotations

from typing import Any

_FRAMES = 6


def fault_fields(exc: BaseException) -> dict[str, Any]:
    """`error`, the name of its type, and `where`, the innermost places as `file:line`, outermost first: fields for a note."""
    places = []
    trace = exc.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error": type(exc).__name__, "where": tuple(places[-_FRAMES:])}

"""The process's log: structlog events as JSON lines, and the libraries' own loggers led into the same lines.

In: a sink. Out: a bound logger to bind a turn's ids to. Promise: one JSON object a line; of a library's log record or an exception only the
kind and the place are kept, never its text, since parser errors carry bytes of the peer's input.
"""

from __future__ import annotations

import errno
import logging
import time
import traceback
from collections.abc import MutableMapping
from typing import Any, Protocol

import orjson
import structlog
from structlog.typing import FilteringBoundLogger

LIBRARIES = ("aiohttp", "asyncio", "py.warnings")
_FRAMES = 6


class Sink(Protocol):
    """Takes lines."""

    def msg(self, line: bytes) -> None:
        """Take one line."""


def make_logger(sink: Sink, **bound: object) -> FilteringBoundLogger:
    """A logger whose every event is one JSON line of the sink, with these fields on each."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        sink,
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        context_class=dict,
        cache_logger_on_first_use=True,
    ).bind(**bound)
    return logger


def _render(_: object, level: str, event: MutableMapping[str, Any]) -> bytes:
    return orjson.dumps({"ts": round(time.time(), 6), "level": level, "event": event.pop("event"), **event}, default=_plain)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple | set | frozenset) else type(value).__name__


class LibraryHandler(logging.Handler):
    """Turns a standard log record into an event `library`: the template of its message, not its arguments."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        """Write to this logger."""
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event. Never raises."""
        try:
            template = record.getMessage() if record.name == "py.warnings" else str(record.msg)
            fields: dict[str, object] = {"logger": record.name, "message": template.partition("\n")[0][:200]}
            if record.exc_info and record.exc_info[1] is not None:
                fields |= describe(record.exc_info[1])
            level = "error" if record.levelno >= logging.ERROR else "warning"
            getattr(self._logger, level)("library", **fields)
        except Exception:  # noqa: BLE001 - a log record must not become a fault
            self.handleError(record)


def lead_libraries(logger: FilteringBoundLogger) -> None:
    """Send what aiohttp, asyncio and the warnings module log into the same lines."""
    handler = LibraryHandler(logger)
    logging.captureWarnings(True)
    for name in LIBRARIES:
        library = logging.getLogger(name)
        library.handlers[:] = [handler]
        library.propagate = False


def describe(exc: BaseException) -> dict[str, object]:
    """An exception without its words: its type, the system's name of the fault where it has one, and the places it came through."""
    frames = traceback.extract_tb(exc.__traceback__)[-_FRAMES:]
    number = (
        exc.errno if isinstance(exc, OSError) and type(exc).__module__ == "builtins" else None
    )  # ssl and getaddrinfo count for themselves
    name = {} if number is None else {"errno": errno.errorcode.get(number, str(number))}
    where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(exc).__name__, **name, "where": where}

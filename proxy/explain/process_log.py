"""What a process said of itself: workers that ended, reloads that failed, faults outside of any turn. Pure.

In: lines that belong to no turn. Out: one entry an event, the worst first, as plain values. Memory: one entry an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEANINGS: Mapping[str, str] = {
    "worker_ended": "a worker process ended",
    "worker_waits": "a worker crashed again and waits before it is started anew",
    "worker_stuck": "a worker's event loop showed no life, and it was killed",
    "worker_not_started": "a worker did not become ready",
    "worker_not_killed": "a worker could not be killed",
    "worker_overdue": "a worker took too long to end",
    "worker_ready": "a worker took up its work",
    "workers_killed": "workers were killed at the end of the drain's time",
    "socket_not_opened": "a worker's port could not be opened",
    "supervisor_gone": "the supervisor died, and its workers drain",
    "reload_failed": "a configuration was not taken over",
    "restart_needed": "a changed key needs a restart",
    "hangup_ignored": "a hangup came, and one process alone cannot be replaced",
    "draining": "a drain began",
    "dismissing": "turns were closed at the end of the drain's time",
    "captures_dropping": "captures wait for the disk, and further ones are left out",
    "captures_dropped": "captures were left out while the disk was slow",
    "capture_failed": "a turn could not be captured",
    "unexpected": "an exception of this program outside of any turn",
    "library": "a library complained",
    "bad_request": "what came was no HTTP",
}
"""What each event means, for people. Others are shown by their own name."""

_RANK = {"error": 0, "warning": 1}
_COMMON = frozenset({"ts", "level", "event", "build"})
_MAX_EVENTS = 200


class ProcessLog:
    """Counts the lines of processes by event."""

    def __init__(self) -> None:
        """Begin with none."""
        self._entries: dict[str, dict[str, Any]] = {}

    def feed(self, line: Mapping[str, Any]) -> None:
        """Take one line."""
        event = str(line.get("event"))
        level, stamp = line.get("level"), line.get("ts")
        entry = self._entries.get(event)
        if entry is None:
            if len(self._entries) >= _MAX_EVENTS:
                return
            entry = self._entries[event] = {"event": event, "meaning": MEANINGS.get(event, ""), "count": 0, "level": "info"}
        entry["count"] += 1
        if _RANK.get(str(level), 2) < _RANK.get(entry["level"], 2):
            entry["level"] = level
        if isinstance(stamp, int | float) and not isinstance(stamp, bool):
            entry["last"] = stamp
        entry["fields"] = {name: value for name, value in line.items() if name not in _COMMON}

    def document(self) -> list[dict[str, Any]]:
        """One entry an event: `event`, `meaning`, `count`, the worst `level`, and of the last such line its stamp (`last`) and `fields`."""
        return sorted(self._entries.values(), key=lambda entry: (_RANK.get(entry["level"], 2), -entry["count"]))

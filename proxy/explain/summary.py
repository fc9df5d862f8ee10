"""Many turns in sum. Pure.

In: turns with their diagnoses, one at a time. Out: one document of counts, shares, quantiles and example ids. Memory: a few numbers a turn.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

from proxy.explain.diagnosis import Diagnosis
from proxy.explain.faults import ABOUT, Fault
from proxy.explain.turn_log import TurnLog

TIMES = ("total_ms", "ttfb_ms", "upstream_ttfb_ms", "overhead_ms", "excess_ms", "held_ms")
_EXAMPLES = 3
_REASONS = 3


class _Group:
    """The turns of one fault."""

    def __init__(self) -> None:
        self.turns = 0
        self.recovered = 0
        self.also = 0
        self.reasons: Counter[str] = Counter()
        self.rids: list[str] = []
        self.next_steps: dict[str, None] = {}


class Summary:
    """Adds turns up."""

    def __init__(self) -> None:
        """Begin with none."""
        self.turns = 0
        self._groups = {fault: _Group() for fault in Fault}
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("verdicts", "models", "causes", "retry_skipped", "refusals", "blocks", "repairs", "errors")
        }
        self._times = {name: array("d") for name in TIMES}
        self._first = float("inf")
        self._last = 0.0
        self._sample = 1.0

    def add(self, log: TurnLog, diagnosis: Diagnosis) -> None:
        """Take one turn."""
        self.turns += 1
        group = self._groups[diagnosis.fault]
        group.turns += 1
        group.recovered += diagnosis.recovered
        group.reasons[diagnosis.because] += 1
        if len(group.rids) < _EXAMPLES:
            group.rids.append(diagnosis.rid)
        group.next_steps |= dict.fromkeys(diagnosis.next_steps)
        for fault in diagnosis.also:
            self._groups[fault].also += 1
        if log.turn is not None:
            self._count(dict(log.turn))

    def _count(self, turn: dict[str, Any]) -> None:
        counts = self._counts
        counts["verdicts"][str(turn.get("verdict"))] += 1
        counts["models"][str(turn.get("model"))] += 1
        for name, field in (("retry_skipped", "retry_skipped"), ("refusals", "refusal"), ("errors", "error_kind")):
            if field in turn:
                counts[name][str(turn[field])] += 1
        causes = turn.get("causes")
        counts["causes"].update(str(cause) for cause in causes) if isinstance(causes, list) else None
        for name in ("blocks", "repairs"):
            found = turn.get(name)
            counts[name].update(
                {str(key): count for key, count in found.items() if isinstance(count, int)} if isinstance(found, dict) else {}
            )
        for name, values in self._times.items():
            value = turn.get(name)
            if isinstance(value, int | float):
                values.append(value)
        stamp, sample = turn.get("ts"), turn.get("sample_rate")
        if isinstance(stamp, int | float):
            self._first, self._last = min(self._first, stamp), max(self._last, stamp)
        if isinstance(sample, int | float):
            self._sample = min(self._sample, sample)

    def document(self) -> dict[str, Any]:
        """The sum as plain values: what `--json` prints."""
        faults = [
            {
                "fault": fault.value,
                "title": ABOUT[fault].title,
                "meaning": ABOUT[fault].meaning,
                "turns": group.turns,
                "share": round(group.turns / self.turns, 4),
                "recovered": group.recovered,
                "also_in": group.also,
                "because": dict(group.reasons.most_common(_REASONS)),
                "rids": group.rids,
                "next_steps": list(group.next_steps),
            }
            for fault, group in self._groups.items()
            if group.turns or group.also
        ]
        return {
            "turns": self.turns,
            "from": self._first if self._last else None,
            "to": self._last or None,
            "sample_rate": self._sample,
            "faults": sorted(faults, key=lambda one: (one["fault"] == Fault.HEALTHY, -one["turns"])),
            **{name: dict(counts.most_common()) for name, counts in self._counts.items() if counts},
            "times": {name: _quantiles(values) for name, values in self._times.items() if values},
        }


def _quantiles(values: array[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share}": ordered[min(len(ordered) * share // 100, len(ordered) - 1)] for share in (50, 90, 99)}

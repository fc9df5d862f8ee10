"""Read one fence of `json_action` (S7), or a plain JSON fence that may be one (S8).

In: the block's text from its fence on, in pieces. Out: Done, Rejected or None for more. The states follow each other: the info string; the
first bracket; inside a value, where `JsonScanner` alone decides; behind a value; the closing fence. What a piece brings is looked at once; the
text of a value is kept in pieces and joined when it is complete.
No rejection goes beyond the last value: the fence that stands as text is closed by the marks behind it, and only the Markdown scanner can read those.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pipeline.dialects.block import Done, Part, Progress, Rejected, Start
from pipeline.dialects.calls import Fault, Written
from pipeline.dialects.json_action.members import Members
from pipeline.dialects.json_action.objects import call_of
from pipeline.text import json_repair
from pipeline.verdicts import BlockOutcome, Repair

_HEAD = re.compile(r"(`{3,}|~{3,})[ \t]*[jJ][sS][oO][nN](?:[ \t]+([aA][cC][tT][iI][oO][nN]))?")
_BLANKS = re.compile(r"[^\S\r\n]*")
_SPACE = re.compile(r"\s*")
_SHOWING = frozenset(".…<*")
"""What stands in place of keys where somebody shows the format."""
_MARKS = {"`": re.compile("`*"), "~": re.compile("~*")}
_NEXT = re.compile(r"[jJ][sS][oO][nN](?:[ \t]{0,16}[\r\n]|[ \t]{1,16}[aA][cC][tT][iI][oO][nN][\s{\[])")
_NEXT_PART = re.compile(
    r"[jJ](?:\Z|[sS](?:\Z|[oO](?:\Z|[nN](?:\Z|[ \t]{1,16}(?:\Z|[aA](?:\Z|[cC](?:\Z|[tT](?:\Z|[iI](?:\Z|[oO](?:\Z|[nN]\Z))))))))))"
)

_Answer = Done | Rejected | None


class ActionParser:
    """Parses one fence."""

    __slots__ = (
        "_action",
        "_calls",
        "_closed",
        "_comma",
        "_count",
        "_early",
        "_fence",
        "_head",
        "_length",
        "_line_broken",
        "_members",
        "_offset",
        "_parts",
        "_pieces",
        "_quotes",
        "_repairs",
        "_size",
        "_solid",
        "_start",
        "_state",
        "_unclosed",
        "_value_at",
        "progress",
    )

    def __init__(self, start: Start) -> None:
        """Begin at the fence."""
        self.progress: list[Progress] = []
        self._start = start
        self._calls = start.calls
        self._early = start.early
        self._quotes = start.options.quotes
        self._state: Callable[[str, int], tuple[int, _Answer]] = self._info
        self._head = ""
        self._fence = ""
        self._length = 0
        self._action = False
        self._line_broken = False
        self._members: Members | None = None
        self._pieces: list[str] = []
        self._value_at = 0
        self._parts: list[Part] = []
        self._repairs: list[Repair] = []
        self._comma = False
        self._unclosed = False
        self._count = 0
        self._size = 0
        self._solid = 0
        self._closed = 0
        self._offset = 0

    def feed(self, text: str) -> Done | Rejected | None:
        """Take the next piece."""
        at = 0
        size = len(text)
        # `_offset` makes an index of this piece an offset into the block.
        self._offset = self._size
        self._size += size
        while at < size:
            at, answer = self._state(text, at)
            if answer is not None:
                return answer
        return None

    def close(self, *, truncated: bool) -> Done | Rejected:
        """The text ended. A complete object needs no closing fence (S7), truncated or not (S13)."""
        del truncated
        state = self._state
        if state in (self._info, self._body) and not self._parts:
            return Rejected(end=self._size, mention=True, fault="the fence is empty", fault_at=self._size, opener_only=True)
        closed = self._count >= self._length
        if state in (self._closing, self._next_opener) and (closed or not self._unclosed):
            if not closed:
                self._repairs.append(Repair.MISSING_FENCE)
            fault = self._unclosed_value() if self._unclosed and state == self._closing else None
            return fault or self._done(self._closed or self._solid)
        if state == self._behind and not self._comma:
            self._repairs.append(Repair.MISSING_FENCE)
            return self._done(self._solid)
        return self._cut()

    def _cut(self) -> Rejected:
        return Rejected(
            end=self._size,
            outcome=BlockOutcome.UNTERMINATED,
            fault="the block ends in the middle",
            fault_at=self._size,
            mention=not self._parts and (self._members is None or not self._members.seen),
        )

    def _reject(self, fault: str, at: int, outcome: BlockOutcome = BlockOutcome.MALFORMED, *, mention: bool = False) -> Rejected:
        return Rejected(end=self._solid, outcome=outcome, fault=fault, fault_at=at, mention=mention, opens_fence=self._opens_fence())

    def _opens_fence(self) -> bool:
        return self._action and self._line_broken and self._members is not None

    # States: each takes the piece from an index on, and returns where to go on, with an answer or None.

    def _info(self, text: str, at: int) -> tuple[int, _Answer]:
        """The opener: the sieve brings it whole, others may bring it in pieces."""
        self._head += text[at:]
        found = _HEAD.match(self._head)
        if found is None or found.end() == len(self._head):
            return len(text), None
        behind = self._head[found.end() :]
        if found[2] is None:
            word = behind.lstrip(" \t")
            if word != behind and len(word) < 6 and "action".startswith(word.lower()):
                return len(text), None
        self._fence = found[1][0]
        self._length = len(found[1])
        self._action = found[2] is not None
        self._solid = found.end()
        self._state = self._body
        return len(text) - len(behind), None

    def _body(self, text: str, at: int) -> tuple[int, _Answer]:
        """White space, then the bracket that opens a value."""
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if not self._line_broken and ("\n" in text[at:end] or "\r" in text[at:end]):
            self._line_broken = True
        if end == len(text):
            return end, None
        char = text[end]
        place = self._offset + end
        if char not in "{[" or (not self._action and not self._line_broken):
            return end, self._reject("no JSON object follows the fence", place, mention=not self._parts)
        return self._begin_value(char, end)

    def _begin_value(self, char: str, at: int) -> tuple[int, _Answer]:
        if self._members is not None and not self._members.committed:
            self._members.finish(self._parts[-1].end)
        self._value_at = self._offset + at
        self._pieces = []
        self._comma = False
        self._members = Members(
            self._calls,
            self.progress,
            array=char == "[",
            exact=not self._action,
            early=self._early and self._action and all(part.early for part in self._parts[-1:]),
            offset=self._value_at,
        )
        self._state = self._value
        return at, None

    def _value(self, text: str, at: int) -> tuple[int, _Answer]:
        members = self._members
        if members is None:
            return at, self._cut()
        scanner = members.scanner
        end = scanner.feed(text, at)
        self._pieces.append(text[at:end] if at or end < len(text) else text)
        if scanner.done:
            self._solid = self._offset + end
            self._state = self._behind
            return end, self._read(members)
        if scanner.fault:
            raw = "".join(self._pieces)
            self._solid = self._value_at + len(raw.rstrip())
            mention = not self._action or not (members.seen or self._parts or text[end] not in _SHOWING)
            return end, self._reject(scanner.fault, self._offset + end, mention=mention)
        if scanner.stopped:
            raw = "".join(self._pieces)
            self._solid = self._value_at + len(raw.rstrip())
            if text[end] != self._fence or not scanner.value_complete:
                return end, self._reject("the object is not complete", self._offset + end, mention=not self._action or not members.seen)
            self._unclosed = True
            self._state = self._closing
        return end, None

    def _behind(self, text: str, at: int) -> tuple[int, _Answer]:
        """White space behind a value, then a fence or another value."""
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if end == len(text):
            return end, None
        char = text[end]
        if char == self._fence and not self._comma:
            self._state = self._closing
            return end, None
        if char == "{" or (char == "[" and not self._comma):
            return self._begin_value(char, end)
        if char == "," and not self._comma:
            self._comma = True
            self._solid = self._offset + end + 1
            return end + 1, None
        return end, self._reject("something else follows the object in the fence", self._offset + end, mention=not self._action)

    def _closing(self, text: str, at: int) -> tuple[int, _Answer]:
        """The marks of the closing fence."""
        found = _MARKS[self._fence].match(text, at)
        end = found.end() if found else at
        self._count += end - at
        if end > at:
            self._closed = self._offset + end
        if end == len(text):
            return end, None
        if self._count < self._length:
            return end, self._reject("the fence is not closed", self._offset + end, mention=not self._action)
        if self._unclosed:
            answer = self._unclosed_value()
            if answer is not None:
                return end, answer
        if text[end] not in "jJ":
            return end, self._done(self._closed)
        self._head = ""
        self._state = self._next_opener
        return end, None

    def _unclosed_value(self) -> Rejected | None:
        members = self._members
        if members is None:
            return self._cut()
        members.scanner.close_brackets()
        return self._read(members, unclosed=True)

    def _next_opener(self, text: str, at: int) -> tuple[int, _Answer]:
        """These marks open the next block: this one lacks its own."""
        self._head += text[at : at + 64]
        if _NEXT.match(self._head):
            self._repairs.append(Repair.MISSING_FENCE)
            return at, self._done(self._closed - self._count)
        if _NEXT_PART.match(self._head):
            return len(text), None
        return at, self._done(self._closed)

    # Answers.

    def _read(self, members: Members, *, unclosed: bool = False) -> Rejected | None:
        """Turn the value that is complete into parts."""
        raw = "".join(self._pieces)
        self._pieces = []
        try:
            value, repairs = json_repair.read(raw.rstrip() if unclosed else raw, unclosed=unclosed)
        except json_repair.UnreadableError as exc:
            return self._reject(str(exc), self._solid, mention=not self._action)
        if not self._action and any(raw.strip() in quote for quote in self._quotes):
            return self._reject("it quotes the request", self._value_at, BlockOutcome.QUOTED)
        self._repairs += repairs
        items = value if isinstance(value, list) else [value]
        if not items:
            return self._reject("the array holds no call", self._solid, mention=True)
        begins, ends, committed = members.begins, members.ends, members.committed
        if not isinstance(value, list):
            begins, ends, committed = [self._value_at], [self._solid], [members.writer is not None]
        for item, begin, end, early in zip(items, begins, ends, committed, strict=True):
            made = call_of(item, self._calls, self._repairs, exact=not self._action)
            if isinstance(made, Written):
                self._parts.append(Part(end=end, call=made, early=early))
            elif made.outcome is BlockOutcome.UNKNOWN_TOOL and not early:
                end = self._value_at + _end_of_object(raw, end - self._value_at)
                self._parts.append(Part(end=end, outcome=made.outcome, fault=made.text, names=self._name_in(item), start=begin))
            else:
                return self._refuse(made, item)
        return None

    @staticmethod
    def _name_in(item: object) -> tuple[str, ...]:
        name = item.get("tool", item.get("name")) if isinstance(item, dict) else None
        return (name,) if isinstance(name, str) else ()

    def _refuse(self, fault: Fault, item: object) -> Rejected:
        return Rejected(
            end=self._solid,
            outcome=fault.outcome,
            fault=fault.text,
            fault_at=self._value_at,
            mention=not self._action,
            names=self._name_in(item),
            opens_fence=self._opens_fence(),
        )

    def _done(self, end: int) -> Done | Rejected:
        parts = self._parts
        if not any(part.call for part in parts):
            part = parts[-1]
            names = tuple(name for part in parts for name in part.names)
            return Rejected(
                end=self._solid,
                outcome=part.outcome,
                fault=part.fault,
                fault_at=self._value_at,
                names=names,
                opens_fence=self._opens_fence(),
            )
        told = self._members is not None and bool(self._members.committed)
        if self._members is not None and not told:
            self._members.finish(end)
        last = parts[-1]
        if last.call is not None and not (last.early and told):
            # The fence belongs to the call; around an object that stays text it would be a shred of one (S2).
            parts[-1] = Part(end, last.call, early=last.early)
        return Done(
            end=end,
            parts=tuple(parts),
            repairs=tuple(json_repair.in_order(self._repairs)),
            last=not self._action,
            ends_fence=self._line_broken,
        )


def _end_of_object(raw: str, end: int) -> int:
    """Where an object of the value ends that the scan found complete at `end`: less what closed it in place of a bracket that is missing."""
    if end > len(raw):
        end = len(raw)
    elif raw[end - 1] == "]":
        end -= 1
    while raw[end - 1].isspace():
        end -= 1
    return end

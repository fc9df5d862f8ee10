"""What of the sieve's findings goes out, and when: white space next to calls (S12), blocks that wait (S4, S8), numbers of calls.

In: text, white space, blocks and spare closers in the order of the upstream's text. Out: events in that same order, so that their spans cut the text.
Promise: text with no white space before it and nothing waiting goes straight through; what waits is bounded by `most` characters.

What waits: white space, until it is known whether a call or text follows; a call behind white space behind visible text, until visible text
or the end of the answer tells whether that white space stays; a block whose code span or whose place as the last thing is undecided. Everything
behind something that waits waits too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pipeline.dialects.block import Added, Began, Ended, Part, Progress
from pipeline.events import ArgumentsDelta, BlockSeen, CallBegun, CallDone, Dropped, Event, ReasoningDelta, TextDelta
from pipeline.text.echo import Unescaper
from pipeline.verdicts import BlockOutcome, Repair, SpanKind

_SHOWN = 4000


class Block:
    """A block that was read: a call (`decided` is True), text (False) or undecided (None)."""

    __slots__ = ("at", "decided", "dialect", "end", "has_text", "last", "parts", "raw", "repairs")

    def __init__(
        self, dialect: str, at: int, end: int, raw: str, parts: Sequence[Part], repairs: tuple[Repair, ...], *, last: bool
    ) -> None:
        self.dialect = dialect
        self.at = at
        self.end = end
        self.raw = raw
        self.parts = parts
        self.repairs = repairs
        self.last = last
        self.has_text = any(part.call is None for part in parts)
        self.decided: bool | None = None


class _Text:
    __slots__ = ("at", "seen", "text")

    def __init__(self, text: str, at: int, seen: BlockSeen | None) -> None:
        self.text = text
        self.at = at
        self.seen = seen


class _Space:
    __slots__ = ("at", "pieces", "size")

    def __init__(self, text: str, at: int) -> None:
        self.pieces = [text]
        self.size = len(text)
        self.at = at


class _Spare:
    __slots__ = ("at", "block", "text")

    def __init__(self, text: str, at: int, block: Block) -> None:
        self.text = text
        self.at = at
        self.block = block


_Item = _Text | _Space | _Spare | Block


class Release:
    """The way out. `events` is taken by the sieve after each piece."""

    __slots__ = (
        "_after_call",
        "_calls",
        "_early_end",
        "_early_start",
        "_lasts",
        "_most",
        "_queue",
        "_texts",
        "_undone_at",
        "_unescaper",
        "events",
        "space",
        "visible",
    )

    def __init__(self, most: int, *, unescape: bool) -> None:
        """Nothing is out yet."""
        self.events: list[Event] = []
        self.visible = False
        self.space: _Space | None = None
        self._most = most
        self._queue: deque[_Item] = deque()
        self._lasts: list[Block] = []
        self._texts = 0
        self._after_call = False
        self._calls = 0
        self._early_start = 0
        self._early_end = 0
        self._unescaper = Unescaper() if unescape else None
        self._undone_at = 0

    @property
    def idle(self) -> bool:
        """Nothing waits but perhaps white space, text was seen, and it goes out as it is."""
        return self.visible and not self._queue and not self._after_call and self._unescaper is None

    @property
    def waits(self) -> bool:
        """Something waits that is more than white space."""
        return bool(self._queue)

    # What comes in.

    def say(self, text: str, at: int, seen: BlockSeen | None = None) -> None:
        """Visible text; `seen` tells of the block that it was taken for."""
        if self._queue:
            self._push_text(_Text(text, at, seen))
            return
        space = self.space
        if space is not None:
            self.space = None
            self._leave_space(space, stays=self.visible or not self._after_call)
        if seen is not None:
            self.events.append(seen)
        self._out(text, at)

    def blank(self, text: str, at: int) -> None:
        """White space at the end of what is known so far."""
        space = self.space
        if space is None:
            space = self.space = _Space(text, at)
        else:
            space.pieces.append(text)
            space.size += len(text)
        while space.size > self._most and not self._queue:
            whole = "".join(space.pieces)
            self._leave_space(_Space(whole[: self._most], space.at), stays=self.visible or not self._after_call)
            space = self.space = _Space(whole[self._most :], space.at + self._most)

    def block(self, block: Block) -> None:
        """A block that is, or may be, a call."""
        if block.has_text:
            self._deny_last()
        if block.last:
            self._lasts.append(block)
        if not self._queue and block.decided and (self.space is None or not self.visible):
            self._drop_space()
            self._call(block)
            return
        self._queue_space()
        self._queue.append(block)
        self._texts += block.has_text
        self._settle(ended=False)

    def spare(self, text: str, at: int, block: Block) -> None:
        """A closer too many behind this block."""
        self._queue_space()
        self._queue.append(_Spare(text, at, block))
        self._settle(ended=False)

    def reason(self, text: str, at: int, end: int) -> None:
        """Reasoning; white space before it is no part of the answer."""
        self._drop_space()
        self._break()
        self.events.append(ReasoningDelta(text, (at, end)))

    # What is decided.

    def decide(self, block: Block, *, call: bool, at: int) -> None:
        """A waiting block is a call or text, known at this offset."""
        self.bound(at)
        if block.decided is None:
            block.decided = call
            if not call:
                self._texts += 1
                self._deny_last()
        self._settle(ended=False)

    def bound(self, at: int) -> None:
        """Nothing waits over more than `most` characters: what does is text, and its white space stays (S14)."""
        while self._queue and at - self._queue[0].at > self._most:
            head = self._queue[0]
            if isinstance(head, Block) and head.decided is None:
                head.decided = False
                self._texts += 1
                self._deny_last()
            elif isinstance(head, _Space):
                self._queue.popleft()
                self._leave_space(head, stays=True)
            self._settle(ended=False)

    def end(self, at: int) -> None:
        """The answer is over at this offset: blocks that had to be the last thing are calls, white space next to a call goes."""
        self.bound(at)
        for item in self._queue:
            if isinstance(item, Block) and item.decided is None:
                item.decided = True
        self._queue_space()
        self._settle(ended=True)
        self._break()

    def cut(self, at: int, end: int) -> None:
        """Drop an invented result."""
        self._break()
        self.events.append(Dropped(SpanKind.CUT, (at, end)))

    # Calls that are told early (E4).

    def begin_early(self, at: int) -> None:
        """A block begins whose calls may be committed: the white space before it is decided now."""
        space, self.space = self.space, None
        if space is not None:
            self._leave_space(space, stays=self.visible)
        self._break()
        self._early_start = at

    def progress(self, steps: Sequence[Progress], block_at: int) -> None:
        """Tell what a parser committed."""
        texts: list[str] = []
        added = block_at
        for step in steps:
            end = block_at + step.end
            if isinstance(step, Added):
                texts.append(step.text)
                added = end
                continue
            if texts:
                self._arguments(texts, added)
            if isinstance(step, Began):
                self._early_end = end
                self.events.append(CallBegun(self._calls, step.name, (self._early_start, end)))
            elif isinstance(step, Ended):
                self.events.append(CallDone(self._calls, step.name, step.arguments, (self._early_start, end), kind=step.kind))
                self._calls += 1
                self._early_start = end
        if texts:
            self._arguments(texts, added)

    def _arguments(self, texts: list[str], end: int) -> None:
        self.events.append(ArgumentsDelta(self._calls, "".join(texts), (self._early_end, end)))
        self._early_end = end
        texts.clear()

    # What goes out.

    def _push_text(self, item: _Text) -> None:
        self._queue_space()
        self._queue.append(item)
        self._texts += 1
        self._deny_last()
        self._settle(ended=False)

    def _deny_last(self) -> None:
        """Visible text came: no block before it is the last thing (S8)."""
        for block in self._lasts:
            if block.decided is None:
                block.decided = False
                self._texts += 1
        self._lasts.clear()

    def _queue_space(self) -> None:
        if self.space is not None:
            self._queue.append(self.space)
            self.space = None

    def _settle(self, *, ended: bool) -> None:
        """Let everything out that is decided."""
        queue = self._queue
        while queue:
            item = queue[0]
            if isinstance(item, Block):
                if item.decided is None:
                    return
                queue.popleft()
                self._texts -= item.has_text
                if item.decided:
                    self._call(item)
                else:
                    self._texts -= 1
                    self._example(item)
            elif isinstance(item, _Text):
                queue.popleft()
                self._texts -= 1
                if item.seen is not None:
                    self.events.append(item.seen)
                self._out(item.text, item.at)
            elif isinstance(item, _Spare):
                queue.popleft()
                self._let_spare(item)
            elif not self._settle_space(item, ended=ended):
                return

    def _settle_space(self, space: _Space, *, ended: bool) -> bool:
        queue = self._queue
        follower = queue[1] if len(queue) > 1 else None
        if follower is None and not ended:
            return False
        if isinstance(follower, Block) and follower.decided is None:
            return False
        by_call = self._after_call or (isinstance(follower, Block) and bool(follower.decided)) or isinstance(follower, _Spare)
        text_follows = self._texts > 0
        if by_call and self.visible and not text_follows and not ended:
            return False
        queue.popleft()
        self._leave_space(space, stays=not by_call or (self.visible and text_follows))
        return True

    def _leave_space(self, space: _Space, *, stays: bool) -> None:
        text = "".join(space.pieces) if len(space.pieces) > 1 else space.pieces[0]
        if stays:
            self._write(text, space.at)
        else:
            self._drop(SpanKind.TRIMMED, space.at, space.at + len(text))

    def _drop_space(self) -> None:
        if self.space is not None:
            self._leave_space(self.space, stays=False)
            self.space = None

    def _drop(self, kind: SpanKind, at: int, end: int) -> None:
        self._break()
        self.events.append(Dropped(kind, (at, end)))

    def _let_spare(self, spare: _Spare) -> None:
        if spare.block.decided:
            self._drop(SpanKind.SWALLOWED, spare.at, spare.at + len(spare.text))
        else:
            self._out(spare.text, spare.at)

    def _out(self, text: str, at: int) -> None:
        self.visible = True
        self._after_call = False
        self._write(text, at)

    def _write(self, text: str, at: int) -> None:
        end = at + len(text)
        unescaper = self._unescaper
        if unescaper is None:
            self.events.append(TextDelta(text, (at, end)))
            return
        start = self._undone_at if unescaper.held else at
        text = unescaper.feed(text)
        self._undone_at = end - unescaper.held
        if self._undone_at > start:
            self.events.append(TextDelta(text, (start, self._undone_at)))

    def _break(self) -> None:
        """What follows is no text: give out what the unescaper held."""
        unescaper = self._unescaper
        if unescaper is not None:
            held = unescaper.held
            rest = unescaper.flush()
            if held:
                self.events.append(TextDelta(rest, (self._undone_at, self._undone_at + held)))

    def _example(self, block: Block) -> None:
        """A block that counts as text after all."""
        names = tuple(part.call.name for part in block.parts if part.call is not None)
        self.events.append(
            BlockSeen(
                block.dialect, BlockOutcome.FENCED_EXAMPLE, (block.at, block.end), names=names, fault_at=block.at, text=block.raw[:_SHOWN]
            )
        )
        self._out(block.raw, block.at)

    def _call(self, block: Block) -> None:
        names = tuple(part.call.name for part in block.parts if part.call is not None)
        outcome = BlockOutcome.REPAIRED if block.repairs else BlockOutcome.PARSED
        self._break()
        self.events.append(BlockSeen(block.dialect, outcome, (block.at, block.end), block.repairs, names))
        start = block.at
        for part in block.parts:
            end = block.at + part.end
            if part.call is not None:
                if not part.early:
                    self._break()
                    self._early_start = end
                    self.events.append(CallDone(self._calls, part.call.name, part.call.arguments, (start, end), kind=part.call.kind))
                    self._calls += 1
                self._after_call = True
            else:
                if block.at + part.start > start:
                    self._drop(SpanKind.SWALLOWED, start, block.at + part.start)
                    start = block.at + part.start
                text = block.raw[start - block.at : part.end]
                self.events.append(BlockSeen(block.dialect, part.outcome, (start, end), (), part.names, part.fault, start, text[:_SHOWN]))
                self._out(text, start)
            start = end
        if start < block.end:
            self._drop(SpanKind.SWALLOWED, start, block.end)
        block.raw = ""

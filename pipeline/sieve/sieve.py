"""The sieve: takes the calls out of an answer's text while it streams (SPEC section 5).

In: visible text of one attempt, in pieces. Out: text, calls, reasoning, blocks, and what was dropped, as events whose spans cut the text.
Promise: the same events wherever the pieces end; nothing of a call leaks, nothing is lost; linear time, bounded memory; never raises.

States, what each holds back, and why.

START    Until the first visible character. Holds white space (it may stand next to a block, S12) and a beginning of `<think>` (S11).
REASONING Until its closer. Holds a beginning of the closer.
TEXT     Holds the longest suffix that may begin an opener (S2), and the white space before it. Openers are patterns of bounded length given by the
         dialects; `pipeline/text/markdown.py` says where they count: not in fences, and in a paragraph with an unmatched run of backticks only
         provisionally (S4). A run of backticks or tildes is held until it ends, for it may open an action fence.
BLOCK    The whole block: a dialect's parser reads it, and until it answers, everything belongs to the block (S3). It answers at the first
         character that rules a call out; then the block goes on as text, and what stands behind it is scanned, never what stands in it.
CUT      Behind an invented result (S12): nothing goes out any more.
         Behind a refused block, what is still a part of it goes by as text and does not run: what CDATA sections quote
         (`pipeline/text/sections.py`), and the rest of a fence that opened in the middle of a line (`pipeline/text/open_fence.py`).
SPENT    Behind a block that is too large (S14): all text, nothing held but white space. Where that block ends is not known, and what stands in it
         must not run.
Beside these, what was found may wait on its way out, in order, with all that follows (`release.py`): a block behind an unmatched run
of backticks, for the end of its paragraph (S4); a plain JSON call, for the end of the answer (S8); a call behind white space behind
text, for the next visible character (S12).

Why time is linear. Every piece is scanned from where the last one ended: the markdown scanner and the parsers keep their state
between pieces. What is joined with the next piece is an undecided head, tag or escape, of bounded length. A block that is refused is given
back from its end only, together with the bounded look-ahead and the white space before the character that refused it; so no character is
scanned more than a constant number of times. Pieces are kept in lists and joined once. A piece is worked on in slices of bounded size,
so that many blocks in one big piece do not copy its rest again and again.

Why cuts do not matter. Every decision is made at a fixed character (the one that completes or refutes), or at a fixed offset (limits), from
the characters before it alone; where a piece ends is known to nothing but the code that waits for the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from pipeline.dialects.block import BlockParser, Done, Rejected, Start, begun
from pipeline.dialects.calls import Calls
from pipeline.dialects.dialect import Dialect
from pipeline.dialects.grammar import grammar
from pipeline.dialects.options import ParserOptions
from pipeline.events import (
    BlockSeen,
    Event,
    Failed,
    TextDelta,
)
from pipeline.sieve.release import Block, Release
from pipeline.text.markdown import Markdown, Stop
from pipeline.text.open_fence import OpenFence
from pipeline.text.results import BRACKET
from pipeline.text.sections import Sections
from pipeline.verdicts import BlockOutcome, ErrorKind, FinishReason

_SLICE = 4096
_WINDOW = 256
_SHOWN = 4000
_LOOK = 96
"""How far behind a run of marks an opener is looked for; longer than any info string that can be one."""
_THINK = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_THINK_PART = re.compile(
    "|".join(begun(["<", *(f"[{char}{char.upper()}]" for char in word), ">"]) for word in ("thinking", "thought", "reasoning", "think"))
)
_LEADING_SPACE = re.compile(r"\s*")
_BLANK_LINE = re.compile(r"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)")
_SPARE_FENCE_TAIL = 64


class _In(IntEnum):
    START = 0
    REASONING = 1
    TEXT = 2
    BLOCK = 3
    CUT = 4
    FAILED = 5
    SPENT = 6


class _Waiter(NamedTuple):
    """A block in a paragraph with unmatched runs, `depth` of which were open."""

    block: Block
    depth: int


class Sieve:
    """One attempt's text. `cut` says that an invented result was found: nothing more goes out, the upstream may be closed."""

    __slots__ = (
        "_again",
        "_at",
        "_behind",
        "_block_at",
        "_block_size",
        "_called",
        "_calls",
        "_calm",
        "_committed",
        "_dialect",
        "_early",
        "_fence_block",
        "_from",
        "_grammar",
        "_held",
        "_hints",
        "_info_waiters",
        "_last",
        "_markdown",
        "_options",
        "_parser",
        "_quote_broken",
        "_quoted",
        "_raw",
        "_release",
        "_resume",
        "_search",
        "_sections",
        "_state",
        "_think_end",
        "_think_part",
        "_undecided",
        "_unescape",
        "_waiters",
        "_window",
        "cut",
    )

    def __init__(self, dialects: Sequence[Dialect], options: ParserOptions, *, unescape: bool = False) -> None:
        """`unescape`: echo escapes (C10) were put into the request and are undone here."""
        self.cut = False
        self._options = options
        self._unescape = unescape
        self._grammar = grammar(tuple(dialects), options.wide)
        self._markdown = Markdown(self._grammar.before, self._grammar.starts)
        self._search = self._grammar.starts.search
        self._release = Release(options.max_block_chars, unescape=unescape)
        self._calls: Calls | None = None
        self._state = _In.START
        self._at = 0
        self._again: list[str] = []
        self._held = ""
        self._resume = 0
        self._window = ""
        self._from = 0
        self._calm = False
        self._think_end: re.Pattern[str] | None = None
        self._think_part: re.Pattern[str] | None = None
        self._parser: BlockParser | None = None
        self._dialect = ""
        self._raw: list[str] = []
        self._block_at = 0
        self._block_size = 0
        self._fence_block = False
        self._early = False
        self._committed = False
        self._hints: dict[str, object] = {}
        self._sections: Sections | OpenFence | None = None
        self._quoted = False
        self._quote_broken = False
        self._last: Block | None = None
        self._called = False
        self._undecided: list[Block] = []
        self._behind = False
        self._waiters: list[_Waiter] = []
        self._info_waiters: list[_Waiter] = []

    # In and out.

    def feed(self, text: str) -> list[Event]:
        """Take the next piece, return what it decided."""
        if self._calm and text and self._search(text) is None:
            # Nothing in this piece means anything, and nothing waits but perhaps white space.
            start = self._at
            end = self._at = start + len(text)
            release = self._release
            body = text.rstrip()
            if release.space is None and len(body) == end - start:
                return [TextDelta(text, (start, end))]
            if body:
                release.say(body, start)
            if len(body) < end - start:
                release.blank(text[len(body) :], start + len(body))
            events = release.events
            if events:
                release.events = []
            return events
        self._feed_all(text)
        return self._take()

    def close(self, reason: FinishReason | None) -> list[Event]:
        """The text is over (None: it was cut off): return what was held. Emits no Finish."""
        truncated = reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.STOP_SEQUENCE)
        while self._state is _In.BLOCK and self._parser is not None:
            step = self._parser.close(truncated=truncated)
            if isinstance(step, Rejected) and step.opener_only and self._behind_call():
                self._swallow_opener()
                break
            self._feed_all(self._end_block(step))
        if self._state is _In.START and self._held:
            self._state = _In.TEXT
            self._scan("")
        if self._state is _In.REASONING and self._held:
            self._release.reason(self._held, self._at, self._at + len(self._held))
        elif self._state is _In.TEXT:
            self._close_text()
        if self._state not in (_In.CUT, _In.FAILED):
            self._markdown.close()
            self._release.end(self._at + len(self._held))
        self._held = ""
        self._state = _In.FAILED if self._state is _In.FAILED else _In.CUT
        self._calm = False
        return self._take()

    def _take(self) -> list[Event]:
        events, self._release.events = self._release.events, []
        return events

    def _feed_all(self, text: str) -> None:
        if len(text) <= _SLICE:
            self._feed(text)
            return
        for at in range(0, len(text), _SLICE):
            self._feed(text[at : at + _SLICE])

    def _feed(self, piece: str) -> None:
        while piece or self._again:
            piece = piece or self._again.pop()
            state = self._state
            if state is _In.TEXT:
                piece = self._scan(piece) if self._sections is None else self._scan_around(self._sections, piece)
            elif state is _In.BLOCK:
                piece = self._feed_block(piece)
            elif state is _In.START:
                piece = self._start(piece)
            elif state is _In.REASONING:
                piece = self._reason(piece)
            elif state is _In.SPENT:
                piece = self._pass_on(piece)
            else:
                if state is _In.CUT and self.cut:
                    self._release.cut(self._at, self._at + len(piece))
                    self._at += len(piece)
                piece = ""
        # Only what is decided counts: what is held may turn out to end the wait at its first character.
        self._release.bound(self._at)
        self._calm = (
            self._state is _In.TEXT
            and not self._held
            and not self._behind
            and self._sections is None
            and self._markdown.resting
            and self._release.idle
        )

    # START and REASONING.

    def _start(self, piece: str) -> str:
        text = self._held + piece
        self._held = ""
        found = _LEADING_SPACE.match(text)
        blank = found.end() if found else 0
        if blank:
            self._scan(text[:blank])
            text = text[blank:]
        if not text:
            return ""
        think = _THINK.match(text)
        if think is not None:
            word = think[1]
            closer = ["<", "/", *(f"[{char.lower()}{char.upper()}]" for char in word), ">"]
            self._think_end = re.compile("".join(closer))
            self._think_part = re.compile(begun(closer))
            self._release.reason("", self._at, self._at + think.end())
            self._at += think.end()
            self._state = _In.REASONING
            return text[think.end() :]
        part = _THINK_PART.match(text)
        if part is not None:
            self._held = text
            return ""
        self._state = _In.TEXT
        return text

    def _reason(self, piece: str) -> str:
        text = self._held + piece
        self._held = ""
        if self._think_end is None or self._think_part is None:
            return ""
        found = self._think_end.search(text)
        if found is not None:
            end = self._at + found.end()
            self._release.reason(text[: found.start()], self._at, end)
            self._at = end
            self._state = _In.TEXT
            return text[found.end() :]
        part = self._think_part.search(text)
        stop = part.start() if part is not None else len(text)
        if stop:
            self._release.reason(text[:stop], self._at, self._at + stop)
            self._at += stop
        self._held = text[stop:]
        return ""

    # TEXT.

    def _scan(self, piece: str) -> str:
        """Scan text up to its end, or up to a block; return what belongs to the block or to another state."""
        markdown = self._markdown
        window = self._held + piece
        at = self._resume
        if markdown.run_length and not self._held:
            # A run that goes on: its marks were counted, not kept.
            length = markdown.run_length
            if piece.strip(markdown.run_char) == "":
                markdown.run_length += len(piece)
                return ""
            window = markdown.run_char * length + piece
            at = length
        self._held = ""
        self._resume = 0
        self._window = window
        self._from = 0
        while True:
            stop = markdown.scan(window, at)
            at = markdown.at
            if stop is Stop.END:
                self._hand_over(len(window) - markdown.run_length)
                return ""
            if stop is Stop.RUN:
                rest = self._at_run(at)
                if rest is not None:
                    return rest
                markdown.take_run()
            elif stop is Stop.BRACKET:
                rest = self._at_bracket(at)
                if rest is not None:
                    return rest
                markdown.skip()
            else:
                rest = self._at_opener(at, whole=stop is Stop.OPENER)
                if rest is not None:
                    return rest
                markdown.skip()
                at += 1

    def _scan_around(self, sections: Sections | OpenFence, piece: str) -> str:
        """Scan text behind a refused block, but for what its sections quote."""
        at = 0
        # In small windows: each of many blocks that begin in a piece and are refused looks for sections anew.
        while at < len(piece) and not sections.over:
            for run, quoted in sections.runs(piece[at : at + _WINDOW]):
                at += len(run)
                if quoted:
                    self._quote(run)
                    continue
                if self._quoted:
                    self._quoted = False
                    self._markdown.text_ended(line_broken=self._quote_broken, paragraph_broken=self._quote_broken)
                while run and self._state is _In.TEXT:
                    run = self._scan(run)
                if self._state is not _In.TEXT:
                    return run + piece[at:]
        if sections.over:
            self._sections = None
        return piece[at:]

    def _quote(self, run: str) -> None:
        if not self._quoted:
            self._quoted, self._quote_broken = True, False
            if self._held:
                self._window, self._held = self._held, ""
                self._from = self._resume = 0
                self._hand_over(len(self._window))
        self._quote_broken = self._quote_broken or "\n" in run or "\r" in run
        self._pass_on(run)

    def _hand_over(self, end: int) -> None:
        """Everything of the window up to here is text."""
        start = self._from
        text = self._window[start:end]
        if not text:
            return
        self._from = end
        at = self._at
        self._at = at + len(text)
        body = text.rstrip()
        if body:
            if self._behind:
                self._behind = False
                lead = len(body) - len(body.lstrip())
                if lead:
                    self._release.blank(body[:lead], at)
                    self._release.say(body[lead:], at + lead)
                else:
                    self._release.say(body, at)
            else:
                self._release.say(body, at)
        if len(body) < len(text):
            self._release.blank(text[len(body) :], at + len(body))

    def _hold(self, start: int, resume: int) -> str:
        """More must arrive to tell what begins here."""
        self._hand_over(start)
        self._held = self._window[start:]
        self._resume = resume
        return ""

    def _nothing_since_call(self, at: int) -> bool:
        return self._behind and (at == self._from or self._window[self._from : at].isspace())

    def _behind_call(self) -> bool:
        return self._behind and self._last is not None and self._last.decided is not False

    def _settle(self, at: int) -> None:
        """What waits is decided by the text before this place, and by how long it waits, wherever the piece ends (S14)."""
        if self._undecided:
            self._hand_over(at)
            self._release.bound(self._at)

    def _after_call(self, at: int) -> bool:
        """Is there a call before this place, or a block that may be one?"""
        self._settle(at)
        if self._called:
            return True
        while self._undecided and self._undecided[-1].decided is False:
            self._undecided.pop()
        return bool(self._undecided)

    def _at_run(self, at: int) -> str | None:
        """Behind a run of marks: does it open a block?"""
        markdown, window = self._markdown, self._window
        start = at - markdown.run_length
        look = window[at - 3 : at + _LOOK]
        for way in self._grammar.fences:
            if way.opener.line_start and not markdown.run_first:
                continue
            if way.whole.match(look):
                return self._begin_block(way.dialect, start, first=markdown.run_first)
        for way in self._grammar.fences:
            if (not way.opener.line_start or markdown.run_first) and way.part.match(look):
                return self._hold(start, at - start)
        if self._fence_block:
            self._settle(start)
        if self._fence_block and self._behind_call() and self._nothing_since_call(start):
            # A closing fence too many: only if nothing else comes.
            rest = window[at:]
            if len(rest) <= _SPARE_FENCE_TAIL and not rest.strip():
                return self._hold(start, at - start)
        return None

    def _at_bracket(self, at: int) -> str | None:
        if not self._after_call(at):
            return None
        head = self._window[at : at + len(BRACKET)]
        if head == BRACKET:
            return self._cut_off(at)
        if BRACKET.startswith(head):
            return self._hold(at, 0)
        return None

    def _at_opener(self, at: int, *, whole: bool) -> str | None:
        """At the first character of what is, or may become, an opener, a result or a spare closer."""
        window, known, markdown = self._window, self._grammar, self._markdown
        late = self._after_call(at)
        result = late and markdown.first_in_line
        spare = late and self._behind_call() and self._nothing_since_call(at)
        if whole:
            if result and known.result.match(window, at):
                return self._cut_off(at)
            for way in known.tags:
                if way.whole.match(window, at):
                    return self._begin_block(way.dialect, at, first=markdown.first_in_line)
            if spare and self._last is not None:
                for way in known.spares:
                    found = way.whole.match(window, at)
                    if found is not None:
                        self._hand_over(at)
                        self._release.spare(found[0], self._at, self._last)
                        self._at += len(found[0])
                        self._from = found.end()
                        markdown.block_ended()
                        return self._rest(found.end())
        if any(way.part.match(window, at) for way in known.tags):
            return self._hold(at, 0)
        if result and known.result_part.match(window, at):
            return self._hold(at, 0)
        if spare and any(way.part.match(window, at) for way in known.spares):
            return self._hold(at, 0)
        return None

    def _rest(self, at: int) -> str:
        rest = self._window[at:]
        self._window = ""
        self._from = 0
        return rest

    def _cut_off(self, at: int) -> str:
        """An invented result begins here (S12): nothing behind it counts."""
        self._hand_over(at)
        rest = self._rest(at)
        self._markdown.close()
        self._release.end(self._at)
        self._state = _In.CUT
        self.cut = True
        return rest

    def _close_text(self) -> None:
        """The text ended: what is held will not become anything."""
        markdown = self._markdown
        if markdown.run_length and not self._held:
            self._held = markdown.run_char * markdown.run_length
        if not self._held:
            return
        held, self._held = self._held, ""
        if markdown.run_length:
            self._window = ""
            markdown.take_run()
        if self._behind_call() and self._last is not None and not held.startswith(BRACKET[0]):
            body = held.rstrip()
            self._release.spare(body, self._at, self._last)
            if len(body) < len(held):
                self._release.blank(held[len(body) :], self._at + len(body))
            self._at += len(held)
            return
        self._window = held
        self._from = self._resume = 0
        self._hand_over(len(held))

    # BLOCK.

    def _begin_block(self, dialect: Dialect, start: int, *, first: bool) -> str:
        self._hand_over(start)
        rest = self._rest(start)
        markdown, release = self._markdown, self._release
        if self._calls is None:
            self._calls = Calls(self._options, unescape=self._unescape)
        self._early = self._options.stream_arguments and not (markdown.open or markdown.maybe or release.waits)
        self._parser = dialect.parser(
            Start(options=self._options, calls=self._calls, first_in_line=first, early=self._early, hint=self._hints.get(dialect.name))
        )
        self._dialect = dialect.name
        self._raw = []
        self._block_at = self._at
        self._block_size = 0
        self._committed = False
        self._state = _In.BLOCK
        return rest

    def _feed_block(self, piece: str) -> str:
        parser = self._parser
        if parser is None:
            return ""
        room = self._options.max_block_chars - self._block_size
        chunk = piece if len(piece) <= room else piece[:room]
        self._raw.append(chunk)
        self._block_size += len(chunk)
        step = parser.feed(chunk) if chunk else None
        if self._early and parser.progress:
            self._tell_progress(parser)
        if step is None:
            if self._block_size < self._options.max_block_chars:
                return ""
            step = Rejected(
                end=self._block_size,
                outcome=BlockOutcome.OVERSIZE,
                fault=f"the block is longer than {self._options.max_block_chars} characters",
                fault_at=self._block_size,
            )
        if len(chunk) < len(piece):
            self._again.append(piece[len(chunk) :])
        return self._end_block(step)

    def _tell_progress(self, parser: BlockParser) -> None:
        if not self._committed:
            self._committed = True
            self._release.begin_early(self._block_at)
        self._release.progress(parser.progress, self._block_at)
        parser.progress.clear()

    def _end_block(self, step: Done | Rejected) -> str:
        """The parser gave its answer: return the text behind the block."""
        parser, self._parser = self._parser, None
        if self._early and parser is not None and parser.progress:
            self._tell_progress(parser)
        raw = "".join(self._raw)
        self._raw = []
        end = min(max(step.end, 1), len(raw))
        rest = self._in_slices(raw[end:])
        raw = raw[:end]
        self._state = _In.TEXT
        if isinstance(step, Done):
            self._end_call(step, raw)
        elif self._committed:
            self._break_call(step, raw)
        else:
            self._end_text(step, raw)
            if step.outcome is BlockOutcome.OVERSIZE:
                self._state = _In.SPENT
        return rest

    def _in_slices(self, text: str) -> str:
        """The first slice of what is given back; the others come when it is done. Many blocks in it would else copy what is behind them each time."""
        if len(text) <= _SLICE:
            return text
        self._again += reversed([text[at : at + _SLICE] for at in range(_SLICE, len(text), _SLICE)])
        return text[:_SLICE]

    def _pass_on(self, piece: str) -> str:
        """What must not run: behind an oversize block, whose end is not known, or in a section of a refused one (S3, S14)."""
        body = piece.rstrip()
        if body:
            self._release.say(body, self._at)
        if len(body) < len(piece):
            self._release.blank(piece[len(body) :], self._at + len(body))
        self._at += len(piece)
        return ""

    def _end_call(self, step: Done, raw: str) -> None:
        self._release.bound(self._block_at)
        markdown = self._markdown
        fence = markdown.run_length > 0
        if fence and step.ends_fence:
            markdown.fence_block()
        block = Block(self._dialect, self._block_at, self._block_at + len(raw), raw, step.parts, step.repairs, last=step.last)
        depth, maybe = len(markdown.open), markdown.maybe is not None
        if (depth or maybe) and not self._committed:
            (self._info_waiters if maybe else self._waiters).append(_Waiter(block, depth))
            markdown.waiting = self
        elif not step.last:
            block.decided = self._called = True
        if block.decided is None:
            self._undecided.append(block)
        if step.hint is not None:
            self._hints[self._dialect] = step.hint
        if not markdown.watch:
            markdown.watch = True
            markdown.use(self._grammar.after)
        self._last = block
        self._sections = None
        self._behind = True
        self._fence_block = fence
        self._at = block.end
        self._release.block(block)
        markdown.block_ended()

    def _end_text(self, step: Rejected, raw: str) -> None:
        at = self._block_at
        seen = None
        # In a span that may still close, it is shown rather than tried.
        outcome = BlockOutcome.FENCED_EXAMPLE if self._markdown.open and step.outcome is not BlockOutcome.OVERSIZE else step.outcome
        if not step.mention:
            seen = BlockSeen(
                self._dialect,
                outcome,
                (at, at + len(raw)),
                (),
                step.names,
                step.fault,
                at + step.fault_at,
                raw[:_SHOWN],
            )
        body = raw.rstrip()
        self._behind = False
        self._at = at + len(raw)
        self._release.say(body, at, seen)
        if len(body) < len(raw):
            self._release.blank(raw[len(body) :], at + len(body))
        self._sections = self._rest_of(step)
        self._quoted = False
        broken = "\n" in raw or "\r" in raw
        self._markdown.text_ended(line_broken=broken, paragraph_broken=broken and _BLANK_LINE.search(raw) is not None)

    def _rest_of(self, step: Rejected) -> Sections | OpenFence | None:
        """What behind a refused block is still a part of it and must not run."""
        markdown, sections = self._markdown, self._sections
        if markdown.open:
            return None
        if step.opens_fence and not markdown.run_first:
            fence = OpenFence(markdown.run_char, markdown.run_length)
            markdown.run_length = 0
            return fence
        # What was begun behind a refused block and is refused as well may be a part of it.
        return Sections() if step.quotes or (sections is not None and not sections.over) else None

    def _break_call(self, step: Rejected, raw: str) -> None:
        """A call was committed and will not become complete (E4)."""
        at = self._block_at
        self._release.events += [
            BlockSeen(
                self._dialect,
                step.outcome,
                (at, at + len(raw)),
                (),
                step.names,
                step.fault,
                at + step.fault_at,
                raw[:_SHOWN],
            ),
            Failed(ErrorKind.BROKEN_CALL, "The model's tool call broke off while its arguments were being streamed."),
        ]
        self._state = _In.FAILED

    def _swallow_opener(self) -> None:
        """A cut-off opener behind a call (S6)."""
        raw = "".join(self._raw)
        self._parser = None
        self._state = _In.TEXT
        self._markdown.run_length = 0
        if self._last is not None:
            body = raw.rstrip()
            self._release.spare(body, self._block_at, self._last)
            if len(body) < len(raw):
                self._release.blank(raw[len(body) :], self._block_at + len(body))
        self._at = self._block_at + len(raw)

    # What markdown tells about blocks that wait (S4).

    def _decide(self, block: Block, *, call: bool) -> None:
        if block.decided is None and not (call and block.last):
            self._release.decide(block, call=call, at=self._at)
            self._called = self._called or block.decided is True

    def span_closed(self, index: int) -> None:
        """Blocks behind that open run stand in a code span: text."""
        self._hand_over(self._markdown.at)
        # Later blocks have as many open runs before them or more.
        while self._waiters and self._waiters[-1].depth > index:
            self._decide(self._waiters.pop().block, call=False)
        self._still_waiting()

    def paragraph_ended(self) -> None:
        """No span covers what still waits: calls."""
        self._hand_over(self._markdown.at)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._decide(waiter.block, call=True)
        self._still_waiting()

    def fence_opened(self) -> None:
        """Blocks in the info string of a fence: text."""
        self._hand_over(self._markdown.at)
        inside, self._info_waiters = self._info_waiters, []
        for waiter in inside:
            self._decide(waiter.block, call=False)
        self._still_waiting()

    def fence_denied(self) -> None:
        """What seemed to open a fence is a run of backticks: blocks behind it wait like others."""
        self._hand_over(self._markdown.at)
        depth = len(self._markdown.open)
        inside, self._info_waiters = self._info_waiters, []
        for waiter in inside:
            if depth:
                self._waiters.append(_Waiter(waiter.block, depth))
            else:
                self._decide(waiter.block, call=True)
        self._still_waiting()

    def _still_waiting(self) -> None:
        if not self._waiters and not self._info_waiters:
            self._markdown.waiting = None

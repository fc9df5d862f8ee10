"""Decides whether an answer stands or is asked for again: retry_on_refusal (R1 to R5).

In: what an attempt came to. Out: Accept with a verdict, or Retry with a cause and a correction. It acts on nothing itself: the engine
owns the hold, the budget and the sending. Context comes before wording (R2): whether tools were offered, what the history's state is,
whether a call is mandatory, and only then what the text says.

    call that may be made ............ call, native_call
    only calls that may not be made .. wrong_tool
    arguments a strict tool refuses .. malformed (delivered all the same when no retry is left)
    a block that became no call ...... malformed
    nothing that can be seen ......... empty
    text, a call mandatory ........... refusal, soft_refusal or missing_call
    text that refuses ................ refusal, soft_refusal
    any other text ................... text

Corrections grow: the first keeps the contract and speaks more firmly, from the second on the neutral variant is used, and a block that
came out malformed twice changes the dialect (R4). In rescue mode tools are native and their use is the upstream's affair: only a block
that leaked and could not be read is asked for again.
"""

from __future__ import annotations

import msgspec

from pipeline.events import CallDone, Failed, Finish
from pipeline.refusals.classifier import Classifier, Hit
from pipeline.refusals.context import Context
from pipeline.refusals.faults import fault_of
from pipeline.refusals.strictness import strict_fault
from pipeline.refusals.watching import FAILED_BLOCKS, AttemptWatch
from pipeline.settings import Settings
from pipeline.stage import Accept, Note, Outcome, Receiver, Retry, Watch
from pipeline.text.visible import visible
from pipeline.turn import ChoiceMode, Correction, Tool, Turn
from pipeline.verdicts import BlockOutcome, Cause, ErrorKind, FinishReason, HistoryState, Noted, RefusalKind, SkipReason, Verdict

ANNOUNCEMENT_CHARS = 200
"""An answer that only announces a step is short; longer ones are answers."""

_RETURNED = frozenset({HistoryState.RESULTS_RECEIVED, HistoryState.CALLS_PENDING})
_CUT_OFF = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT_WINDOW})
_VERDICTS = {
    Cause.REFUSAL: Verdict.REFUSED,
    Cause.SOFT_REFUSAL: Verdict.REFUSED,
    Cause.MISSING_CALL: Verdict.MISSING_CALL,
    Cause.WRONG_TOOL: Verdict.UNKNOWN_TOOL,
    Cause.MALFORMED: Verdict.MALFORMED,
    Cause.EMPTY: Verdict.EMPTY,
}
_CAUSES = {RefusalKind.HARD: Cause.REFUSAL, RefusalKind.SOFT: Cause.SOFT_REFUSAL}


class RetryOnRefusal:
    """The judge of attempts."""

    name = "retry_on_refusal"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Compile the phrase data, once a process."""
        self._classifier = Classifier()
        self._hold_chars = settings.hold_chars
        self._max_retries = settings.max_retries
        self._retries_unknown = settings.unknown_tools == "retry"
        self._announcements = settings.retry_announcements
        self._neutral = settings.neutral_contract
        self._contract = settings.contract
        self._dialects = settings.dialects

    def prepare(self, turn: Turn, note: Note) -> Turn:  # noqa: ARG002 - the signature is the protocol's
        """Requests pass by."""
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002
        """Answers pass by: they are watched, not changed."""
        return None

    def watch(self, turn: Turn, note: Note) -> Watch:  # noqa: ARG002
        """A watch for one attempt. Where no retry is left and no call is mandatory, nothing is worth holding."""
        injected = turn.emulation is not None and turn.emulation.injected
        mandatory = injected and turn.tool_choice.mandatory
        last = _retries_used(turn) >= self._max_retries and not mandatory
        failing = FAILED_BLOCKS | {BlockOutcome.UNKNOWN_TOOL} if self._asks_for_another(turn) else FAILED_BLOCKS
        return AttemptWatch(
            self._classifier,
            _context(turn) if injected and not last else Context(()),
            limit=self._hold_chars,
            mandatory=mandatory,
            acceptable=lambda name: last or not injected or self._acceptable(turn, name),
            failing=frozenset() if last else failing,
            at_least=ANNOUNCEMENT_CHARS if injected and not last and self._may_announce(turn) else 0,
            fits=lambda call: last or not injected or strict_fault(_offered(turn), call) is None,
        )

    def judge(self, turn: Turn, outcome: Outcome, note: Note) -> Retry | Accept:
        """Accept the attempt or ask again."""
        plain = _plain_verdict(outcome)
        if isinstance(outcome.end, Failed):
            return Accept(Verdict.MALFORMED if outcome.end.kind is ErrorKind.BROKEN_CALL else Verdict.UPSTREAM_FAILED)
        if turn.emulation is None:
            return Accept(plain)
        if not turn.emulation.injected:
            return self._judge_rescue(turn, outcome, plain, note)
        if outcome.calls:
            acceptable = [call for call in outcome.calls if self._acceptable(turn, call.name)]
            if acceptable:
                return self._judge_arguments(turn, outcome, acceptable, plain, note)
            return self._again(turn, outcome, Cause.WRONG_TOOL, note)
        return self._judge_text(turn, outcome, note)

    def _judge_arguments(self, turn: Turn, outcome: Outcome, calls: list[CallDone], plain: Verdict, note: Note) -> Retry | Accept:
        """Decoding cannot be constrained here: what breaks a strict schema is asked for again, then delivered as it is (X35)."""
        fault = next((found for call in calls if (found := strict_fault(_offered(turn), call)) is not None), None)
        if fault is None:
            return Accept(plain)
        skipped = self._hindrance(outcome)
        if skipped is not None:
            return _skip(plain, Cause.MALFORMED, skipped, note)
        correction = self._correction(turn, outcome, Cause.MALFORMED, None)
        same = self._next_dialect(turn, Cause.WRONG_TOOL, correction.number)  # the block itself was legal
        correction = msgspec.structs.replace(correction, fault=fault, discarded="", dialect=same)
        note(Noted.RETRY, cause=Cause.MALFORMED, number=correction.number)
        return Retry(Cause.MALFORMED, correction, Verdict.BAD_ARGUMENTS, plain)

    def _judge_rescue(self, turn: Turn, outcome: Outcome, plain: Verdict, note: Note) -> Retry | Accept:
        """Only what leaked as text and could not be read is asked for again."""
        if outcome.calls or not any(block.outcome in FAILED_BLOCKS for block in outcome.blocks):
            return Accept(plain)
        if _reason(outcome) in _CUT_OFF:
            return Accept(Verdict.TRUNCATED)
        return self._again(turn, outcome, Cause.MALFORMED, note)

    def _judge_text(self, turn: Turn, outcome: Outcome, note: Note) -> Retry | Accept:
        """No call came."""
        reason = _reason(outcome)
        failed = [block for block in outcome.blocks if block.outcome in FAILED_BLOCKS]
        empty = not visible(outcome.text)
        if reason in _CUT_OFF and (failed or empty):
            return Accept(Verdict.TRUNCATED)  # the same limit would cut it again (S13)
        if reason is FinishReason.CONTENT_FILTER:
            came = Verdict.EMPTY if empty else Verdict.TEXT
            return Accept(_final(turn, came), came=_unlike(_final(turn, came), came))
        if failed:
            return self._again(turn, outcome, Cause.MALFORMED, note)
        unknown = any(block.outcome is BlockOutcome.UNKNOWN_TOOL for block in outcome.blocks)
        if unknown and (self._asks_for_another(turn) or turn.tool_choice.mandatory):
            return self._again(turn, outcome, Cause.WRONG_TOOL, note)
        if empty:
            return self._again(turn, outcome, Cause.EMPTY, note)
        return self._judge_wording(turn, outcome, note, Verdict.UNKNOWN_TOOL if unknown else Verdict.TEXT)

    def _judge_wording(self, turn: Turn, outcome: Outcome, note: Note, plain: Verdict) -> Retry | Accept:
        mandatory = turn.tool_choice.mandatory
        context = _context(turn)
        hit = self._classifier.classify(outcome.text, context, self._hold_chars, patient=mandatory)
        if hit is not None:
            note(Noted.REFUSAL_HIT, kind=hit.kind, lang=hit.language, phrase=hit.phrase)
            return self._again(turn, outcome, _CAUSES[hit.kind], note, hit)
        if mandatory:
            return self._again(turn, outcome, Cause.MISSING_CALL, note)
        if context.results:
            elsewhere = self._classifier.classify(outcome.text, Context(context.tools), self._hold_chars)
            if elsewhere is not None:
                return _skip(Verdict.TEXT, _CAUSES[elsewhere.kind], SkipReason.NOT_REQUIRED, note)
        if self._may_announce(turn) and _announces(outcome.text):
            return self._again(turn, outcome, Cause.MISSING_CALL, note, verdict=Verdict.TEXT)
        return Accept(plain)

    def _acceptable(self, turn: Turn, name: str) -> bool:
        """Whether a call of this name is what the caller asked for (C3, S9)."""
        choice = turn.tool_choice
        if choice.mode is ChoiceMode.NAMED and name != choice.name:
            return False
        if choice.allowed is not None and name not in choice.allowed:
            return False
        if not self._retries_unknown or turn.emulation is None:
            return True
        return any(tool.name == name for tool in turn.emulation.tools)

    def _asks_for_another(self, turn: Turn) -> bool:
        """Whether a call that stayed text because of its name is worth asking for another one (C3, S9)."""
        return self._retries_unknown or turn.tool_choice.allowed is not None

    def _may_announce(self, turn: Turn) -> bool:
        """Asking again for an announced step is opt-in, at most once, and never where a final answer is due."""
        return (
            self._announcements
            and turn.correction is None
            and turn.state is HistoryState.AWAITING_DECISION
            and turn.tool_choice.mode is ChoiceMode.AUTO
        )

    def _again(
        self, turn: Turn, outcome: Outcome, cause: Cause, note: Note, hit: Hit | None = None, verdict: Verdict | None = None
    ) -> Retry | Accept:
        """A retry is due: ask for it, or say why it does not happen (R5)."""
        verdict = verdict or _VERDICTS[cause]
        final = _final(turn, verdict)
        skipped = self._hindrance(outcome)
        if skipped is not None:
            accept = _skip(final, cause, skipped, note)
            return msgspec.structs.replace(accept, came=_unlike(final, verdict), hit=_told(hit))
        correction = self._correction(turn, outcome, cause, hit)
        note(Noted.RETRY, cause=cause, number=correction.number)
        return Retry(cause, correction, verdict, _unlike(verdict, final), _told(hit))

    def _hindrance(self, outcome: Outcome) -> SkipReason | None:
        if self._max_retries <= 0:
            return SkipReason.OFF
        if outcome.retries_left <= 0:
            return SkipReason.BUDGET
        if outcome.seconds_left <= 0:
            return SkipReason.DEADLINE
        if outcome.released:
            return SkipReason.ALREADY_STREAMED
        return None

    def _correction(self, turn: Turn, outcome: Outcome, cause: Cause, hit: Hit | None) -> Correction:
        number = _retries_used(turn) + 1
        mandatory = turn.tool_choice.mandatory
        fault, discarded = _fault(outcome, cause)
        if number > 1 and cause is not Cause.MALFORMED:
            discarded = ""  # a model that sees itself refuse twice stays with it
        return Correction(
            cause=cause,
            number=number,
            discarded=discarded,
            fault=fault,
            tool=turn.tool_choice.name if turn.tool_choice.mode is ChoiceMode.NAMED else None,
            neutral=self._neutral or number > 1 or (hit is not None and hit.neutral),
            dialect=self._next_dialect(turn, cause, number),
            answer_allowed=not mandatory and (cause is Cause.EMPTY or (turn.state in _RETURNED and cause is not Cause.MALFORMED)),
        )

    def _next_dialect(self, turn: Turn, cause: Cause, number: int) -> str | None:
        """Another dialect once a block came out malformed twice; a dialect switched to is kept. None is the route's own."""
        taught = turn.emulation.dialect if turn.emulation is not None else self._contract
        if cause is Cause.MALFORMED and number > 1:
            taught = next((name for name in self._dialects if name != taught), taught)
        return None if taught == self._contract else taught


def _retries_used(turn: Turn) -> int:
    return 0 if turn.correction is None else turn.correction.number


def _offered(turn: Turn) -> tuple[Tool, ...]:
    return turn.emulation.tools if turn.emulation is not None else ()


def _context(turn: Turn) -> Context:
    return Context(_offered(turn), results=turn.state in _RETURNED, failed=turn.results_failed)


def _reason(outcome: Outcome) -> FinishReason:
    return outcome.end.reason if isinstance(outcome.end, Finish) else FinishReason.STOP


def _plain_verdict(outcome: Outcome) -> Verdict:
    if outcome.calls:
        return Verdict.NATIVE_CALL if all(call.native for call in outcome.calls) else Verdict.CALL
    return Verdict.TEXT if visible(outcome.text) else Verdict.EMPTY


def _final(turn: Turn, verdict: Verdict) -> Verdict:
    """What a delivered attempt counts as: a demand that was never met is stated as such, whatever came instead (R9)."""
    return Verdict.MISSING_CALL if turn.tool_choice.mandatory else verdict


def _unlike(one: Verdict, other: Verdict) -> Verdict | None:
    """The other one where it says something else."""
    return None if other is one else other


def _told(hit: Hit | None) -> tuple[RefusalKind, str, str] | None:
    return None if hit is None else (hit.kind, hit.language, hit.phrase)


def _skip(verdict: Verdict, cause: Cause, why: SkipReason, note: Note) -> Accept:
    note(Noted.RETRY_SKIPPED, why=why, cause=cause)
    return Accept(verdict, wanted=cause, skipped=why)


def _fault(outcome: Outcome, cause: Cause) -> tuple[str, str]:
    """What was wrong and where, and what the model is shown of its own answer."""
    if cause is Cause.MALFORMED:
        fault, text = fault_of([block for block in outcome.blocks if block.outcome in FAILED_BLOCKS], outcome.text)
        return fault, text or outcome.text
    if cause is Cause.WRONG_TOOL:
        names = _names(outcome.calls) or [name for block in outcome.blocks for name in block.names]
        return (f"it called {', '.join(dict.fromkeys(names))}" if names else ""), ""
    return "", "" if cause is Cause.EMPTY else outcome.text


def _names(calls: tuple[CallDone, ...]) -> list[str]:
    return [call.name for call in calls]


def _announces(text: str) -> bool:
    """Short, and no question: all that can be said in every language."""
    text = text.strip()
    return len(text) <= ANNOUNCEMENT_CHARS and not text.endswith(("?", "\uff1f", "\u061f"))

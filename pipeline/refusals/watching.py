"""Watches one attempt's events and says how long they stay held (R6).

In: events as they come. Out: HOLD, RELEASE or REFUSE for all of them so far. Text is held while it may still turn out a refusal; where
a call is mandatory everything is held until an acceptable call came; behind a block that was no call everything is held to the end, so
that it can be asked for again. Promise: the answer depends on the events' text alone, never on how it was cut.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline.events import BlockSeen, CallBegun, CallDone, Event, TextDelta
from pipeline.refusals.classifier import Classifier, Hit
from pipeline.refusals.context import Context
from pipeline.verdicts import BlockOutcome, Hold, RefusalKind

FAILED_BLOCKS = frozenset(
    {
        BlockOutcome.MALFORMED,
        BlockOutcome.UNTERMINATED,
        BlockOutcome.OVERSIZE,
        BlockOutcome.BAD_ARGUMENTS,
        BlockOutcome.PLACEHOLDER,
    }
)
"""Outcomes of a block that was meant as a call and became none (R1 malformed)."""


class AttemptWatch:
    """The watch of one attempt."""

    def __init__(
        self,
        classifier: Classifier,
        context: Context,
        *,
        limit: int,
        mandatory: bool,
        acceptable: Callable[[str], bool],
        failing: frozenset[BlockOutcome] = FAILED_BLOCKS,
        at_least: int = 0,
        fits: Callable[[CallDone], bool] = lambda _: True,
    ) -> None:
        """`limit` bounds the held text in characters; `at_least` characters are held whatever they say (announcements).

        A call that is not `acceptable` by its name, or whose arguments do not fit (X35), releases nothing.
        """
        self._classifier = classifier
        self._context = context
        self._limit = limit
        self._mandatory = mandatory
        self._acceptable = acceptable
        self._failing = failing
        self._at_least = at_least
        self._fits = fits
        self._scan = classifier.scan(context, limit)
        self._text: list[str] = []
        self._seen = 0
        self._called = False
        self._stuck = False

    def feed(self, event: Event) -> Hold:
        """Answer for all events so far."""
        if isinstance(event, TextDelta):
            return self._read(event.text)
        if isinstance(event, CallDone | CallBegun):
            if self._acceptable(event.name):
                self._called = True
                if isinstance(event, CallBegun) or self._fits(event):
                    return Hold.RELEASE
            self._stuck = True
        elif isinstance(event, BlockSeen) and event.outcome in self._failing:
            self._stuck = True
        return Hold.HOLD

    @property
    def hit(self) -> tuple[RefusalKind, str, str] | None:
        """The refusal found: kind, language, phrase id. An attempt that called refused nothing."""
        found = None if self._called else self._found()
        return None if found is None else (found.kind, found.language, found.phrase)

    def _read(self, text: str) -> Hold:
        if self._seen < self._limit:
            self._text.append(text[: self._limit - self._seen])
        self._seen += len(text)
        if self._mandatory or self._stuck:
            return Hold.HOLD
        answer = self._scan.feed(text)
        if answer is Hold.RELEASE and self._seen <= self._at_least:
            return Hold.HOLD
        return answer

    def _found(self) -> Hit | None:
        if self._scan.answer is not Hold.HOLD:
            return self._scan.hit
        return self._classifier.classify("".join(self._text), self._context, self._limit, patient=self._mandatory)

"""Is this answer a refusal? Text in, at any cut; hold, release or refuse out (R1 to R3, R6).

How it holds: text is held while a phrase of the data was begun and may still come to its end, behind polite openings, and for GRACE
characters beyond; then it is released, most ordinary answers within the first words. A hit is not acted on at once: the model may go
on to call or to offer ("I can't see it from here, so I'll read it"), which takes the hit back; after CONFIRM further characters, or
at the bound, it stands.
Promise: the answer depends on the text alone, never on the cut: the first word that decides, decides. Never raises, one pass, at the
most `limit` characters are read.
"""

from __future__ import annotations

import msgspec

from pipeline.refusals.context import Context
from pipeline.refusals.notation import Alive, Run
from pipeline.refusals.phrases import Guard, Language, Opening, Phrase, contractions, languages
from pipeline.refusals.words import ASK, COMMA, END, FENCE, UNQUOTE, Words
from pipeline.verdicts import Hold, RefusalKind

GRACE = 20
"""Characters held beyond the last word that could still lead to a refusal: about four words."""

CONFIRM = 120
"""Characters read beyond a refusing sentence before it is acted on: about one more sentence."""

_STEP = 48
_CLEAR_STARTS = frozenset("|{#")


class Hit(msgspec.Struct, frozen=True):
    """A refusal found. `phrase` is the id in the phrase data, `neutral` asks for the neutral variant at once."""

    kind: RefusalKind
    language: str
    phrase: str
    neutral: bool = False


class Classifier:
    """The compiled phrase data of all languages; scans of single answers come from it."""

    def __init__(self) -> None:
        """Compile the phrase data, once a process."""
        self._languages = languages()
        self._contractions = contractions()

    def scan(self, context: Context, limit: int, *, patient: bool = False) -> Scan:
        """A scan of one answer. `limit` bounds the text looked at, in characters. `patient` never releases before that."""
        return Scan(self._languages, Words(self._contractions), context, limit, patient=patient)

    def classify(self, text: str, context: Context, limit: int, *, patient: bool = False) -> Hit | None:
        """The refusal in a whole answer: what a scan says at its end."""
        scan = self.scan(context, limit, patient=patient)
        scan.feed(text)
        scan.close()
        return scan.hit


class Scan:
    """One answer being read. After anything but HOLD the answer stays the same."""

    def __init__(self, languages: tuple[Language, ...], words: Words, context: Context, limit: int, *, patient: bool) -> None:
        """Begin before the first character."""
        self._words = words
        self._context = context
        self._limit = limit
        self._patient = patient
        self._runs = [(one, Run(one.machine), one.lasting if context.results else one.telling) for one in languages]
        self._read = 0
        self._quiet_since = 0
        self._started = False
        self._polite = False
        self._preamble = False
        self._alive = Alive.NO
        self._fenced = False
        self._unquoted = False
        self._worded = False
        # once a rule, however often it is met: the work at a sentence's end is bounded by the data
        self._guards: dict[str, Guard] = {}
        self._found: dict[str, tuple[int, Phrase, Hit]] = {}
        self._stated: set[str] = set()  # found in a clause before the last: a question behind it asks something else
        self._pending: Hit | None = None
        self._pending_phrase: Phrase | None = None
        self._confirmed_at = 0
        self._answer = Hold.HOLD if context.open else Hold.RELEASE

    @property
    def answer(self) -> Hold:
        """For all text so far."""
        return self._answer

    @property
    def hit(self) -> Hit | None:
        """The refusal found so far, by whole sentences; final once the scan was closed or gave an answer."""
        return None if self._answer is Hold.RELEASE else self._pending

    @property
    def read(self) -> int:
        """Characters read when the answer was given, or so far."""
        return self._read

    def feed(self, text: str) -> Hold:
        """Take more text."""
        if not self._started:
            self._look_at_start(text)
        if self._decided():
            return self._answer
        room = self._limit - self._read
        start = self._read
        end = min(len(text), room)
        for at in range(0, end, _STEP):  # most answers are decided within the first of them
            for word, position in self._words.feed(text[at : min(at + _STEP, end)]):
                self._read = position
                self._take(word, position)
                if self._decided():
                    return self._answer
        self._read = start + end
        if self._read >= self._limit:
            self._end_sentence(asked=False)
            self._decide(refused=self._pending is not None)
        return self._answer

    def close(self) -> Hold:
        """The answer ended: decide."""
        if not self._decided():
            for word, position in self._words.close():
                self._take(word, position)
                if self._decided():
                    return self._answer
            self._decide(refused=self._pending is not None)
        return self._answer

    def _decided(self) -> bool:
        return self._answer is not Hold.HOLD

    def _decide(self, *, refused: bool) -> None:
        self._answer = Hold.REFUSE if refused else Hold.RELEASE

    def _look_at_start(self, text: str) -> None:
        stripped = text.lstrip()
        if stripped:
            self._started = True
            if stripped[0] in _CLEAR_STARTS and not self._patient:
                self._decide(refused=False)

    def _take(self, word: str, position: int) -> None:
        if word == FENCE:
            self._fenced = not self._fenced
            if self._fenced:
                self._end_sentence(asked=False)
                if self._pending is None and not self._patient:
                    self._decide(refused=False)
            return
        if self._fenced:
            return
        if word == UNQUOTE:
            self._unquoted = True
            return
        if self._unquoted and word not in (COMMA, END, ASK):
            self._unquoted = False
            self._forget()
        was_alive, self._alive = self._alive, self._step(word, position)
        if self._decided():
            return
        if word in (END, ASK):
            self._end_sentence(asked=word == ASK)
        elif word == COMMA:
            self._stated.update(self._found)
        else:
            self._worded = True
        if self._decided() or self._found:
            return
        if self._pending is not None:
            if position - self._confirmed_at >= CONFIRM:
                self._decide(refused=True)
        elif self._preamble or (was_alive and self._alive is Alive.BEGUN):
            self._quiet_since = position  # one word alone begins a phrase too often: it waits for its next, no longer
        elif not self._alive and position - self._quiet_since >= GRACE and not self._patient:
            self._decide(refused=False)

    def _step(self, word: str, position: int) -> Alive:
        """Lead a word through every language; returns how far a phrase has come that may still come to its end."""
        alive = Alive.NO
        for language, run, within in self._runs:
            found = run.step(word, self._context.is_tool, self._context.is_topic)
            if found:
                for owner in run.owners(found):
                    self._met(language, owner, position)
            alive = max(alive, run.alive(within))
        return alive

    def _met(self, language: Language, owner: int, position: int) -> None:
        rule = language.rules[owner]
        if isinstance(rule, Opening):
            self._polite = True
            self._preamble = self._preamble or rule.whole
            self._quiet_since = position
        elif isinstance(rule, Guard):
            if rule.scope == "answer":
                self._pending = None
                self._decide(refused=False)
            elif rule.scope == "content":
                if self._pending is None and not self._found:
                    self._decide(refused=False)
            elif rule.scope == "sentence":
                self._guards[rule.id] = rule
            else:
                self._found = {name: found for name, found in self._found.items() if not _cancels(rule, found[1])}
                if self._pending_phrase is not None and _cancels(rule, self._pending_phrase):
                    self._pending = self._pending_phrase = None
        elif self._counts(rule):
            self._found[rule.id] = (owner, rule, Hit(rule.kind, language.name, rule.id, rule.neutral))

    def _counts(self, phrase: Phrase) -> bool:
        if self._context.results and not phrase.in_results:
            return False
        return not phrase.needs or self._context.can(phrase.needs)

    def _end_sentence(self, *, asked: bool) -> None:
        for _, phrase, hit in sorted(self._found.values(), key=lambda found: found[0]):  # the file's order: the plainest kinds first
            if (asked and not phrase.question and phrase.id not in self._stated) or any(
                _cancels(guard, phrase) for guard in self._guards.values()
            ):
                continue
            if self._pending is None or (hit.kind is RefusalKind.HARD and self._pending.kind is not RefusalKind.HARD):
                self._pending, self._pending_phrase = hit, phrase
                self._confirmed_at = self._read
        if self._worded and self._context.results and self._pending is None and not self._polite and not self._patient:
            self._decide(refused=False)
        self._found = {}
        self._stated = set()
        self._guards = {}
        self._polite = self._preamble = self._worded = False
        for _, run, _ in self._runs:
            run.restart()

    def _forget(self) -> None:
        """What was read so far was a quotation."""
        self._found = {}
        self._pending = self._pending_phrase = None
        for _, run, _ in self._runs:
            run.restart()


def _cancels(guard: Guard, phrase: Phrase) -> bool:
    return phrase.id not in guard.spares and (not guard.cancels or phrase.id in guard.cancels)

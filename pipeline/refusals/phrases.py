"""The phrase files, read into rules and one machine a language (R3).

In: `phrases/LANGUAGE.toml`. Out: Language objects. Promise: everything that decides what a refusal is stands in those files; a new
phrase, or a new language, needs no code. Raises NotationError, or a validation error that names the field, for a file that cannot be read.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from pipeline.refusals.notation import Machine, Notation, NotationError
from pipeline.refusals.words import fold
from pipeline.verdicts import RefusalKind

CAPABILITIES_FILE = "capabilities"


class Phrase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to refuse. `id` is what logs and metrics carry, `source` where such wording was met.

    `after_results`: it counts even where results were just returned (R2). `question`: it counts as a question too.
    `needs`: it counts only when an offered tool has this capability (capabilities.toml). `neutral`: it distrusts the contract's
    wording, so that already the first retry takes the neutral variant. `holds` false: its beginning is too common to hold text for.
    """

    id: str
    kind: RefusalKind
    source: str
    match: tuple[str, ...]
    after_results: bool | None = None
    question: bool = False
    needs: str = ""
    neutral: bool = False
    holds: bool = True

    @property
    def in_results(self) -> bool:
        """Only a hard denial counts after results, unless the file says otherwise."""
        return self.kind is RefusalKind.HARD if self.after_results is None else self.after_results


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes it no refusal after all.

    `scope` sentence: hits of the same sentence fall. after: hits found so far fall, the model goes on to act.
    answer: this whole answer is none. content: nor is what follows, unless a hit came before. `cancels` limits the first two to these phrase ids, `spares` leaves these out.
    """

    id: str
    scope: Literal["sentence", "after", "answer", "content"]
    why: str
    match: tuple[str, ...]
    cancels: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words that often come before a refusal and mean nothing themselves: text is held a little longer behind them.

    `whole`: the sentence they stand in is such a preamble as a whole, so it is held to its end.
    """

    id: str
    match: tuple[str, ...]
    whole: bool = False


Rule = Phrase | Guard | Opening


class PhraseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One language as its file has it."""

    language: str
    note: str = ""
    contractions: dict[str, str] = {}
    classes: dict[str, tuple[str, ...]] = {}
    phrase: tuple[Phrase, ...] = ()
    guard: tuple[Guard, ...] = ()
    opening: tuple[Opening, ...] = ()


class Language:
    """The rules of one language and the machine that finds them. `lasting` are the states of phrases that count after results."""

    __slots__ = ("lasting", "machine", "name", "rules", "telling")

    def __init__(self, file: PhraseFile) -> None:
        """Compile a file. Raises NotationError."""
        self.name = file.language
        contractions = {word: tuple(full.split()) for word, full in file.contractions.items()}
        notation = Notation(file.classes, lambda text: fold(text, contractions))
        self.machine = Machine()
        self.rules: tuple[Rule, ...] = (*file.phrase, *file.guard, *file.opening)
        self.telling = 0
        self.lasting = 0
        for number, rule in enumerate(self.rules):
            for pattern in rule.match:
                for row in notation.rows(pattern):
                    try:
                        states = self.machine.add(row, number)
                    except NotationError as exc:
                        raise NotationError(f"{rule.id}: {pattern!r}: {exc}") from None
                    if isinstance(rule, Guard) or (isinstance(rule, Phrase) and not rule.holds):
                        continue
                    self.telling |= states
                    if isinstance(rule, Opening) or rule.in_results:
                        self.lasting |= states
        self.machine.finish()


def read(text: str) -> PhraseFile:
    """A phrase file's content. Raises tomllib.TOMLDecodeError or msgspec.ValidationError."""
    return msgspec.convert(tomllib.loads(text), PhraseFile)


@cache
def phrase_files() -> tuple[PhraseFile, ...]:
    """Every shipped language, English first, then by name."""
    found = [
        read(entry.read_text(encoding="utf-8"))
        for entry in (files("pipeline.refusals") / "phrases").iterdir()
        if entry.name.endswith(".toml") and entry.name != f"{CAPABILITIES_FILE}.toml"
    ]
    return tuple(sorted(found, key=lambda file: (file.language != "en", file.language)))


@cache
def languages() -> tuple[Language, ...]:
    """Every shipped language, compiled once a process."""
    return tuple(Language(file) for file in phrase_files())


@cache
def contractions() -> dict[str, tuple[str, ...]]:
    """The contractions of all languages."""
    return {word: tuple(full.split()) for file in phrase_files() for word, full in file.contractions.items()}


@cache
def capabilities() -> dict[str, frozenset[str]]:
    """What a tool can do, told from words in its names: capability -> words."""
    text = (files("pipeline.refusals") / "phrases" / f"{CAPABILITIES_FILE}.toml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in msgspec.convert(tomllib.loads(text), dict[str, list[str]]).items()}

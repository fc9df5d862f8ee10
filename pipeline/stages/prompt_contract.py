"""Gives a text-only model its tools: prompt_contract.

In: a turn with structured tools and history. Out: for an emulated turn, messages that are text alone (contract, history in the taught
dialect, results as continuation text) and `emulation` set, so that the answer goes through the sieve; for a turn in which nothing
can be called, the history as plain words; otherwise the same object. Runs anew for every attempt, since a retry brings a
correction, another wording or another dialect (R4). Raises StageError for a tool choice that cannot be met (C3) and for tools
that do not fit the contract at any tier (C9).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline import json_values
from pipeline.contract.block import Brief, Contract, ContractTooLargeError
from pipeline.contract.cache import ContractCache
from pipeline.contract.examples import example_turns
from pipeline.contract.offer import ChoiceError, offered
from pipeline.contract.placement import last_user, only_results, with_block, with_examples, with_reminder
from pipeline.contract.plain_texts import PlainTexts
from pipeline.contract.projection import DialectVoice, PlainVoice, project
from pipeline.contract.repeatable import repeatable
from pipeline.contract.retrying import correcting
from pipeline.contract.shown import Shown
from pipeline.contract.wording import answer_format, form_of, reminder
from pipeline.contract.worked import wants_examples
from pipeline.dialects import registry
from pipeline.dialects.dialect import Dialect
from pipeline.events import Failed
from pipeline.settings import Settings
from pipeline.stage import Note, Receiver, StageError
from pipeline.turn import ChoiceMode, Emulation, Message, Text, Tool, ToolChoice, Turn
from pipeline.verdicts import EmulationReason, ErrorKind, Mode, Noted


class PromptContract:
    """Teach the dialect and the tools, and tell the history in it."""

    name = "prompt_contract"
    per_attempt = True

    def __init__(self, settings: Settings) -> None:
        """Load the dialects once; the contracts of the route's tools are kept by content."""
        self._mode = settings.tools
        self._dialect = settings.contract
        self._dialects: dict[str, Dialect] = {
            dialect.name: dialect for dialect in registry.load(tuple(dict.fromkeys((settings.contract, *settings.dialects))))
        }
        self._neutral = settings.neutral_contract
        self._example_turns = settings.example_turns
        self._cache = ContractCache(settings.contract_max_bytes)
        self._plain = PlainTexts()

    def prepare(self, turn: Turn, note: Note) -> Turn:
        """Decide whether the turn is emulated, and write what the model reads."""
        if self._mode is Mode.NATIVE:
            return self._skipped(turn, EmulationReason.NATIVE_ROUTE if turn.tools else EmulationReason.NO_TOOLS, note)
        try:
            tools = offered(turn.tools, turn.tool_choice)
        except ChoiceError as exc:
            raise StageError(Failed(ErrorKind.INVALID_REQUEST, str(exc), parameter="tool_choice")) from None
        if not tools:
            return self._without_calls(turn, note)
        if self._mode is Mode.RESCUE:
            return self._rescued(turn, tools, note)
        return self._emulated(turn, tools, note)

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002 - the signature is the protocol's
        """Stay out of the answer's way: reading it is the sieve's."""
        return None

    # --- turns in which nothing is called -------------------------------------------------------------------------------------

    def _without_calls(self, turn: Turn, note: Note) -> Turn:
        """No contract, no sieve; where the upstream knows no tools, the history as plain words (N2, C3 none)."""
        if turn.tools:
            reason = EmulationReason.CHOICE_NONE
        elif turn.has_tool_history:
            reason = EmulationReason.TEXT_ONLY_HISTORY
        else:
            reason = EmulationReason.NO_TOOLS
        if self._mode is Mode.EMULATE and turn.has_tool_history:
            # The client's bytes no longer say what this turn says, so they must not pass for it.
            turn = msgspec.structs.replace(turn, messages=tuple(project(turn.messages, PlainVoice())), raw=b"")
        return self._skipped(turn, reason, note)

    def _skipped(self, turn: Turn, reason: EmulationReason, note: Note) -> Turn:
        note(Noted.CONTRACT_SKIPPED, reason=reason)
        if turn.emulation is None and turn.emulation_reason is reason:
            return turn
        return msgspec.structs.replace(turn, emulation=None, emulation_reason=reason)

    # --- turns with native tools, and a sieve behind them ---------------------------------------------------------------------

    def _rescued(self, turn: Turn, tools: tuple[Tool, ...], note: Note) -> Turn:
        """Messages stay native, markers in them are broken; the sieve recovers calls that leak into the text."""
        note(Noted.CONTRACT_SKIPPED, reason=EmulationReason.RESCUE_ROUTE)
        dialect = self._dialects[self._taught(turn)]
        shown = Shown(self._plain)
        messages = repeatable(turn.messages, shown)
        if turn.correction is not None:
            block = self._contract(turn, tools, dialect).example
            messages = (*messages, *correcting(turn.correction, block, tools))
        emulation = Emulation(dialect.name, tools, injected=False, escaped=shown.escaped, quotes=tuple(shown.quotes))
        return msgspec.structs.replace(turn, messages=messages, emulation=emulation, emulation_reason=EmulationReason.RESCUE_ROUTE)

    # --- emulated turns -------------------------------------------------------------------------------------------------------

    def _emulated(self, turn: Turn, tools: tuple[Tool, ...], note: Note) -> Turn:
        dialect = self._dialects[self._taught(turn)]
        contract = self._contract(turn, tools, dialect)
        shown = Shown(self._plain)
        form = form_of(dialect)
        voice = DialectVoice(dialect, shown, form)
        line = reminder(turn.tool_choice, form, tools)
        examples: Sequence[Message] = ()
        if self._example_turns and wants_examples(turn.messages):
            examples = project(example_turns(contract.to_show, self._example_turns, line), voice)

        messages = project(turn.messages, voice)
        if self._needs_reminder(turn):
            messages = with_reminder(messages, line)
        messages = with_block(with_examples(messages, examples), contract.text)
        if turn.correction is not None:
            messages += correcting(turn.correction, contract.example, tools)

        added = contract.size + len(line.encode()) + sum(_text_bytes(message) for message in examples)
        emulation = Emulation(
            dialect=dialect.name,
            tools=tools,
            tier=contract.tier,
            contract_bytes=added,
            escaped=shown.escaped or contract.escaped,
            quotes=(*contract.quotes, *shown.quotes),
        )
        note(Noted.CONTRACT_INJECTED, dialect=dialect.name, tier=contract.tier, bytes=added, tools=len(tools))
        reason = EmulationReason.TOOLS_FROM_HISTORY if turn.tools_rebuilt else EmulationReason.TOOLS_OFFERED
        return msgspec.structs.replace(turn, messages=tuple(messages), emulation=emulation, emulation_reason=reason)

    def _needs_reminder(self, turn: Turn) -> bool:
        """Results end with what to do next, which reminds as well; a demand is said once more (C3, C8)."""
        at = last_user(turn.messages)
        return at is not None and (turn.tool_choice.mandatory or not only_results(turn.messages[at]))

    def _taught(self, turn: Turn) -> str:
        """The dialect of this attempt: the correction's where it is one that was loaded, else the route's."""
        wanted = turn.correction.dialect if turn.correction is not None else None
        return wanted if wanted in self._dialects else self._dialect

    def _contract(self, turn: Turn, tools: tuple[Tool, ...], dialect: Dialect) -> Contract:
        brief = Brief(
            tools=tools,
            dialect=dialect,
            neutral=self._neutral or (turn.correction is not None and turn.correction.neutral),
            parallel=turn.parallel_calls,
            whole=_whole(turn.tool_choice),
            answer=_answer(turn),
        )
        try:
            return self._cache.get(brief)
        except ContractTooLargeError as exc:
            raise StageError(Failed(ErrorKind.TOO_LARGE, str(exc), parameter="tools")) from None


def _whole(choice: ToolChoice) -> str | None:
    return choice.name if choice.mode is ChoiceMode.NAMED else None


def _answer(turn: Turn) -> str | None:
    wanted = turn.response_format
    if wanted is None:
        return None
    return answer_format(None if wanted.schema is None else json_values.dumps(wanted.schema))


def _text_bytes(message: Message) -> int:
    return sum(len(part.text.encode()) for part in message.parts if isinstance(part, Text))

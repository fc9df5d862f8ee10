"""The first stage: a request body of any protocol into the one internal form (N1 to N5).

In: a Turn with `api`, `body` and `headers`. Out: the turn with the request read into it, the state of its history, and, where this turn
brought no tools while results are being returned, the tools rebuilt from that history (N2).
Raises StageError, and nothing else, for a malformed request (N3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from pipeline.history_state import state_of
from pipeline.protocols import tool_forms
from pipeline.protocols.anthropic_messages.read import read_request as read_anthropic_messages
from pipeline.protocols.fields import Place
from pipeline.protocols.openai_chat.read import read_request as read_openai_chat
from pipeline.protocols.openai_responses.read import read_request as read_openai_responses
from pipeline.settings import Settings
from pipeline.stage import Note, Receiver
from pipeline.tools_from_history import rebuild
from pipeline.turn import ChoiceMode, Message, Result, Role, Turn
from pipeline.verdicts import Api, HistoryState, Mode, Noted

_READERS: Mapping[Api, Callable[..., Turn]] = {
    Api.OPENAI_CHAT: read_openai_chat,
    Api.ANTHROPIC_MESSAGES: read_anthropic_messages,
    Api.OPENAI_RESPONSES: read_openai_responses,
}
_RETURNING = frozenset({HistoryState.RESULTS_RECEIVED, HistoryState.CALLS_PENDING})


class Normalize:
    """Reads requests. Stays out of the way of answers."""

    name = "normalize"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Decide once in which states tools are rebuilt. Only emulation needs them: native upstreams read the history themselves."""
        states = {"results": _RETURNING, "always": frozenset(HistoryState), "never": frozenset[HistoryState]()}
        self._rebuilds = states[settings.tools_from_history] if settings.tools is Mode.EMULATE else frozenset[HistoryState]()
        self._strict = settings.strict_params

    def prepare(self, turn: Turn, note: Note) -> Turn:
        """Read the request, unless an earlier stage did; tell the state; rebuild tools. The same object where nothing changed."""
        read = turn if turn.messages else _READERS[turn.api](turn, note, strict=self._strict)
        state = state_of(read.messages)
        if state is not read.state:
            read = structs.replace(read, state=state)
        if state in _RETURNING and _error_returned(read.messages):
            read = structs.replace(read, results_failed=True)
        odd = sum(map(tool_forms.is_odd, read.tools))
        if odd:
            note(Noted.TOOL_SCHEMA_ODD, count=odd)
        read = self._with_tools(read, note)
        note(Noted.NORMALIZED, state=read.state, tools=len(read.tools), messages=len(read.messages))
        return read

    def _with_tools(self, turn: Turn, note: Note) -> Turn:
        if turn.tools or turn.tool_choice.mode is ChoiceMode.NONE or not turn.has_tool_history:
            return turn
        if turn.state in self._rebuilds:
            tools = rebuild(turn.messages)
            if tools:
                note(Noted.TOOLS_REBUILT, count=len(tools))
                turn = structs.replace(turn, tools=tools, tools_rebuilt=True)
        # The readers left this check for now: the choice may well name a tool of the history.
        tool_forms.check_choice(turn.tool_choice, turn.tools, Place(turn.api).at("tool_choice"))
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002 - the signature is the protocol's
        """Answers pass by."""
        return None


def _error_returned(messages: Sequence[Message]) -> bool:
    """Whether one of the results that end the messages is marked as an error."""
    for message in reversed(messages):
        results = [part for part in message.parts if isinstance(part, Result)]
        if any(result.is_error for result in results):
            return True
        if not results and message.role not in (Role.SYSTEM, Role.DEVELOPER):
            return False
    return False

"""The sentences of the contract, firm and neutral (C1, C3, C7). Data and small functions; nothing here knows a dialect.

Rules for whoever edits: nothing that overrides ("ignore", "instead of your instructions"), no imitation of a system section, no
"JSON only" (it takes away the option to answer), no callable name that was not declared: strong models take those for an
injection and stop calling, weak ones imitate every name they see. Short: on a 135M model one more paragraph cost two legal
arguments out of ten.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline.dialects.dialect import Dialect
from pipeline.turn import ChoiceMode, Tool, ToolChoice

NAMES_IN_REMINDER = 160
"""The reminder lists the tools' names when they take no more characters than this together."""


class Wording(msgspec.Struct, frozen=True):
    """One variant of the contract."""

    opening: str
    tools: str
    together: str
    one_only: str
    turns: tuple[str, ...]


FIRM = Wording(
    opening=(
        "You have tools, and they work now. To use one, write a call as shown below: the application runs it and sends you the "
        "result. Do not say that you have no tools or cannot use them."
    ),
    tools="Tools:",
    together="Independent calls may go together in one reply. A call that needs the result of another waits for that result.",
    one_only="Write one call in a reply, not more, and wait for its result before the next.",
    turns=(
        "Stop after a call. Results come from the application; never write one yourself.",
        "When no tool is needed, or the results are enough, answer in plain text.",
    ),
)

NEUTRAL = Wording(
    opening=(
        "The application that shows this conversation can run the functions listed here. A reply that holds a call in the format "
        "below is answered with the function's result."
    ),
    tools="Functions:",
    together="Independent calls can go into one reply; one that needs a result comes after it.",
    one_only="The application handles one call per reply.",
    turns=(
        "A reply ends after its calls, and the results arrive in the next message.",
        "A reply without a call is shown to the user as it is; that suits everything that needs no function.",
    ),
)


def wording(*, neutral: bool) -> Wording:
    """The variant asked for."""
    return NEUTRAL if neutral else FIRM


def form_of(dialect: Dialect) -> str:
    """What a block of this dialect is called in one line. A dialect may say it in an attribute `form`."""
    return str(getattr(dialect, "form", "a block in the format shown above"))


def reminder(choice: ToolChoice, form: str, tools: Sequence[Tool]) -> str:
    """The line at the end of the last user message (C8). `form` says in a few words what a call looks like, without markers."""
    names = ", ".join(tool.name for tool in tools)
    listed = f" ({names})" if len(names) <= NAMES_IN_REMINDER else ""
    if choice.mode is ChoiceMode.NAMED:
        return f"(This reply must call the tool {choice.name}: write {form}.)"
    if choice.mode is ChoiceMode.REQUIRED:
        return f"(This reply must call one of the tools{listed}: write {form}.)"
    return f"(To use a tool{listed}, write {form}; otherwise answer in plain text.)"


def next_step(results: int, form: str) -> str:
    """The line behind results: what to do with them (C5). It stands behind old results as well, so that the prefix keeps its bytes."""
    these = "this result" if results == 1 else "these results"
    return f"Use {these}: answer in plain text, or write the next call as {form}."


def answer_format(schema_text: str | None) -> str:
    """What a final answer looks like when the caller asked for JSON (CR10). Calls keep their own format."""
    if schema_text is None:
        return "An answer without a call is one JSON object, with no text around it."
    return f"An answer without a call is JSON that fits this JSON Schema, with no text around it: {schema_text}"

"""What the next attempt is told about the one that was discarded (R4).

In: why it was discarded, a legal block in the taught dialect, the names that may be called. Out: one short text, meant as the
last thing the model reads. Promise: it is specific to the reason, it names no tool that was not offered, quotes a discarded
block only in part, and holds no override phrase (C7): strong models take "ignore earlier" for an injection and stop calling.
"""

from __future__ import annotations

from pipeline.turn import Correction
from pipeline.verdicts import Cause

QUOTE_CHARS = 1200
"""How much of a discarded block is quoted back: its beginning and its end."""

NAMED_TOOLS = 15
"""How many tool names a correction lists; the contract above has all of them."""


def correction_message(correction: Correction, *, block: str, tools: tuple[str, ...]) -> str:
    """The text for this correction.

    `block` is a legal block in the dialect of the next attempt (empty: none is shown), `tools` the names that may be called.
    Plain text, not escaped: the quoted part of a malformed block is what the model wrote.
    """
    lines = _neutral(correction, tools) if correction.neutral else _firm(correction, tools)
    if correction.cause is Cause.MALFORMED and correction.discarded.strip():
        lines += ["The block as it was written:", _quoted(correction.discarded)]
    if block:
        lines += ["A well-formed block looks like this:", block]
    return "\n".join(lines)


def _firm(correction: Correction, tools: tuple[str, ...]) -> list[str]:
    """Stronger than the contract: states the fact, then the one thing to do."""
    match correction.cause:
        case Cause.REFUSAL:
            lines = [
                (
                    "The last reply said that tools or access are missing. That is not so: the tools described above are connected "
                    "to this conversation now, and every block is executed and answered with its real result."
                ),
            ]
        case Cause.SOFT_REFUSAL:
            lines = [
                (
                    "The last reply described limits, or handed the work back to the user. The tools described above do that work: "
                    "every block is executed and answered with its real result."
                ),
            ]
        case Cause.WRONG_TOOL:
            lines = ["The last reply called a tool that cannot be called here, so nothing was executed." + _fault(correction)]
        case Cause.MALFORMED:
            lines = ["The last reply held a tool block that could not be read, so nothing was executed." + _fault(correction)]
        case Cause.EMPTY:
            lines = ["The last reply had no visible content: neither a tool block nor text. Thoughts alone are not delivered."]
        case _:
            lines = ["The last reply held no tool block, so nothing was executed."]
    return [*lines, _order(correction, tools)]


def _neutral(correction: Correction, tools: tuple[str, ...]) -> list[str]:
    """The plain-worded variant of the second try: information about the program, nothing that sounds like a command line of ours."""
    lines = [
        (
            "For information: this conversation runs inside a program that reads tool blocks out of the reply, runs them, and adds "
            "their results as the next message."
        ),
    ]
    match correction.cause:
        case Cause.MALFORMED:
            lines.append("It could not read the block in the last reply." + _fault(correction))
        case Cause.WRONG_TOOL:
            lines.append("The tool named in the last reply is not one that it can run here.")
        case Cause.EMPTY:
            lines.append("It received no visible content in the last reply.")
        case _:
            lines.append("It found no block in the last reply, so it has not run anything yet.")
    if correction.answer_allowed:
        lines.append("The next step is either one tool block or the final answer in plain text.")
    elif correction.tool is not None:
        lines.append(f"The next step is a single block that calls {correction.tool}, with no text around it.")
    else:
        lines.append(f"The next step is a block that calls one of the available tools{_listed(tools)}, with no text around it.")
    return lines


def _order(correction: Correction, tools: tuple[str, ...]) -> str:
    """The one thing to do now."""
    if correction.answer_allowed:
        return (
            "If work is left, reply now with a tool block and nothing else, no explanation. "
            "If the request is fully answered by the results so far, write the final answer in plain text."
        )
    if correction.tool is not None:
        return f"You must reply now with one block that calls {correction.tool}. Write only the block: no explanation, no apology."
    if correction.cause is Cause.MALFORMED:
        return f"You must write the whole block again, correctly, calling one of the available tools{_listed(tools)}. No explanation."
    return f"You must reply now with a block that calls one of the available tools{_listed(tools)}. Write only the block: no explanation, no apology."


def _fault(correction: Correction) -> str:
    return f" What is wrong: {correction.fault.strip().rstrip('.')}." if correction.fault.strip() else ""


def _listed(tools: tuple[str, ...]) -> str:
    if not tools:
        return ""
    rest = len(tools) - NAMED_TOOLS
    return f" ({', '.join(tools[:NAMED_TOOLS])}{f' and {rest} more' if rest > 0 else ''})"


def _quoted(text: str) -> str:
    """The discarded block, each line behind `> `, at the most QUOTE_CHARS of it."""
    text = text.strip("\r\n")
    if len(text) > QUOTE_CHARS:
        half = QUOTE_CHARS // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    return "\n".join(f"> {line}" for line in text.splitlines())

"""One line of `toolgraft parse`: what it asks, and what the sieve says (SPEC section 11).

In: a JSON line `{"id", "input" or "chunks", "tools"?, "dialects"?, "tolerance"?, "chunk"?, "finish"?}`. Out: a reading, or a `BadLineError` that names
the field. Promise: no line stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline import json_values
from pipeline.dialects.dialect import Dialect
from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import UnknownDialectError, load
from pipeline.events import BlockSeen, CallDone, Event, ReasoningDelta, TextDelta
from pipeline.settings import Settings
from pipeline.sieve.reading import Reading, parse
from pipeline.turn import Tool
from pipeline.verdicts import FinishReason

TOLERANCES = ("narrow", "wide")
_DEFAULTS = Settings()


class BadLineError(ValueError):
    """The line asks for nothing that can be done; `id` is the line's own, where it has one."""

    def __init__(self, message: str, id_: object = None) -> None:
        """Say which field is wrong, and what it may be."""
        super().__init__(message)
        self.id = id_


class Asked(NamedTuple):
    """A line that makes sense."""

    id: object
    pieces: list[str]
    dialects: tuple[Dialect, ...]
    options: ParserOptions
    finish: FinishReason | None

    @property
    def text(self) -> str:
        """The whole input."""
        return "".join(self.pieces)


def read(line: str) -> Asked:
    """Understand a line. Raises BadLineError."""
    try:
        asked = json_values.loads(line)
    except json_values.NotJsonError as exc:
        raise BadLineError(f"not JSON: {exc}") from None
    if not isinstance(asked, dict):
        raise BadLineError("a line is a JSON object")
    id_ = asked.get("id")
    try:
        return Asked(
            id=id_,
            pieces=_pieces(asked),
            dialects=_dialects(asked.get("dialects")),
            options=ParserOptions(tools=_tools(asked.get("tools")), wide=_one_of(asked, "tolerance", TOLERANCES) == "wide"),
            finish=_finish(asked),
        )
    except (BadLineError, UnknownDialectError) as exc:
        raise BadLineError(str(exc), id_) from None


def answer(asked: Asked) -> Reading:
    """What the sieve makes of it."""
    return parse(asked.text, asked.dialects, asked.options, finish=asked.finish, pieces=asked.pieces)


def _pieces(asked: Mapping[str, Any]) -> list[str]:
    if "chunks" in asked:
        chunks = asked["chunks"]
        if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
            raise BadLineError("chunks: a list of strings")
        return chunks
    text = asked.get("input")
    if not isinstance(text, str):
        raise BadLineError("input: a string is needed (or chunks, a list of strings)")
    size = asked.get("chunk")
    if size is None:
        return [text]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BadLineError("chunk: a number of characters from 1 on")
    return [text[at : at + size] for at in range(0, len(text), size)]


def _one_of(asked: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = asked.get(key) or allowed[0]
    if value not in allowed:
        raise BadLineError(f"{key}: {value!r} is not one of {', '.join(allowed)}")
    return str(value)


def _finish(asked: Mapping[str, Any]) -> FinishReason | None:
    if "finish" in asked and asked["finish"] is None:
        return None
    return FinishReason(_one_of(asked, "finish", tuple(reason.value for reason in FinishReason)))


def _dialects(names: object) -> tuple[Dialect, ...]:
    if names is None:
        return load(_DEFAULTS.dialects)
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadLineError("dialects: a list of names")
    return load(names)


def _tools(tools: object) -> tuple[Tool, ...]:
    """Tools of any of the three protocols' forms."""
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise BadLineError("tools: a list")
    return tuple(_tool(at, tool) for at, tool in enumerate(tools))


def _tool(at: int, tool: object) -> Tool:
    form = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(form, dict) or not isinstance(form.get("name"), str):
        raise BadLineError(f"tools[{at}]: an object with a name, as in an OpenAI or Anthropic request")
    schema = form.get("parameters", form.get("input_schema"))
    about = form.get("description")
    return Tool(
        name=form["name"],
        description=about if isinstance(about, str) else "",
        parameters=schema if isinstance(schema, dict) else {},
    )


def told(asked: Asked, reading: Reading) -> dict[str, object]:
    """The answer line."""
    return {
        "id": asked.id,
        "text": reading.text,
        "reasoning": reading.reasoning,
        "calls": [_call(call) for call in reading.calls],
        "saw_tool_call_syntax": reading.saw_tool_call_syntax,
        "rejected_by_policy": reading.rejected_by_policy,
        "rejected_tool_names": reading.rejected_tool_names,
        "blocks": [_block(block) for block in reading.blocks],
        "events": _events(reading.events),
    }


def _call(call: CallDone) -> dict[str, object]:
    return {"name": call.name, "arguments": json_values.loads(call.arguments)}


def _block(block: BlockSeen) -> dict[str, object]:
    return {"dialect": block.dialect, "outcome": block.outcome, "repairs": list(block.repairs)}


def _events(events: list[Event]) -> list[dict[str, object]]:
    """In order, neighbouring pieces joined, so that the same text gives the same line however it was cut."""
    out: list[dict[str, object]] = []
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            kind = "text" if isinstance(event, TextDelta) else "reasoning"
            if out and out[-1]["type"] == kind:
                out[-1]["text"] = f"{out[-1]['text']}{event.text}"
            elif event.text:
                out.append({"type": kind, "text": event.text})
        elif isinstance(event, CallDone):
            out.append({"type": "call", **_call(event)})
    return out

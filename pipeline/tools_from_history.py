"""Tools rebuilt from the calls of a conversation, for a turn that brought none (N2).

In: messages. Out: one tool for each name that was called, in the order of the first calls, with the argument keys and types that were seen.
Promise: a function of the messages alone, so that every replica rebuilds the same tools and nothing has to be remembered between turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.turn import CUSTOM_INPUT, Call, Message, Tool, ToolKind

DESCRIPTION = "Used earlier in this conversation."
_TYPE_NAMES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class _Seen:
    """What the calls of one name had in common."""

    __slots__ = ("first", "keys", "types")

    def __init__(self, first: Call) -> None:
        self.first = first
        self.types: dict[str, set[str]] = {}
        self.keys: set[str] | None = None

    def add(self, arguments: Mapping[str, object] | None) -> None:
        """Take one call's arguments. Poisoned ones (None) teach nothing."""
        if arguments is None:
            return
        for key, value in arguments.items():
            self.types.setdefault(key, set()).add(_TYPE_NAMES.get(type(value), "string"))
        self.keys = set(arguments) if self.keys is None else self.keys & arguments.keys()

    def tool(self) -> Tool:
        """The tool as far as it is known."""
        if self.first.kind is ToolKind.CUSTOM:
            properties: dict[str, object] = {CUSTOM_INPUT: {"type": "string"}}
            required = [CUSTOM_INPUT]
        else:
            properties = {key: _schema(types) for key, types in self.types.items()}
            required = [key for key in self.types if key in (self.keys or ())]
        parameters: dict[str, object] = {"type": "object", "properties": properties}
        if required:
            parameters["required"] = required
        name = self.first.name
        return Tool(
            name=name,
            description=DESCRIPTION,
            parameters=parameters,
            kind=self.first.kind,
            namespace=self.first.namespace,
            native={"type": "function", "function": {"name": name, "description": DESCRIPTION, "parameters": parameters}},
        )


def _schema(types: set[str]) -> dict[str, object]:
    known = sorted(types - {"integer"} if "number" in types else types)
    return {"type": known[0] if len(known) == 1 else known}


def rebuild(messages: Iterable[Message]) -> tuple[Tool, ...]:
    """Return the tools that the assistant's calls show; a key is required when every readable call of that name had it."""
    seen: dict[str, _Seen] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, Call):
                seen.setdefault(part.name, _Seen(part)).add(part.arguments.value())
    return tuple(one.tool() for one in seen.values())

"""A model that knows nothing but text, for any client: it learns its tools and the form of a call from what it reads, and does a task with them.

In: requests as a scripted upstream sees them (plain chat messages, no tool field). Out: a script. It finds the tools in the words of the
contract, at any tier: `Tool: NAME` with a JSON Schema, or a signature `NAME(a: string, b?: integer)`. Among them it takes the one that
writes a file, else one that runs a shell command, else the first, and fills the arguments from the task. A tool result in the conversation
ends the task with a sentence. So it does what a good model would do, and a contract that says too little makes it fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_upstream import Script, Seen

FINAL = "Done: the file is there."
NO_TOOLS = "Plain words, since no tools were shown to me."
_WHOLE = re.compile(
    r"^Tool: (?P<name>\S.*)\n(?P<about>(?:.*\n)*?)Arguments(?: \(JSON Schema\): (?P<schema>\{.*)|: (?P<none>none|input \(string\).*))$",
    re.MULTILINE,
)
_SIGNATURE = re.compile(r"^- (?P<name>[^\s(]+)\((?P<arguments>.*?)\)(?::|$)", re.MULTILINE)
_ARGUMENT = re.compile(r"(?P<name>[\w.-]+)(?P<optional>\?)?(?:: (?P<type>\{[^{}]*\}(?:\[\])?|\([^()]*\)\[\]|[^,]+))?")
_RESULT = re.compile(r"<(?:\|DSML\|)?tool_result|^\[Tool Result: ", re.MULTILINE)

PATHS = {"filepath", "path", "absolutepath", "filename", "file", "targetfile"}
TEXTS = {"content", "contents", "filetext", "text", "newcontent", "codeedit"}
SHELLS = {"command", "cmd", "commands", "script"}
TOWNS = {"city", "location", "place"}
SAYINGS = {"description", "explanation", "reason", "summary", "title", "justification"}


@dataclass(frozen=True)
class Shown:
    """A tool as the contract shows it: its arguments with a schema each (or what a signature says), and those that must be there."""

    name: str
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    custom: bool = False

    @property
    def names(self) -> set[str]:
        return {flat(name) for name in self.arguments}

    @property
    def writes_files(self) -> bool:
        needed = {flat(name) for name in self.required}
        edits = self.names & {"oldstring", "oldtext", "oldstr", "edits"}
        return bool(self.names & PATHS and self.names & TEXTS and needed & (PATHS | TEXTS) and not edits)

    @property
    def runs_commands(self) -> bool:
        return bool({flat(name) for name in self.required} & SHELLS)


def flat(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def shown_tools(text: str) -> list[Shown]:
    """Every tool that the text shows, in its order."""
    found: list[tuple[int, Shown]] = []
    for match in _WHOLE.finditer(text):
        schema = json.loads(match["schema"]) if match["schema"] else {}
        custom = bool(match["none"] and match["none"].startswith("input"))
        arguments = {"input": {"type": "string"}} if custom else dict(schema.get("properties") or {})
        required = ["input"] if custom else schema.get("required") or []
        found.append((match.start(), Shown(match["name"].strip(), arguments, frozenset(required), custom)))
    for match in _SIGNATURE.finditer(text):
        listed = [one for one in _ARGUMENT.finditer(match["arguments"]) if one["name"]]
        arguments = {one["name"]: _typed(one["type"]) for one in listed}
        required = frozenset(one["name"] for one in listed if not one["optional"])
        found.append((match.start(), Shown(match["name"], arguments, required)))
    names: set[str] = set()
    return [tool for _, tool in sorted(found, key=lambda one: one[0]) if not (tool.name in names or names.add(tool.name))]


def _typed(text: str | None) -> dict[str, Any]:
    """What a signature says of a type, as a schema."""
    words = (text or "").strip()
    if words.startswith('"'):
        return {"enum": [json.loads(one) for one in re.findall(r'"(?:[^"\\]|\\.)*"', words)]}
    if words.endswith("[]"):
        return {"type": "array", "items": {"type": words[:-2]}}
    return {"type": "object" if words.startswith("{") else words.split(" | ", maxsplit=1)[0] or "string"}


@dataclass
class TextModel:
    """Chooses a script for a request. `render` writes a block, `folder` is where the file belongs, `asked` what it called so far.

    `render` gets the tool's name and its arguments and gives what the model says; without one it copies the block that the contract
    shows as an example, as a model that learns from the prompt alone would.
    """

    render: Callable[[str, dict[str, Any]], str] | None = None
    folder: str = "."
    preface: str = "I will do that now.\n"
    final: str = FINAL
    chunk: int = 5
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Script:
        text = seen.text
        tools = shown_tools(text)
        if not tools:
            return Script(NO_TOOLS, chunk=self.chunk)
        if _RESULT.search(_just_said(seen)):
            return Script(self.final, chunk=self.chunk)
        tool = self.chosen(tools)
        arguments = self.filled(tool)
        self.called.append((tool.name, arguments))
        block = self.render(tool.name, arguments) if self.render is not None else learnt_block(text, tool.name, arguments)
        return Script(self.preface + block, chunk=self.chunk)

    def chosen(self, tools: list[Shown]) -> Shown:
        for wanted in (lambda tool: tool.writes_files, lambda tool: tool.runs_commands):
            for tool in tools:
                if wanted(tool):
                    return tool
        return tools[0]

    def filled(self, tool: Shown) -> dict[str, Any]:
        made = {name: self._value(name, schema, needed=name in tool.required) for name, schema in tool.arguments.items()}
        return {name: value for name, value in made.items() if value is not None}

    def _value(self, name: str, schema: dict[str, Any], *, needed: bool) -> Any:
        plain, kind = flat(name), _kind(schema)
        line = f"printf 'hi\\n' > {self.folder}/hello.txt"
        if plain in SHELLS and "enum" not in schema:
            if kind != "array":
                return line
            return [line] if plain == "commands" else ["bash", "-lc", line]
        if plain in PATHS:
            return f"{self.folder}/hello.txt"
        if plain in TEXTS:
            return "hi\n"
        if plain in TOWNS:
            return "Oslo"
        if not needed:
            return None
        if plain in SAYINGS:
            return "write the greeting file"
        if schema.get("enum"):
            return "create" if "create" in schema["enum"] else schema["enum"][0]
        return {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(kind, "A-7")


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "string")
    return next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else str(kind)


def _just_said(seen: Seen) -> str:
    """What came after the model's last words, as text."""
    said: list[str] = []
    for message in reversed(seen.json.get("messages", [])):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            content = message.get("content") or ""
            parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content if isinstance(part, dict)]
            said += parts
    return "\n".join(said)


_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})json action\n(?P<body>\{.*?\n?)(?P=fence)$", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"<\|DSML\|tool_calls>\n")


def learnt_block(text: str, name: str, arguments: dict[str, Any]) -> str:
    """A block in the form that the text shows, written with nothing but what can be seen there."""
    if _SHELL.search(text):
        lines = [_parameter(key, value) for key, value in arguments.items()]
        body = "".join(f"{line}\n" for line in lines)
        return f'<|DSML|tool_calls>\n<|DSML|invoke name="{name}">\n{body}</|DSML|invoke>\n</|DSML|tool_calls>'
    if _FENCE.search(text):
        return f"```json action\n{json.dumps({'tool': name, 'parameters': arguments}, indent=2)}\n```"
    raise AssertionError("the contract shows no example of a call")


def _parameter(name: str, value: Any) -> str:
    said = f"<![CDATA[{value}]]>" if isinstance(value, str) else json.dumps(value)
    return f'<|DSML|parameter name="{name}">{said}</|DSML|parameter>'

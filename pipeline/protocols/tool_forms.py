"""Tools and tool choice, as far as the three protocols agree about them (N1, C3, X30, X32).

In: one entry of a `tools` list, or a demand for tools. Out: Tool and ToolChoice, or a StageError that names the field.
Promise: every name that comes out is usable, unique and echoed byte for byte; a choice never names what is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import structs

from pipeline.protocols import fields
from pipeline.protocols.fields import Json, Place
from pipeline.stage import StageError
from pipeline.turn import CUSTOM_INPUT, ChoiceMode, Tool, ToolChoice, ToolKind
from pipeline.verdicts import Api, DroppedParameter, ErrorKind

_MAX_NAME_CHARS = 256
_MAX_TOOLS = 128
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OFFICIAL_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_OFFICIAL_LENGTH: Mapping[Api, int] = {Api.OPENAI_CHAT: 64, Api.ANTHROPIC_MESSAGES: 128, Api.OPENAI_RESPONSES: 128}
_SYNTAXES = ("lark", "regex")

# Kinds of tools that run elsewhere, or that no text model can be taught, by the start of their `type` (CR02, AR05, AR06, RQ03).
_HOSTED: tuple[tuple[str, DroppedParameter], ...] = (
    ("web_search", DroppedParameter.TOOL_WEB_SEARCH),
    ("web_fetch", DroppedParameter.TOOL_WEB_FETCH),
    ("file_search", DroppedParameter.TOOL_FILE_SEARCH),
    ("code_interpreter", DroppedParameter.TOOL_CODE_EXECUTION),
    ("code_execution", DroppedParameter.TOOL_CODE_EXECUTION),
    ("image_generation", DroppedParameter.TOOL_IMAGE_GENERATION),
    ("computer", DroppedParameter.TOOL_COMPUTER),
    ("browser", DroppedParameter.TOOL_BROWSER),
    ("mcp", DroppedParameter.TOOL_MCP),
    ("tool_search", DroppedParameter.TOOL_SEARCH),
    ("local_shell", DroppedParameter.TOOL_SHELL),
    ("shell", DroppedParameter.TOOL_SHELL),
    ("apply_patch", DroppedParameter.TOOL_APPLY_PATCH),
    ("programmatic_tool_calling", DroppedParameter.TOOL_PROGRAMMATIC),
)


def hosted_kind(type_name: str) -> DroppedParameter:
    """The fixed name under which a tool of this foreign type is dropped."""
    return next((kind for start, kind in _HOSTED if type_name.startswith(start)), DroppedParameter.TOOL_OTHER)


def tool_name(entry: Json, place: Place, *, strict: bool) -> str:
    """The tool's name: any visible text of at most 256 characters; with `strict`, what the protocol's own API takes (X30)."""
    name = fields.required_text(entry, "name", place)
    here = place.at("name")
    if len(name) > _MAX_NAME_CHARS:
        raise here.wrong(f"must have at most {_MAX_NAME_CHARS} characters")
    if _UNUSABLE.search(name):
        raise here.wrong("must not hold control characters or line breaks")
    longest = _OFFICIAL_LENGTH[place.api]
    if strict and (len(name) > longest or not _OFFICIAL_NAME.fullmatch(name)):
        raise here.wrong(f"must be 1 to {longest} characters of a-z, A-Z, 0-9, underscore and hyphen")
    return name


def function_tool(entry: Json, place: Place, *, schema_key: str, strict: bool, native: Json | None = None) -> Tool:
    """A function: name, description, a JSON schema under `schema_key` (absent, null or empty: no parameters), `strict`."""
    name = tool_name(entry, place, strict=strict)
    description = fields.optional_text(entry, "description", place) or ""
    parameters = fields.optional_object(entry, schema_key, place) or {"type": "object", "properties": {}}
    exact = fields.flag(entry, "strict", place)
    tool = Tool(name=name, description=description, parameters=parameters, strict=exact)
    return structs.replace(tool, native=native_form(tool) if native is None else native)


def custom_tool(entry: Json, place: Place, *, strict: bool) -> Tool:
    """A custom tool: one raw text in. The grammar stands in `format`, which the contract spells out, and in the native form's description (CR03)."""
    name = tool_name(entry, place, strict=strict)
    description = fields.optional_text(entry, "description", place) or ""
    form = _format(entry, place)
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {CUSTOM_INPUT: {"type": "string", "description": "The whole input as raw text."}},
        "required": [CUSTOM_INPUT],
    }
    tool = Tool(name=name, description=description, parameters=parameters, kind=ToolKind.CUSTOM, format=form)
    return structs.replace(tool, native=native_form(tool))


def described(tool: Tool) -> str:
    """The description, with the grammar of a custom tool spelled out: upstreams that take tools know functions only (CR03)."""
    if tool.format is None or tool.format["type"] != "grammar":
        return tool.description
    rule = f"The input must match this {tool.format['syntax']} grammar:\n{tool.format['definition']}"
    return f"{tool.description}\n\n{rule}" if tool.description else rule


def native_form(tool: Tool) -> dict[str, object]:
    """The tool as an OpenAI function, for upstreams that take tools."""
    function: dict[str, object] = {"name": tool.name, "description": described(tool), "parameters": tool.parameters}
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _format(entry: Json, place: Place) -> dict[str, object]:
    """The input format in one shape: `{"type": "text"}` or `{"type": "grammar", "syntax", "definition"}`. Chat nests the latter two."""
    form = fields.optional_object(entry, "format", place)
    here = place.at("format")
    kind = fields.optional_text(form, "type", here) if form else None
    if form is None or kind in (None, "text"):
        return {"type": "text"}
    if kind != "grammar":
        raise here.at("type").wrong("supported values are 'text' and 'grammar'", ErrorKind.UNSUPPORTED_VALUE)
    nested = fields.optional_object(form, "grammar", here)
    grammar, inside = (nested, here.at("grammar")) if nested is not None else (form, here)
    syntax = fields.required_text(grammar, "syntax", inside)
    if syntax not in _SYNTAXES:
        raise inside.at("syntax").wrong("supported values are 'lark' and 'regex'", ErrorKind.UNSUPPORTED_VALUE)
    return {"type": "grammar", "syntax": syntax, "definition": fields.required_text(grammar, "definition", inside)}


def check_list(tools: Sequence[Tool], place: Place, *, strict: bool) -> None:
    """Refuse a name that stands twice (X32), and with `strict` more tools than OpenAI takes (X37)."""
    if strict and place.api is not Api.ANTHROPIC_MESSAGES and len(tools) > _MAX_TOOLS:
        raise place.at("tools").wrong(f"must have at most {_MAX_TOOLS} entries")
    if len({tool.name for tool in tools}) != len(tools):
        raise place.at("tools").wrong("Tool names must be unique.")


def is_odd(tool: Tool) -> bool:
    """Whether the schema demands an argument that it does not describe: legal, but a model can only guess what it is."""
    described, demanded = tool.parameters.get("properties"), tool.parameters.get("required")
    if not isinstance(demanded, list):
        return False
    known = described if isinstance(described, dict) else {}
    return any(isinstance(name, str) and name not in known for name in demanded)


def check_choice(choice: ToolChoice, tools: Sequence[Tool], here: Place) -> None:
    """Refuse a demand, made `here`, that the tools cannot meet (CR04): none there at all, or a name that is not among them."""
    names = {tool.name for tool in tools}
    if choice.mode is ChoiceMode.NAMED and choice.name not in names:
        raise here.wrong("names a tool that is not in 'tools'")
    if choice.allowed is not None and not choice.allowed <= names:
        raise here.wrong("allows a tool that is not in 'tools'")
    if choice.mandatory and not tools:
        raise here.wrong("demands a call, but there are no 'tools'")


def plain_choice(word: str, place: Place) -> ToolChoice:
    """A choice given as one word. `any` is what some clients write for `required`."""
    if word in ("required", "any"):
        return ToolChoice(ChoiceMode.REQUIRED)
    if word in ("auto", "none"):
        return ToolChoice(ChoiceMode(word))
    raise place.wrong("supported values are 'none', 'auto' and 'required'", ErrorKind.UNSUPPORTED_VALUE)


def refuse_hosted(here: Place) -> StageError:
    """Say that the choice made `here` forces a tool that was left out because nobody here can run it (AR06, RQ03)."""
    return here.wrong("forces a tool that this server does not run", ErrorKind.UNSUPPORTED_VALUE)


def allow_only(mode: ChoiceMode, names: frozenset[str], here: Place) -> ToolChoice:
    """The hard filter `allowed_tools`. Nothing allowed means no tools, which a demand for a call contradicts."""
    if names:
        return ToolChoice(mode=mode, allowed=names)
    if mode is ChoiceMode.REQUIRED:
        raise here.wrong("demands a call, but allows no tool")
    return ToolChoice(mode=ChoiceMode.NONE)

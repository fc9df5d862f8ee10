"""The tools that Anthropic defines and the client runs (AR05): their type names say it all to Claude, other models need a schema.

In: a `type` such as `bash_20250124`. Out: default name, description and parameters, or None for other types.
The parameters are those of Anthropic's tool pages; a later date of a known family gets the newest known form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_TYPE = re.compile(r"(bash|text_editor|memory)_(\d{8})")
# From this version on the editor cannot undo, and has its newer name.
_EDITOR_WITHOUT_UNDO = 20250429
# From this version on inserted text has a parameter of its own.
_EDITOR_WITH_INSERT_TEXT = 20250728

_TEXT = {"type": "string"}
_RANGE = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "For view of a file: first and last line, counted from 1; -1 as the last line means the end.",
}
_FILE_TEXT = {"type": "string", "description": "For create: the whole content of the file."}
_OLD = {"type": "string", "description": "For str_replace: the text to replace; it must occur exactly once, white space included."}
_NEW = {"type": "string", "description": "For str_replace: the text to put in its place."}
_NEW_OR_INSERTED = {"type": "string", "description": "For str_replace: the text to put in its place. For insert: the text to insert."}
_LINE = {"type": "integer", "description": "For insert: the line after which to insert; 0 is the start of the file."}
_INSERTED = {"type": "string", "description": "For insert: the text to insert."}


class BuiltinTool(NamedTuple):
    """What a model must be told of such a tool."""

    name: str
    description: str
    parameters: Mapping[str, object]


def builtin_tool(type_name: str) -> BuiltinTool | None:
    """Look the type up; None for one that is not run by the client or not known."""
    found = _TYPE.fullmatch(type_name)
    if found is None:
        return None
    family, version = found[1], int(found[2])
    if family == "bash":
        return _BASH
    return _MEMORY if family == "memory" else _editor(version)


def _commands(*names: str) -> dict[str, object]:
    return {"type": "string", "enum": list(names), "description": "What to do."}


def _object(properties: dict[str, object], *required: str) -> dict[str, object]:
    return (
        {"type": "object", "properties": properties, "required": list(required)}
        if required
        else {"type": "object", "properties": properties}
    )


_BASH = BuiltinTool(
    "bash",
    "Runs a command in a bash session that stays alive between calls, so that the directory and variables are kept.",
    _object(
        {
            "command": {"type": "string", "description": "The command to run. Needed unless the session is restarted."},
            "restart": {"type": "boolean", "description": "true restarts the session."},
        }
    ),
)

_MEMORY = BuiltinTool(
    "memory",
    "Keeps notes across conversations in files below /memories. Look there before starting a task, and save what will be useful later.",
    _object(
        {
            "command": _commands("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": {"type": "string", "description": "The file or directory, below /memories. Needed for all commands but rename."},
            "view_range": _RANGE,
            "file_text": _FILE_TEXT,
            "old_str": _OLD,
            "new_str": _NEW,
            "insert_line": _LINE,
            "insert_text": _INSERTED,
            "old_path": {"type": "string", "description": "For rename: the present path."},
            "new_path": {"type": "string", "description": "For rename: the new path."},
        },
        "command",
    ),
)


def _editor(version: int) -> BuiltinTool:
    commands = ["view", "create", "str_replace", "insert"]
    if version < _EDITOR_WITHOUT_UNDO:
        commands.append("undo_edit")
    own_insert = version >= _EDITOR_WITH_INSERT_TEXT
    properties: dict[str, object] = {
        "command": _commands(*commands),
        "path": {"type": "string", "description": "The file or directory to work on."},
        "view_range": _RANGE,
        "file_text": _FILE_TEXT,
        "old_str": _OLD,
        "new_str": _NEW if own_insert else _NEW_OR_INSERTED,
        "insert_line": _LINE,
    }
    if own_insert:
        properties["insert_text"] = _INSERTED
    return BuiltinTool(
        "str_replace_editor" if version < _EDITOR_WITHOUT_UNDO else "str_replace_based_edit_tool",
        "Views, creates and edits text files, one command a call.",
        _object(properties, "command", "path"),
    )

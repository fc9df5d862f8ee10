"""Input items of a Responses request into messages (RQ01, RQ02).

In: the `input` list. Out: messages, and the tools that items brought along. Promise: neighbouring items of the assistant become one message, as
do neighbouring results; an item that nobody here knows, or that another server ran, becomes a record or goes without one, never an error.
"""

from __future__ import annotations

from pipeline.protocols import fields, limits, placeholders
from pipeline.protocols.collector import Collector
from pipeline.protocols.fields import Json, Place
from pipeline.protocols.openai_content import Content, content_parts
from pipeline.protocols.transcript import Transcript
from pipeline.turn import CUSTOM_INPUT, Arguments, Call, Part, Result, Role, Text, ToolKind
from pipeline.verdicts import DroppedParameter, ReplacedContent

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.DEVELOPER}
_PARTIAL = ("in_progress", "incomplete")
# Silent: thoughts, and markers that carry no content.
_DROPPED = ("reasoning", "compaction_trigger", "mcp_list_tools")
_OUTPUT_ENDINGS = ("_output", "_response")


class Items:
    """Reads the items of one request into a transcript."""

    __slots__ = ("_got", "_strict", "_transcript", "tool_lists")

    def __init__(self, transcript: Transcript, got: Collector, *, strict: bool = False) -> None:
        """Messages go to the transcript, losses to the collector. `strict` bounds what a tool returned (X37)."""
        self._transcript = transcript
        self._got = got
        self._strict = strict
        self.tool_lists: list[tuple[Json, Place]] = []
        """Items with a `tools` array of their own (additional_tools, tool_search_output), each with its place."""

    def add(self, item: Json, place: Place) -> None:
        """Read one item. Raises StageError where a known item has fields of the wrong type."""
        kind = fields.optional_text(item, "type", place)
        if kind is None:
            kind = "message" if "role" in item else "item_reference" if "id" in item else ""
        if kind == "message":
            self._message(item, place)
        elif kind in ("function_call", "custom_tool_call"):
            self._transcript.join(Role.ASSISTANT, [self._call(item, place, custom=kind == "custom_tool_call")])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._result(self._output(item, place))
        elif kind == "item_reference":
            # No state is held here. SDKs refer to their own earlier items this way; failing would end the conversation. What a call
            # returned comes as an item of its own and is kept: the guard makes user text of a result without its call (G3).
            self._got.replace(ReplacedContent.ITEM_REFERENCE)
        elif kind in ("additional_tools", "tool_search_output"):
            self.tool_lists.append((item, place))
        elif kind == "configuration_update":
            self._got.drop(DroppedParameter.CONFIGURATION_UPDATE)
        elif kind.startswith("compaction") and kind not in _DROPPED:
            self._got.replace(ReplacedContent.COMPACTION)
            self._aside(Text(placeholders.omitted("earlier conversation, compacted by another server")))
        elif kind not in _DROPPED:
            self._foreign(kind, item)

    def _message(self, item: Json, place: Place) -> None:
        name = fields.required_text(item, "role", place)
        role = _ROLES.get(name)
        if role is None:
            raise place.at("role").wrong("supported values are 'user', 'assistant', 'system' and 'developer'")
        parts = content_parts(item.get("content"), place.at("content"), self._got, rich=role is Role.USER)
        if role is Role.ASSISTANT:
            last = self._transcript.last
            if parts and last is not None and last[0] is role and last[1] and isinstance(last[1][-1], Text):
                parts.insert(0, Text("\n\n"))
            self._transcript.join(role, parts)
        else:
            self._transcript.add(role, parts)

    def _call(self, item: Json, place: Place, *, custom: bool) -> Part:
        call_id = fields.optional_text(item, "call_id", place) or fields.optional_text(item, "id", place) or ""
        name = fields.optional_text(item, "name", place) or ""
        raw = item.get("arguments")
        if custom:
            raw = {CUSTOM_INPUT: fields.optional_text(item, "input", place) or ""}
        if not name.strip():
            self._got.replace(ReplacedContent.NAMELESS_CALL)
            return Text(placeholders.record("call without a tool name", raw))
        namespace = fields.optional_text(item, "namespace", place) or None
        full_name = f"{namespace}.{name}" if namespace else name
        return Call(call_id, full_name, Arguments(raw), ToolKind.CUSTOM if custom else ToolKind.FUNCTION, namespace)

    def _output(self, item: Json, place: Place) -> Result:
        call_id = fields.optional_text(item, "call_id", place) or ""
        name = fields.optional_text(item, "name", place) or None
        namespace = fields.optional_text(item, "namespace", place)
        if name and namespace:
            name = f"{namespace}.{name}"
        output = item.get("output")
        if self._strict and isinstance(output, str):
            limits.bounded_output(output, place.at("output"))
        content: Content
        if output is None or isinstance(output, str | list):
            content = content_parts(output, place.at("output"), self._got, rich=True)
        else:
            # Some clients hand over what their tool returned as it is.
            content = [Text(placeholders.json_text(output))]
        return Result(call_id, tuple(content), name, is_partial=item.get("status") in _PARTIAL)

    def _result(self, result: Result) -> None:
        last = self._transcript.last
        if last is not None and last[0] is Role.USER and last[1] and all(isinstance(part, Result) for part in last[1]):
            self._transcript.join(Role.USER, [result])
        else:
            self._transcript.add(Role.USER, [result])

    def _aside(self, text: Text) -> None:
        """User text that is not the user's own: it joins results, so that it does not pass for a new question (N4)."""
        last = self._transcript.last
        if last is not None and last[0] is Role.USER:
            self._transcript.join(Role.USER, [text])
        else:
            self._transcript.add(Role.USER, [text])

    def _foreign(self, kind: str, item: Json) -> None:
        """A call that another server ran, or the output of one, or something new: a readable record."""
        what = placeholders.label(kind)
        if kind == "image_generation_call":
            self._got.replace(ReplacedContent.IMAGE)
            self._transcript.join(Role.ASSISTANT, [Text(placeholders.omitted("generated image"))])
            return
        seen = {key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")}
        text = Text(placeholders.record(what, seen))
        called = kind.endswith("_call") or kind in ("program", "mcp_approval_request")
        self._got.replace(ReplacedContent.SERVER_TOOL if called or kind.endswith(_OUTPUT_ENDINGS) else ReplacedContent.UNKNOWN_ITEM)
        if called:
            self._transcript.join(Role.ASSISTANT, [text])
        else:
            self._aside(text)

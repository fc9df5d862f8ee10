"""Content blocks of an Anthropic request into parts (AR09 to AR11, AR14).

In: a `content` value and whose it is. Out: parts, and the names of deferred tools that results refer to. Promise: thoughts and empty texts are
dropped, what other servers ran becomes a short record, unknown kinds become a stated placeholder; only wrong types are errors.
"""

from __future__ import annotations

import base64
import binascii

from pipeline.protocols import fields, placeholders
from pipeline.protocols.collector import Collector
from pipeline.protocols.fields import Json, Place
from pipeline.turn import Arguments, Call, Image, Media, Part, Result, Role, Text
from pipeline.verdicts import ReplacedContent

_THOUGHTS = ("thinking", "redacted_thinking")
_Plain = Text | Image | Media


class Blocks:
    """Reads the blocks of one request."""

    __slots__ = ("_got", "referenced")

    def __init__(self, got: Collector) -> None:
        """Losses go to the collector."""
        self._got = got
        self.referenced: set[str] = set()
        """Tools that a `tool_reference` named, so that they are no longer deferred (AR07)."""

    def of_message(self, content: object, place: Place, role: Role) -> list[Part]:
        """Parts of a message, in the order of its blocks."""
        if isinstance(content, str):
            return list(self._texts(content, place))
        if not isinstance(content, list):
            raise place.missing() if content is None else place.expected("a string or an array of content blocks", content)
        parts: list[Part] = []
        for index, value in enumerate(content):
            here = place.at(index)
            block = fields.as_object(value, here)
            kind = fields.required_text(block, "type", here)
            if kind == "tool_use":
                self._only_in(role, Role.ASSISTANT, kind, here)
                parts.append(self._call(block, here))
            elif kind == "tool_result":
                self._only_in(role, Role.USER, kind, here)
                parts.append(self._result(block, here))
            elif kind not in _THOUGHTS:
                parts += self._plain(kind, block, here, rich=role is Role.USER)
        return parts

    def text_only(self, content: object, place: Place) -> list[Text]:
        """Texts of a system prompt or system message; anything else in it is named in its place."""
        if isinstance(content, str):
            return self._texts(content, place)
        if not isinstance(content, list):
            raise place.expected("a string or an array of text blocks", content)
        found: list[Text] = []
        for index, value in enumerate(content):
            here = place.at(index)
            block = fields.as_object(value, here)
            kind = fields.required_text(block, "type", here)
            found += [part for part in self._plain(kind, block, here, rich=False) if isinstance(part, Text)]
        return found

    @staticmethod
    def _only_in(role: Role, wanted: Role, kind: str, place: Place) -> None:
        if role is not wanted:
            raise place.at("type").wrong(f"'{kind}' blocks can only stand in {wanted} messages")

    @staticmethod
    def _texts(text: str, place: Place) -> list[Text]:
        # AR14: white space alone is no content.
        return [Text(fields.as_text(text, place))] if text.strip() else []

    def _call(self, block: Json, place: Place) -> Part:
        call_id = fields.optional_text(block, "id", place) or ""
        name = fields.optional_text(block, "name", place) or ""
        if not name.strip():
            self._got.replace(ReplacedContent.NAMELESS_CALL)
            return Text(placeholders.record("call without a tool name", block.get("input")))
        return Call(call_id, name, Arguments(block.get("input")))

    def _result(self, block: Json, place: Place) -> Result:
        if block.get("tool_use_id") is None:
            raise place.at("tool_use_id").missing()
        call_id = fields.as_text(block["tool_use_id"], place.at("tool_use_id"))
        content = block.get("content")
        inside = place.at("content")
        parts: list[_Plain] = []
        if isinstance(content, str):
            parts = [Text(fields.as_text(content, inside))] if content else []
        elif isinstance(content, list):
            for index, value in enumerate(content):
                here = inside.at(index)
                inner = fields.as_object(value, here)
                parts += self._of_result(fields.required_text(inner, "type", here), inner, here)
        elif content is not None:
            raise inside.expected("a string or an array of content blocks", content)
        return Result(call_id, tuple(parts), is_error=fields.flag(block, "is_error", place))

    def _of_result(self, kind: str, block: Json, place: Place) -> list[_Plain]:
        if kind == "text":
            # Inside a result white space may be the output.
            text = self._text_of(block, place)
            return [Text(text)] if text else []
        if kind == "tool_reference":
            name = fields.required_text(block, "tool_name", place)
            self.referenced.add(name)
            return [Text(f"Tool now available: {name}")]
        return self._plain(kind, block, place, rich=True)

    def _plain(self, kind: str, block: Json, place: Place, *, rich: bool) -> list[_Plain]:
        if kind == "text":
            return list(self._texts(self._text_of(block, place), place))
        if kind == "image":
            return [self._image(block, place, rich=rich)]
        if kind == "document":
            return self._document(block, place, rich=rich)
        if kind == "search_result":
            return [Text(self._search_result(block, place))]
        if kind == "server_tool_use":
            self._got.replace(ReplacedContent.SERVER_TOOL)
            called = placeholders.label(block.get("name"))
            return [Text(placeholders.record(f"the server ran {called}", block.get("input")))]
        if kind.endswith("_tool_result"):
            self._got.replace(ReplacedContent.SERVER_TOOL)
            return [Text(placeholders.record(f"{placeholders.label(kind)} from the server", block.get("content")))]
        if kind == "compaction":
            # The summary stands for the conversation before it.
            return list(self._texts(fields.optional_text(block, "content", place) or "", place))
        if kind == "container_upload":
            self._got.replace(ReplacedContent.DOCUMENT)
            return [Text(placeholders.omitted("uploaded file"))]
        self._got.replace(ReplacedContent.UNKNOWN_PART)
        return [Text(placeholders.unknown_part(kind))]

    @staticmethod
    def _text_of(block: Json, place: Place) -> str:
        if block.get("text") is None:
            raise place.at("text").missing()
        return fields.as_text(block["text"], place.at("text"))

    def _image(self, block: Json, place: Place, *, rich: bool) -> _Plain:
        source = fields.optional_object(block, "source", place)
        if source is None:
            raise place.at("source").missing()
        here = place.at("source")
        kind = fields.required_text(source, "type", here)
        if rich and kind == "base64":
            media_type = fields.required_text(source, "media_type", here)
            return Image(f"data:{media_type};base64,{fields.required_text(source, 'data', here)}")
        if rich and kind == "url":
            return Image(fields.required_text(source, "url", here))
        # Files that a client uploaded to its provider are not here.
        self._got.replace(ReplacedContent.IMAGE)
        return Text(placeholders.omitted("image"))

    def _document(self, block: Json, place: Place, *, rich: bool) -> list[_Plain]:
        source = fields.optional_object(block, "source", place)
        if source is None:
            raise place.at("source").missing()
        here = place.at("source")
        kind = fields.required_text(source, "type", here)
        title = fields.optional_text(block, "title", place)
        heading = "\n".join(line for line in (title, fields.optional_text(block, "context", place)) if line)
        if kind == "text":
            return self._under(heading, [Text(fields.required_text(source, "data", here))])
        if kind == "content":
            return self._under(heading, self._inner_blocks(source, here, rich=rich))
        if kind == "base64":
            return self._under(heading, [self._file(source, here, title, rich=rich)])
        self._got.replace(ReplacedContent.DOCUMENT)
        if kind == "url":
            return self._under(heading, [Text(f"[document at {fields.required_text(source, 'url', here)}]")])
        return self._under(heading, [Text(placeholders.omitted("document"))])

    @staticmethod
    def _under(heading: str, parts: list[_Plain]) -> list[_Plain]:
        return [Text(heading), *parts] if heading else parts

    def _inner_blocks(self, source: Json, place: Place, *, rich: bool) -> list[_Plain]:
        content = source.get("content")
        if isinstance(content, str):
            return list(self._texts(content, place.at("content")))
        parts: list[_Plain] = []
        for inner, here in fields.objects(source, "content", place):
            kind = fields.required_text(inner, "type", here)
            # Texts and images only, so that documents do not nest.
            parts += self._plain(kind if kind in ("text", "image") else "", inner, here, rich=rich)
        return parts

    def _file(self, source: Json, place: Place, title: str | None, *, rich: bool) -> _Plain:
        media_type = fields.optional_text(source, "media_type", place) or "application/pdf"
        data = fields.required_text(source, "data", place)
        if media_type.startswith("text/"):
            try:
                return Text(base64.b64decode(data).decode("utf-8", "replace"))
            except (binascii.Error, ValueError):
                raise place.at("data").wrong("is not valid base64") from None
        if rich:
            file = {"filename": title or "document.pdf", "file_data": f"data:{media_type};base64,{data}"}
            return Media("file", {"type": "file", "file": file})
        self._got.replace(ReplacedContent.DOCUMENT)
        return Text(placeholders.omitted("document"))

    @staticmethod
    def _search_result(block: Json, place: Place) -> str:
        lines = [fields.optional_text(block, key, place) for key in ("title", "source")]
        lines += [fields.optional_text(inner, "text", here) for inner, here in fields.objects(block, "content", place)]
        return "\n".join(line for line in lines if line)

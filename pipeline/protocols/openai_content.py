"""Message content as OpenAI's two protocols spell it: a text, or a list of typed parts (CM02, CM03, RQ02).

In: a `content` or `output` value. Out: parts. Promise: empty texts are dropped, thoughts are dropped, unknown kinds become a stated placeholder
(N5); only wrong types are errors. Each protocol takes the other's part names too, since clients mix them.
"""

from __future__ import annotations

from pipeline.protocols import fields, placeholders
from pipeline.protocols.collector import Collector
from pipeline.protocols.fields import Json, Place
from pipeline.turn import Image, Media, Text
from pipeline.verdicts import ReplacedContent

Content = list[Text | Image | Media]

_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})


def content_parts(content: object, place: Place, got: Collector, *, rich: bool) -> Content:
    """Read a content value; null is empty. Without `rich` (system, assistant) only text goes on, and the rest is named in its place."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(fields.as_text(content, place))]
    if not isinstance(content, list):
        raise place.expected("a string or an array of content parts", content)
    parts: Content = []
    for index, value in enumerate(content):
        if isinstance(value, str):
            parts.append(Text(fields.as_text(value, place)))
            continue
        here = place.at(index)
        part = _part(fields.as_object(value, here), here, got)
        if part is None:
            continue
        if not rich and not isinstance(part, Text):
            part = _named(part, got)
        parts.append(part)
    return [part for part in parts if not isinstance(part, Text) or part.text]


def _part(part: Json, place: Place, got: Collector) -> Text | Image | Media | None:
    kind = fields.optional_text(part, "type", place)
    if kind in _TEXTS or (kind is None and "text" in part):
        if part.get("text") is None:
            raise place.at("text").missing()
        return Text(fields.as_text(part["text"], place.at("text")))
    if kind == "refusal":
        return Text(fields.optional_text(part, "refusal", place) or "")
    if kind in ("image_url", "input_image"):
        return _image(part, place, got)
    if kind == "input_audio":
        audio = fields.optional_object(part, "input_audio", place)
        if audio is None:
            raise place.at("input_audio").missing()
        return Media("input_audio", {"type": "input_audio", "input_audio": audio})
    if kind in ("file", "input_file"):
        return _file(part, place, got)
    if kind in _THOUGHTS:
        return None
    got.replace(ReplacedContent.UNKNOWN_PART)
    return Text(placeholders.unknown_part(kind))


def _image(part: Json, place: Place, got: Collector) -> Text | Image:
    here = place.at("image_url")
    value = part.get("image_url")
    inner = value if isinstance(value, dict) else None
    if inner is not None:
        url = fields.required_text(inner, "url", here)
        return Image(url, fields.optional_text(inner, "detail", here))
    if value is not None:
        return Image(fields.required_text(part, "image_url", place), fields.optional_text(part, "detail", place))
    if part.get("file_id") is None:
        raise here.missing()
    # Files that a client uploaded to its provider are not here.
    got.replace(ReplacedContent.IMAGE)
    return Text(placeholders.omitted("image"))


def _file(part: Json, place: Place, got: Collector) -> Text | Media:
    nested = fields.optional_object(part, "file", place)
    file, here = (nested, place.at("file")) if nested is not None else (part, place)
    known = {key: value for key in ("filename", "file_data", "file_id") if (value := fields.optional_text(file, key, here)) is not None}
    if "file_data" in known or "file_id" in known:
        return Media("file", {"type": "file", "file": known})
    url = fields.optional_text(file, "file_url", here)
    if url is None:
        raise here.at("file_data").missing()
    got.replace(ReplacedContent.DOCUMENT)
    return Text(f"[file at {url}]")


def _named(part: Image | Media, got: Collector) -> Text:
    if isinstance(part, Image):
        got.replace(ReplacedContent.IMAGE)
        return Text(placeholders.omitted("image"))
    if part.kind == "file":
        got.replace(ReplacedContent.DOCUMENT)
        return Text(placeholders.omitted("file"))
    got.replace(ReplacedContent.AUDIO)
    return Text(placeholders.omitted("audio"))

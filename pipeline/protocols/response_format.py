"""The demand for JSON as the answer, in OpenAI's three spellings and Anthropic's one (CR10, RQ05, AR12).

In: `response_format`, `text.format` or `output_config.format`. Out: a ResponseFormat, or None where plain text is wanted.
"""

from __future__ import annotations

from pipeline.protocols import fields
from pipeline.protocols.fields import Json, Place
from pipeline.turn import ResponseFormat
from pipeline.verdicts import ErrorKind

_DEFAULT_NAME = "answer"


def read_response_format(value: object, place: Place) -> ResponseFormat | None:
    """Read `{"type": "text" | "json_object" | "json_schema", ...}`; the schema stands in `json_schema` (Chat) or beside the type."""
    if value is None:
        return None
    form = fields.as_object(value, place)
    kind = fields.required_text(form, "type", place)
    if kind == "text":
        return None
    if kind == "json_object":
        # llama.cpp's server takes a schema here, and its clients send one.
        schema = fields.optional_object(form, "schema", place)
        return ResponseFormat(schema, {"type": "json_object"} if schema is None else _native(form, schema, None))
    if kind != "json_schema":
        raise place.at("type").wrong("supported values are 'text', 'json_object' and 'json_schema'", ErrorKind.UNSUPPORTED_VALUE)
    nested = fields.optional_object(form, "json_schema", place)
    inner, inside = (nested, place.at("json_schema")) if nested is not None else (form, place)
    schema = fields.optional_object(inner, "schema", inside)
    fields.flag(inner, "strict", inside)
    if schema is None:
        return ResponseFormat(None, {"type": "json_object"})
    return ResponseFormat(schema, _native(inner, schema, fields.optional_text(inner, "name", inside)))


def _native(inner: Json, schema: Json, name: str | None) -> dict[str, object]:
    described: dict[str, object] = {"name": name or _DEFAULT_NAME, "schema": schema}
    described.update({key: inner[key] for key in ("strict", "description") if inner.get(key) is not None})
    return {"type": "json_schema", "json_schema": described}

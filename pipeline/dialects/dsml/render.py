"""How we write `dsml` blocks: for the contract's example and for the history (C4).

In: calls. Out: one `<|DSML|tool_calls>` shell with an invoke for each. Promise: parsing it gives the same calls back. Strings stand in CDATA,
where nothing needs an escape but the end of a section itself, which is written across two sections; everything else is JSON
with `<`, `>` and `&` as JSON escapes, so that no value outside CDATA holds a character of markup. Arguments whose keys do not fit into
an attribute stand as one JSON object in the invoke.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipeline import json_values
from pipeline.dialects.dsml.swallowed import divide
from pipeline.turn import Call

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/@$+-]{1,128}|[^\W_]{1,128}")
_SECTION_END = re.compile("]](?=[>＞﹥〉])")
_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_calls(calls: Sequence[Call]) -> str:
    """One block for all calls; empty for no calls. Arguments that are no JSON object are quoted as one string."""
    if not calls:
        return ""
    return "<|DSML|tool_calls>\n" + "".join(_invoke(call) for call in calls) + "</|DSML|tool_calls>"


def _invoke(call: Call) -> str:
    value = call.arguments.value()
    opener = f'<|DSML|invoke name="{_attribute(call.name)}">'
    if value is not None and all(_PLAIN_NAME.fullmatch(key) for key in value):
        body = _parameters(value)
    else:
        body = _json({"arguments": call.arguments.raw if value is None else value})
    return f"{opener}{body}</|DSML|invoke>\n"


def _parameters(value: Mapping[str, object]) -> str:
    lines = [f'<|DSML|parameter name="{key}">{_value(item)}</|DSML|parameter>\n' for key, item in value.items()]
    return "\n" + "".join(lines) if lines else ""


def _value(item: object) -> str:
    if isinstance(item, str):
        return "<![CDATA[" + divide(_SECTION_END.sub("]]]]><![CDATA[", item)) + "]]>"
    return _json(item)


def _json(item: object) -> str:
    return json_values.dumps(item).translate(_MARKUP)


def _attribute(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "".join(ch if _PLAIN_NAME.fullmatch(ch) else f"&#{ord(ch)};" for ch in name)

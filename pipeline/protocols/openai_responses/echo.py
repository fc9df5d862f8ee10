"""What a response object repeats of its request (RN01, RN02).

In: the turn; `echo`, and behind it `body`, hold the fields as the client sent them. Out: every such key, normalised: a value of a wrong type,
or null where the schema has none, becomes the default. We hold no state, so `store` and `background` are false and nothing came before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.turn import Turn

Json = Mapping[str, object]


def echoed(turn: Turn) -> dict[str, object]:
    """The keys of a response object that do not depend on the answer."""
    fields: dict[str, object] = {"previous_response_id": None, "store": False, "background": False, "service_tier": "default"}
    for key, (default, fits) in _FIELDS.items():
        value = _given(turn, key)
        fields[key] = value if fits(value) else default
    fields["tools"] = [_tool(tool) for tool in _list(_given(turn, "tools")) if isinstance(tool, dict)]
    fields["text"] = _text(_given(turn, "text"))
    fields["reasoning"] = _reasoning(_given(turn, "reasoning"))
    fields["metadata"] = _metadata(_given(turn, "metadata"))
    user = _given(turn, "user")
    if isinstance(user, str):
        fields["user"] = user
    return fields


def _given(turn: Turn, key: str) -> object:
    return turn.echo[key] if key in turn.echo else turn.body.get(key)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _string(value: object) -> bool:
    return isinstance(value, str)


_FIELDS: dict[str, tuple[object, Callable[[object], bool]]] = {
    "instructions": (None, lambda value: isinstance(value, str | list)),
    "tool_choice": ("auto", lambda value: isinstance(value, dict) or value in ("none", "auto", "required")),
    "truncation": ("disabled", lambda value: value in ("auto", "disabled")),
    "parallel_tool_calls": (True, lambda value: isinstance(value, bool)),
    "temperature": (1.0, _number),
    "top_p": (1.0, _number),
    "presence_penalty": (0.0, _number),
    "frequency_penalty": (0.0, _number),
    "top_logprobs": (0, _whole),
    "max_output_tokens": (None, _whole),
    "max_tool_calls": (None, _whole),
    "safety_identifier": (None, _string),
    "prompt_cache_key": (None, _string),
}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _tool(tool: Json) -> dict[str, object]:
    if tool.get("type") != "function":
        return dict(tool)
    parameters, strict, description = tool.get("parameters"), tool.get("strict"), tool.get("description")
    return {
        **tool,
        "description": description if isinstance(description, str) else None,
        "parameters": parameters if isinstance(parameters, dict) else None,
        "strict": strict if isinstance(strict, bool) else None,
    }


def _text(value: object) -> dict[str, object]:
    text = dict(value) if isinstance(value, dict) else {}
    if not isinstance(text.get("format"), dict):
        text["format"] = {"type": "text"}
    if "verbosity" in text and not isinstance(text["verbosity"], str):
        del text["verbosity"]
    return text


def _reasoning(value: object) -> dict[str, object]:
    asked = value if isinstance(value, dict) else {}
    return {key: found if isinstance(found := asked.get(key), str) else None for key in ("effort", "summary")}


def _metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, str)}

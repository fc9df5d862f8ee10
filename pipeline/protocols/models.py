"""Bodies of the small answers: the list of models, one model, and a token count (E10, AR15, X16).

In: names and numbers. Out: JSON bodies in the dialect of the client; Responses clients read the OpenAI form.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline import json_values
from pipeline.verdicts import Api

_OWNER = "toolgraft"


def models_body(api: Api, names: Sequence[str], created: int) -> bytes:
    """All models, each once, in the order given. `created` is in seconds since 1970."""
    unique = list(dict.fromkeys(names))
    data = [_model(api, name, created) for name in unique]
    if api is not Api.ANTHROPIC_MESSAGES:
        return json_values.dumps_bytes({"object": "list", "data": data})
    return json_values.dumps_bytes(
        {
            "data": data,
            "has_more": False,
            "first_id": unique[0] if unique else None,
            "last_id": unique[-1] if unique else None,
        }
    )


def model_body(api: Api, name: str, created: int) -> bytes:
    """One model."""
    return json_values.dumps_bytes(_model(api, name, created))


def token_count_body(api: Api, input_tokens: int) -> bytes:
    """What `count_tokens` (Messages) and `input_tokens` (Responses) answer."""
    if api is Api.ANTHROPIC_MESSAGES:
        return json_values.dumps_bytes({"input_tokens": input_tokens})
    return json_values.dumps_bytes({"object": "response.input_tokens", "input_tokens": input_tokens})


def _model(api: Api, name: str, created: int) -> dict[str, object]:
    if api is Api.ANTHROPIC_MESSAGES:
        since = datetime.fromtimestamp(created, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": "model", "id": name, "display_name": name, "created_at": since, "lifecycle": "active"}
    return {"id": name, "object": "model", "created": created, "owned_by": _OWNER}

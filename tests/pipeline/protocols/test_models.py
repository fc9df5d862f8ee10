from __future__ import annotations

import json

import pytest

from pipeline.protocols.models import model_body, models_body, token_count_body
from pipeline.verdicts import Api

OPENAI = [Api.OPENAI_CHAT, Api.OPENAI_RESPONSES]


@pytest.mark.parametrize("api", OPENAI)
def test_openai_list(api):
    assert json.loads(models_body(api, ["a", "b", "a"], 1700000000)) == {
        "object": "list",
        "data": [
            {"id": "a", "object": "model", "created": 1700000000, "owned_by": "toolgraft"},
            {"id": "b", "object": "model", "created": 1700000000, "owned_by": "toolgraft"},
        ],
    }


def test_anthropic_list():
    body = json.loads(models_body(Api.ANTHROPIC_MESSAGES, ["a", "b"], 1700000000))
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, "a", "b")
    assert body["data"][0] == {
        "type": "model",
        "id": "a",
        "display_name": "a",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
    }


def test_empty_lists():
    assert json.loads(models_body(Api.OPENAI_CHAT, [], 0))["data"] == []
    assert json.loads(models_body(Api.ANTHROPIC_MESSAGES, [], 0)) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_one_model_is_what_the_list_holds():
    for api in Api:
        assert json.loads(model_body(api, "m/1", 5)) == json.loads(models_body(api, ["m/1"], 5))["data"][0]


def test_token_counts():
    assert json.loads(token_count_body(Api.ANTHROPIC_MESSAGES, 12)) == {"input_tokens": 12}
    assert json.loads(token_count_body(Api.OPENAI_RESPONSES, 12)) == {"object": "response.input_tokens", "input_tokens": 12}

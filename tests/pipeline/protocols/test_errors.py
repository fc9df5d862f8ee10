from __future__ import annotations

import json

import pytest

from pipeline.events import Failed
from pipeline.protocols.errors import TABLE, error_response, kind_of_status, responses_failure_code
from pipeline.verdicts import Api, ErrorKind

OPENAI = [Api.OPENAI_CHAT, Api.OPENAI_RESPONSES]
MESSAGES = Api.ANTHROPIC_MESSAGES
ANTHROPIC_TYPES = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
}


def answer(api: Api, failed: Failed) -> tuple[int, dict[str, str], dict]:
    status, headers, body = error_response(api, failed, "req_1")
    assert len(dict(headers)) == len(headers)
    return status, dict(headers), json.loads(body)


def test_every_kind_has_a_row():
    assert set(TABLE) == set(ErrorKind)


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_every_kind_has_a_legal_body_in_every_dialect(kind):
    for api in Api:
        status, headers, body = answer(api, Failed(kind, "what happened", parameter="tools"))
        assert 400 <= status < 600
        assert headers["content-type"] == "application/json"
        if api is MESSAGES:
            assert set(body) == {"type", "error", "request_id"} and body["type"] == "error" and body["request_id"] == "req_1"
            assert body["error"]["type"] in ANTHROPIC_TYPES
        else:
            assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
            assert body["error"]["param"] == "tools" and isinstance(body["error"]["type"], str)
        assert "what happened" in body["error"]["message"]


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_a_failure_without_words_still_says_something(kind):
    for api in Api:
        assert answer(api, Failed(kind, ""))[2]["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "given", "openai", "anthropic"),
    [
        (ErrorKind.INVALID_REQUEST, None, (400, "invalid_request_error", None), (400, "invalid_request_error")),
        (ErrorKind.UNSUPPORTED_PARAMETER, 400, (400, "invalid_request_error", "unsupported_parameter"), (400, "invalid_request_error")),
        (ErrorKind.UNSUPPORTED_VALUE, None, (400, "invalid_request_error", "unsupported_value"), (400, "invalid_request_error")),
        (ErrorKind.AUTHENTICATION, 401, (401, "invalid_request_error", "invalid_api_key"), (401, "authentication_error")),
        (ErrorKind.BILLING, 402, (402, "insufficient_quota", "insufficient_quota"), (402, "billing_error")),
        (ErrorKind.PERMISSION, 403, (403, "invalid_request_error", "permission_denied"), (403, "permission_error")),
        (ErrorKind.MODEL_NOT_FOUND, 404, (404, "invalid_request_error", "model_not_found"), (404, "not_found_error")),
        (ErrorKind.NOT_FOUND, None, (404, "invalid_request_error", "not_found"), (404, "not_found_error")),
        (ErrorKind.METHOD_NOT_ALLOWED, None, (405, "invalid_request_error", "method_not_allowed"), (405, "invalid_request_error")),
        (ErrorKind.CONFLICT, 409, (409, "invalid_request_error", "conflict"), (409, "conflict_error")),
        (ErrorKind.TOO_LARGE, None, (413, "invalid_request_error", "request_too_large"), (413, "request_too_large")),
        (ErrorKind.UNPROCESSABLE, 422, (422, "invalid_request_error", None), (400, "invalid_request_error")),
        (ErrorKind.CONTEXT_OVERFLOW, 500, (400, "invalid_request_error", "context_length_exceeded"), (400, "invalid_request_error")),
        (ErrorKind.RATE_LIMIT, 429, (429, "rate_limit_exceeded", "rate_limit_exceeded"), (429, "rate_limit_error")),
        (ErrorKind.OVERLOADED, None, (503, "server_error", "overloaded"), (529, "overloaded_error")),
        (ErrorKind.OVERLOADED, 503, (503, "server_error", "overloaded"), (503, "overloaded_error")),
        (ErrorKind.OVERLOADED, 529, (503, "server_error", "overloaded"), (529, "overloaded_error")),
        (ErrorKind.TOOL_CHOICE_UNMET, None, (502, "server_error", "tool_choice_unmet"), (502, "api_error")),
        (ErrorKind.UPSTREAM_AUTHENTICATION, 401, (502, "server_error", "upstream_authentication_failed"), (502, "api_error")),
        (ErrorKind.UPSTREAM_AUTHENTICATION, 403, (502, "server_error", "upstream_authentication_failed"), (502, "api_error")),
        (ErrorKind.UPSTREAM_ERROR, None, (502, "server_error", None), (502, "api_error")),
        (ErrorKind.UPSTREAM_ERROR, 200, (502, "server_error", None), (502, "api_error")),
        (ErrorKind.UPSTREAM_ERROR, 302, (502, "server_error", None), (502, "api_error")),
        (ErrorKind.UPSTREAM_ERROR, 500, (500, "server_error", None), (500, "api_error")),
        (ErrorKind.UPSTREAM_ERROR, 503, (503, "server_error", "overloaded"), (503, "overloaded_error")),
        (ErrorKind.UPSTREAM_ERROR, 504, (504, "server_error", "upstream_timeout"), (504, "timeout_error")),
        (ErrorKind.UPSTREAM_ERROR, 529, (503, "server_error", "overloaded"), (529, "overloaded_error")),
        (ErrorKind.UPSTREAM_ERROR, 418, (418, "invalid_request_error", None), (418, "invalid_request_error")),
        (ErrorKind.INVALID_REQUEST, 422, (422, "invalid_request_error", None), (400, "invalid_request_error")),
        (ErrorKind.UPSTREAM_TIMEOUT, None, (504, "server_error", "upstream_timeout"), (504, "timeout_error")),
        (ErrorKind.UPSTREAM_UNREACHABLE, None, (502, "server_error", "upstream_unreachable"), (502, "api_error")),
        (ErrorKind.SHUTTING_DOWN, None, (503, "server_error", "shutting_down"), (503, "overloaded_error")),
        (ErrorKind.INTERNAL, None, (500, "server_error", None), (500, "api_error")),
    ],
)
def test_the_table(kind, given, openai, anthropic):
    failed = Failed(kind, "m", status=given)
    for api in OPENAI:
        status, _, body = answer(api, failed)
        assert (status, body["error"]["type"], body["error"]["code"]) == openai
    status, _, body = answer(MESSAGES, failed)
    assert (status, body["error"]["type"]) == anthropic


def test_a_code_of_its_own_goes_before_the_table_s():
    failed = Failed(ErrorKind.INVALID_REQUEST, "m", code="previous_response_not_found", parameter="previous_response_id")
    error = answer(Api.OPENAI_RESPONSES, failed)[2]["error"]
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


def test_every_429_says_when_to_come_back():
    for api in Api:
        for failed in (Failed(ErrorKind.RATE_LIMIT, "m"), Failed(ErrorKind.UPSTREAM_ERROR, "m", status=429)):
            assert int(answer(api, failed)[1]["retry-after"]) > 0
        assert answer(api, Failed(ErrorKind.RATE_LIMIT, "m", retry_after="17"))[1]["retry-after"] == "17"


def test_the_upstream_s_retry_after_goes_on_with_every_status():
    assert answer(Api.OPENAI_CHAT, Failed(ErrorKind.UPSTREAM_ERROR, "m", status=503, retry_after="9"))[1]["retry-after"] == "9"
    assert "retry-after" not in answer(Api.OPENAI_CHAT, Failed(ErrorKind.UPSTREAM_ERROR, "m", status=503))[1]


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_clients_are_told_not_to_repeat_what_cannot_succeed(kind):
    for api in Api:
        status, headers, _ = answer(api, Failed(kind, "m"))
        final = kind is ErrorKind.TOOL_CHOICE_UNMET or status in (400, 401, 402, 403, 404, 405, 413, 422)
        assert (headers.get("x-should-retry") == "false") is final


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9,001 tokens.",
            "prompt is too long: 9001 tokens > 8192 maximum",
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 10000 tokens (5000 in the messages, 5000 in the completion)",
            "prompt is too long: 10000 tokens > 4096 maximum",
        ),
        ("request (9000 tokens) exceeds the available context size (4096 tokens)", "prompt is too long: 9000 tokens > 4096 maximum"),
        (
            "input token count (1200000) exceeds the maximum number of tokens allowed (1048576)",
            "prompt is too long: 1200000 tokens > 1048576 maximum",
        ),
        ("prompt is too long: 5 tokens > 4 maximum", "prompt is too long: 5 tokens > 4 maximum"),
        ("context window exceeded", "prompt is too long: context window exceeded"),
        ("maximum context is 100", "prompt is too long: maximum context is 100"),
        ("maximum context " + "9" * 5000, "prompt is too long: maximum context " + "9" * 5000),
    ],
)
def test_context_overflow_begins_with_the_words_that_messages_clients_know(message, told):
    failed = Failed(ErrorKind.CONTEXT_OVERFLOW, message)
    assert answer(MESSAGES, failed)[2]["error"]["message"] == told
    assert answer(Api.OPENAI_CHAT, failed)[2]["error"]["message"] == message


def test_kinds_of_statuses():
    assert kind_of_status(429) is ErrorKind.RATE_LIMIT
    assert kind_of_status(418) is ErrorKind.INVALID_REQUEST
    assert kind_of_status(507) is ErrorKind.UPSTREAM_ERROR


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_failed_responses_carry_a_code_of_the_enum(kind):
    assert responses_failure_code(Failed(kind, "m")) in {"server_error", "rate_limit_exceeded", "invalid_prompt"}

"""What errors mean: kinds, words, what can be left out on a second try (X22 to X25, U06, U10, U12)."""

from __future__ import annotations

import json

import pytest

from pipeline.events import Failed
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.upstream.failures import MAX_MESSAGE_CHARS
from pipeline.verdicts import ErrorKind

OWN = UpstreamTraits(own_key=True)


def failure(status: int, body: object = b"", traits: UpstreamTraits | None = None, **headers: str) -> Failed:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Upstream(Settings()).failure(traits or UpstreamTraits(), status, named, data)


def said(message: str, **fields: object) -> dict:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "kind", "kept", "retryable"),
    [
        (400, ErrorKind.INVALID_REQUEST, 400, False),
        (401, ErrorKind.AUTHENTICATION, 401, False),
        (402, ErrorKind.BILLING, 402, False),
        (403, ErrorKind.PERMISSION, 403, False),
        (404, ErrorKind.NOT_FOUND, 404, False),
        (405, ErrorKind.UPSTREAM_ERROR, None, False),
        (408, ErrorKind.TIMEOUT, 408, True),
        (409, ErrorKind.CONFLICT, 409, True),
        (413, ErrorKind.TOO_LARGE, 413, False),
        (418, ErrorKind.INVALID_REQUEST, 418, False),
        (422, ErrorKind.UNPROCESSABLE, 422, False),
        (429, ErrorKind.RATE_LIMIT, 429, True),
        (500, ErrorKind.UPSTREAM_ERROR, 500, True),
        (501, ErrorKind.UPSTREAM_ERROR, 501, False),
        (502, ErrorKind.UPSTREAM_ERROR, 502, True),
        (503, ErrorKind.OVERLOADED, 503, True),
        (504, ErrorKind.UPSTREAM_TIMEOUT, 504, True),
        (529, ErrorKind.OVERLOADED, 529, True),
        (204, ErrorKind.UPSTREAM_ERROR, None, False),
        (307, ErrorKind.UPSTREAM_ERROR, None, False),
    ],
)
def test_statuses(status: int, kind: ErrorKind, kept: int | None, retryable: bool):
    failed = failure(status, said("as the upstream said it"))
    assert (failed.kind, failed.status, failed.retryable) == (kind, kept, retryable)
    assert failed.message == "as the upstream said it"
    assert failure(status).message


@pytest.mark.parametrize("status", [401, 403])
def test_the_proxys_own_key_is_not_the_clients_business(status: int):
    failed = failure(status, said("Incorrect API key provided: secret-of-the-proxy"), OWN)
    assert failed == Failed(ErrorKind.UPSTREAM_AUTHENTICATION, "The upstream refused the proxy's own credentials.")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "words"}}, "words"),
        ({"error": "words"}, "words"),
        ({"message": "words", "object": "error"}, "words"),
        ({"type": "error", "error": {"type": "api_error", "message": "words"}}, "words"),
        ({"detail": "words"}, "words"),
        ({"detail": [{"loc": ["body", "messages", 0], "msg": "field required"}]}, "body.messages.0: field required"),
        ([{"error": {"message": "words"}}], "words"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "slow down"}}}, "Provider returned error: slow down"),
        ({"error_description": "words"}, "words"),
        ({"errors": [{"message": "one"}, "two"]}, "one; two"),
        ({"error": {}}, "The upstream answered HTTP 400."),
        ({"error": {"message": {"deep": 1}}}, '{"deep":1}'),
        (b"plain words\n", "plain words"),
        (b'{"torn', '{"torn'),
        (b'data: {"error": {"message": "words"}}\n\n', "words"),
        (b"", "The upstream answered HTTP 400."),
        (b"<html><head><title>400 Bad\nRequest</title>", "The upstream answered HTTP 400 with an HTML page (400 Bad Request)."),
        (b"\xff\xfe\x00", "\ufffd\ufffd\x00".replace("\x00", "\x00")),
    ],
)
def test_words_are_found_wherever_they_stand(body: object, message: str):
    assert failure(400, body).message == message


def test_words_are_bounded_on_one_line_and_without_keys():
    failed = failure(400, said("a\n\tb " + "x " * 3000))
    assert failed.message.startswith("a b x") and len(failed.message) == MAX_MESSAGE_CHARS and failed.message.endswith("…")
    for key in ("sk-proj-abcdefgh", "sk-ant-api03-x9_-y", "gsk_0123456789ab", "AIzaSyA0123456789", "abcd****wxyz", "hf_a1b2c3d4e5f6"):
        assert key not in failure(401, said(f"Incorrect API key provided: {key}. See the docs.")).message
        assert key not in failure(400, said(f"header 'Authorization: Bearer {key}' is odd")).message
    assert (
        failure(400, said("top_logprobs and api_version_check are fine words")).message
        == "top_logprobs and api_version_check are fine words"
    )


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Prompt contains 40000 tokens: too large for model with 32768 maximum context length",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion.",
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_context_overflow_in_all_wordings(message: str, status: int):
    failed = failure(status, said(message, code="something"))
    assert (failed.kind, failed.code, failed.dropped) == (ErrorKind.CONTEXT_OVERFLOW, None, None)
    assert failed.message == message


def test_a_token_rate_is_no_context_overflow():
    assert failure(429, said("Too many tokens per minute")).kind is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("status", "body", "dropped"),
    [
        (400, said("Unsupported parameter: 'stream_options'", param="stream_options", code="unsupported_parameter"), "stream_options"),
        (400, said("Unrecognized request argument supplied: stream_options"), "stream_options"),
        (400, said("Unrecognized request argument supplied: parallel_tool_calls", type="invalid_request_error"), "parallel_tool_calls"),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}, "stream_options"),
        (400, {"message": "body.stream_options: property 'stream_options' is unsupported"}, "stream_options"),
        (400, {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'reasoning_effort')}] Extra inputs"}, "reasoning_effort"),
        (400, said("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."), "max_tokens"),
        (400, said("Extra inputs are not permitted, field: 'max_completion_tokens', value: 100"), "max_completion_tokens"),
        (400, said("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.", param="temperature"), "temperature"),
        (400, said("'parallel_tool_calls' is only allowed when 'tools' are specified."), "parallel_tool_calls"),
        (400, said("top_k: Extra inputs are not permitted"), "top_k"),
        (400, said("This model does not support the effort parameter."), "output_config"),
        (400, said("output_config.effort: Extra inputs are not permitted"), "output_config"),
        (400, said("`temperature` and `top_p` cannot both be specified for this model. Please use only one."), "temperature"),
        (400, said("`top_p` is deprecated for this model."), "top_p"),
        (400, said("Unknown parameter: 'prediction'.", param="prediction", code="unknown_parameter"), "prediction"),
        (400, said("Invalid parameter: the 'logit_bias' parameter is not supported by this server"), "logit_bias"),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "web_search_options"], "msg": "Extra inputs are not permitted"}]}, "web_search_options"),
        (400, said("System role not supported"), "system_role"),
        (400, said("Unsupported value: 'messages[0].role' does not support 'system' with this model."), "system_role"),
        (400, said("Conversation roles must alternate user/assistant/user/assistant/..."), "alternate_roles"),
        (400, said("System message must be at the beginning."), "system_once"),
        (400, said("Unexpected role 'developer' in messages"), "developer_role"),
        (400, said("Invalid value for 'content': expected a string, got null."), "null_content"),
        (422, {"detail": [{"type": "string_type", "loc": ["body", "messages", 2, "content"], "msg": "content: Input should be a valid string"}]}, "null_content"),
        (400, said("messages[1].content must not be null"), "null_content"),
        (400, said("the content filter found nothing; null results"), None),
        (400, said("max_tokens is too large: 100000. This model supports at most 4096 completion tokens.", param="max_tokens"), None),
        (400, said("temperature: not supported value, must be between 0 and 1"), None),
        (400, said("this model does not support image input"), None),
        (400, said("model 'user' is not supported"), None),
        (400, said("messages: only user and store words here, unsupported"), None),
        (500, said("Unsupported parameter: 'stream_options'"), None),
        (400, said("bad request"), None),
    ],
)  # fmt: skip
def test_what_can_be_left_out_on_a_second_try(status: int, body: object, dropped: str | None):
    assert failure(status, body).dropped == dropped


def test_parameters_codes_and_models_keep_their_names():
    failed = failure(400, said("no", param="tools[0].name", code="odd_code"))
    assert (failed.kind, failed.parameter, failed.code) == (ErrorKind.INVALID_REQUEST, "tools[0].name", "odd_code")
    assert failure(400, said("no", code="unsupported_value", param="n")).kind is ErrorKind.UNSUPPORTED_VALUE
    assert failure(404, said("The model `x` does not exist", code="model_not_found")).kind is ErrorKind.MODEL_NOT_FOUND
    assert failure(404, said('model "llama9" not found, try pulling it first')).kind is ErrorKind.MODEL_NOT_FOUND
    assert failure(400, said("no", code=17)).code is None


def test_retry_after_is_kept_and_made_from_milliseconds():
    assert failure(429, b"", retry_after="17").retry_after == "17"
    assert failure(429, b"", retry_after_ms="1200").retry_after == "2"
    assert failure(429, b"", retry_after="1\r\nx: y").retry_after is None
    assert failure(429, b"").retry_after is None


def test_an_empty_purse_is_no_reason_to_try_again():
    assert not failure(429, said("You exceeded your current quota", code="insufficient_quota")).retryable


@pytest.mark.parametrize(
    "body", [b"[]", b"null", b"[" * 3000, b'{"error": [1, 2]}', b'{"error": null}', b'{"detail": [[], 3, {"loc": 5}]}', b"\x00" * 100]
)
def test_bodies_of_any_shape_are_survived(body: bytes):
    assert failure(400, body).kind is ErrorKind.INVALID_REQUEST

"""Every failure a client can be told of: one table from cause to status and to the words of both error dialects.

In: a `Failed`. Out: the status, headers and body of an error response, or the error object that a stream carries. Promise: the dialect
follows the route (X21), the upstream's own status is kept where it means the same here (E6), every 429 says when to come back (E8),
and a client is told not to repeat what cannot succeed (X17). Rules X19 to X26; the reference is `error.message` in both dialects.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline import json_values
from pipeline.events import Failed
from pipeline.verdicts import Api, ErrorKind

DEFAULT_RETRY_AFTER_S = "5"


class ErrorRow(NamedTuple):
    """One line of the table. `anthropic_status` where it differs from `status`; `code` is OpenAI's."""

    status: int
    type: str
    code: str | None
    anthropic_type: str
    anthropic_status: int | None = None


_BAD = "invalid_request_error"
_SERVER = "server_error"

TABLE: dict[ErrorKind, ErrorRow] = {
    ErrorKind.INVALID_REQUEST: ErrorRow(400, _BAD, None, _BAD),
    ErrorKind.UNSUPPORTED_PARAMETER: ErrorRow(400, _BAD, "unsupported_parameter", _BAD),
    ErrorKind.UNSUPPORTED_VALUE: ErrorRow(400, _BAD, "unsupported_value", _BAD),
    ErrorKind.AUTHENTICATION: ErrorRow(401, _BAD, "invalid_api_key", "authentication_error"),
    ErrorKind.BILLING: ErrorRow(402, "insufficient_quota", "insufficient_quota", "billing_error"),
    ErrorKind.PERMISSION: ErrorRow(403, _BAD, "permission_denied", "permission_error"),
    ErrorKind.NOT_FOUND: ErrorRow(404, _BAD, "not_found", "not_found_error"),
    ErrorKind.MODEL_NOT_FOUND: ErrorRow(404, _BAD, "model_not_found", "not_found_error"),
    ErrorKind.METHOD_NOT_ALLOWED: ErrorRow(405, _BAD, "method_not_allowed", _BAD),
    ErrorKind.TIMEOUT: ErrorRow(408, _BAD, "request_timeout", "timeout_error"),
    ErrorKind.CONFLICT: ErrorRow(409, _BAD, "conflict", "conflict_error"),
    ErrorKind.TOO_LARGE: ErrorRow(413, _BAD, "request_too_large", "request_too_large"),
    # Messages knows no 422.
    ErrorKind.UNPROCESSABLE: ErrorRow(422, _BAD, None, _BAD, 400),
    ErrorKind.CONTEXT_OVERFLOW: ErrorRow(400, _BAD, "context_length_exceeded", _BAD),
    ErrorKind.RATE_LIMIT: ErrorRow(429, "rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_error"),
    # OpenAI clients do not know 529.
    ErrorKind.OVERLOADED: ErrorRow(503, _SERVER, "overloaded", "overloaded_error", 529),
    ErrorKind.TOOL_CHOICE_UNMET: ErrorRow(502, _SERVER, "tool_choice_unmet", "api_error"),
    # X23: a 401 would make a client log in anew, and it was not its key that was refused.
    ErrorKind.UPSTREAM_AUTHENTICATION: ErrorRow(502, _SERVER, "upstream_authentication_failed", "api_error"),
    ErrorKind.UPSTREAM_ERROR: ErrorRow(502, _SERVER, None, "api_error"),
    ErrorKind.UPSTREAM_TIMEOUT: ErrorRow(504, _SERVER, "upstream_timeout", "timeout_error"),
    ErrorKind.UPSTREAM_UNREACHABLE: ErrorRow(502, _SERVER, "upstream_unreachable", "api_error"),
    ErrorKind.UPSTREAM_CUT: ErrorRow(502, _SERVER, "upstream_cut", "api_error"),
    ErrorKind.BROKEN_CALL: ErrorRow(502, _SERVER, "broken_call", "api_error"),
    ErrorKind.SHUTTING_DOWN: ErrorRow(503, _SERVER, "shutting_down", "overloaded_error"),
    ErrorKind.INTERNAL: ErrorRow(500, _SERVER, None, "api_error"),
}

_OF_STATUS: dict[int, ErrorKind] = {
    400: ErrorKind.INVALID_REQUEST,
    401: ErrorKind.AUTHENTICATION,
    402: ErrorKind.BILLING,
    403: ErrorKind.PERMISSION,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.METHOD_NOT_ALLOWED,
    408: ErrorKind.TIMEOUT,
    409: ErrorKind.CONFLICT,
    413: ErrorKind.TOO_LARGE,
    422: ErrorKind.UNPROCESSABLE,
    429: ErrorKind.RATE_LIMIT,
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.UPSTREAM_TIMEOUT,
    529: ErrorKind.OVERLOADED,
}
# Kinds whose meaning is no more than the upstream's status: that status goes on to the client.
_STATUS_SPEAKS = frozenset({ErrorKind.UPSTREAM_ERROR, ErrorKind.INVALID_REQUEST})
# Retrying was our business and is done (X17).
_FINAL = frozenset({ErrorKind.TOOL_CHOICE_UNMET})
_MAY_REPEAT = frozenset({408, 409, 429})

_PROMPT_TOO_LONG = "prompt is too long"
_LIMIT = re.compile(r"(?:context|maximum)[^0-9]{0,60}([0-9][0-9,_]*)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9][0-9,_]*")


def kind_of_status(status: int) -> ErrorKind:
    """The kind that an HTTP status stands for by itself."""
    kind = _OF_STATUS.get(status)
    if kind is not None:
        return kind
    return ErrorKind.INVALID_REQUEST if 400 <= status < 500 else ErrorKind.UPSTREAM_ERROR


def error_response(api: Api, failed: Failed, request_id: str) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """Status, headers (lower-case names) and body, for a failure before any response header left.

    The request id's own headers (X13) stand on every response and are the handler's.
    """
    status, _ = _row(api, failed)
    if api is Api.ANTHROPIC_MESSAGES:
        body = json_values.dumps_bytes({"type": "error", "error": anthropic_error(failed), "request_id": request_id or None})
    else:
        body = json_values.dumps_bytes({"error": openai_error(failed)})
    headers = [("content-type", "application/json")]
    retry_after = failed.retry_after or (DEFAULT_RETRY_AFTER_S if status == 429 else None)
    if retry_after:
        headers.append(("retry-after", retry_after))
    if failed.kind in _FINAL or (400 <= status < 500 and status not in _MAY_REPEAT):
        headers.append(("x-should-retry", "false"))
    return status, tuple(headers), body


def openai_error(failed: Failed) -> dict[str, str | None]:
    """The object under `error` in both OpenAI protocols: all four keys, always (X19)."""
    _, row = _row(Api.OPENAI_CHAT, failed)
    return {
        "message": _message(failed),
        "type": row.type,
        "param": failed.parameter,
        "code": failed.code or row.code,
    }


def anthropic_error(failed: Failed) -> dict[str, str]:
    """The object under `error` in Messages."""
    _, row = _row(Api.ANTHROPIC_MESSAGES, failed)
    message = _message(failed)
    if failed.kind is ErrorKind.CONTEXT_OVERFLOW:
        message = _prompt_too_long(message)
    return {"type": row.anthropic_type, "message": message}


def responses_failure_code(failed: Failed) -> str:
    """`response.error.code`, which is an enum that knows few causes (RN05)."""
    status, _ = _row(Api.OPENAI_RESPONSES, failed)
    if status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if 400 <= status < 500 else "server_error"


def _row(api: Api, failed: Failed) -> tuple[int, ErrorRow]:
    row = TABLE[failed.kind]
    given = failed.status if failed.status is not None and 400 <= failed.status < 600 else None
    if given is not None and failed.kind in _STATUS_SPEAKS:
        row = TABLE[kind_of_status(given)]
        status = given
        if given == 529 and api is not Api.ANTHROPIC_MESSAGES:
            status = row.status
        elif given == 422 and api is Api.ANTHROPIC_MESSAGES:
            status = 400
        return status, row
    if api is not Api.ANTHROPIC_MESSAGES or row.anthropic_status is None:
        return row.status, row
    # An upstream's 503 stays one; 529 is for what was 529 there, or is our own saying.
    return (503 if given == 503 else row.anthropic_status), row


def _message(failed: Failed) -> str:
    return failed.message or failed.kind.value.replace("_", " ")


def _prompt_too_long(message: str) -> str:
    """The one beginning that clients of Messages recognise, and compact the conversation on (X24)."""
    if message.startswith(_PROMPT_TOO_LONG):
        return message
    limit = _LIMIT.search(message)
    if limit is not None:
        allowed = _integer(limit[1])
        found = max(_integer(number) for number in _NUMBER.findall(message))
        if found > allowed:
            return f"{_PROMPT_TOO_LONG}: {found} tokens > {allowed} maximum"
    return f"{_PROMPT_TOO_LONG}: {message}"


def _integer(digits: str) -> int:
    plain = digits.replace(",", "").replace("_", "")
    return int(plain) if len(plain) <= 18 else 0

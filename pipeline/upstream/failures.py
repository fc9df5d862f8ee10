"""What an upstream's error means.

In: a status, headers and body, or an error object found inside an answer (U10). Out: one `Failed`: its kind, the upstream's own words in
bounded length and without keys, `Retry-After`, and the optional request field that can be left out on a second try (U06).
Promise: never raises, whatever the body. An error that concerns the proxy's own key never shows as the client's (X23).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from pipeline import json_values
from pipeline.events import Failed
from pipeline.settings import UpstreamTraits
from pipeline.verdicts import ErrorKind

MAX_MESSAGE_CHARS = 1000
_MAX_READ = 64 << 10

_BY_STATUS = {
    400: ErrorKind.INVALID_REQUEST,
    401: ErrorKind.AUTHENTICATION,
    402: ErrorKind.BILLING,
    403: ErrorKind.PERMISSION,
    404: ErrorKind.NOT_FOUND,
    408: ErrorKind.TIMEOUT,
    409: ErrorKind.CONFLICT,
    413: ErrorKind.TOO_LARGE,
    422: ErrorKind.UNPROCESSABLE,
    429: ErrorKind.RATE_LIMIT,
    500: ErrorKind.UPSTREAM_ERROR,
    502: ErrorKind.UPSTREAM_ERROR,
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.UPSTREAM_TIMEOUT,
    529: ErrorKind.OVERLOADED,
}
_NOT_THE_CLIENTS = frozenset({405, 406, 407, 411, 415, 426})  # how we ask, not what was asked: the proxy's or its operator's fault
# Kinds that have a code of their own in every protocol do not show the upstream's (X24, X25).
_UPSTREAMS_CODE = frozenset(ErrorKind) - {ErrorKind.CONTEXT_OVERFLOW, ErrorKind.UNSUPPORTED_PARAMETER, ErrorKind.UNSUPPORTED_VALUE}
_RETRYABLE = frozenset({408, 409, 425, 429})
_NOT_RETRYABLE = frozenset({501, 505})

# `type`, `code` or `status` of an error object that comes inside an answer, to the HTTP status it stands for: OpenAI, Anthropic, vLLM, gRPC names.
_STATUS_OF_NAME = {
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "notfounderror": 404,
    "not_found": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limited": 429,
    "resource_exhausted": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internalservererror": 500,
    "internal": 500,
    "unavailable": 503,
    "unavailable_error": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 529,
    "overloaded": 529,
}

# OpenAI, vLLM, llama.cpp, Anthropic, Mistral, Bedrock, Gemini and TGI wordings of one fact (X24).
_CONTEXT_OVERFLOW = re.compile(
    r"maximum context length|context[_ ]length|context[_ ]window|context[_ ]size|max_model_len|maximum model length"
    r"|prompt (?:is )?too long|input (?:is )?too long|too many (?:input )?tokens|reduce the length of"
    r"|token count .{0,60}exceeds|input length .{0,60}exceeds?|exceeds? the (?:maximum )?(?:number of )?(?:input )?tokens?"
    r"|inputs` tokens \+ `max_new_tokens"
)
_MODEL_MISSING = re.compile(
    r"model.{0,120}(?:not found|not exist|unknown|not available|no such)|(?:no such|unknown|invalid) model|model_not_found"
)

OPTIONAL = frozenset(
    {
        "stream_options",
        "parallel_tool_calls",
        "reasoning_effort",
        "max_completion_tokens",
        "max_tokens",
        "logit_bias",
        "top_logprobs",
        "logprobs",
        "frequency_penalty",
        "presence_penalty",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "service_tier",
        "verbosity",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "metadata",
        "store",
        "user",
        "stop",
        "stop_sequences",
        "n",
        "prediction",
        "web_search_options",
        "moderation",
        "modalities",
        "output_config",
    }
)
"""Fields a request can do without."""
_ALIASES = {"effort": "output_config"}  # a part of it, which Anthropic's refusals name alone
_FIELD = re.compile(r"[a-z_]+")
_REFUSED_NAMES = frozenset({"unsupported_parameter", "unknown_parameter", "unsupported_value", "extra_forbidden"})
_REFUSED = re.compile(
    r"unsupported|unrecogni[sz]ed|not supported|n't supported|does not support|doesn't support|extra[_ ](?:inputs?|fields?|forbidden)"
    r"|not permitted|additional propert|only allowed when|unknown (?:field|parameter|argument|name|key|request)"
    r"|unexpected (?:field|parameter|argument|name|key|property)|no longer supported|not a valid (?:field|parameter)"
    r"|cannot both be specified|deprecated for this model"
)
_OUT_OF_RANGE = re.compile(
    r"too (?:large|small|high|low|many)|at (?:most|least)|less than|greater than|exceed|must be|between|out of range"
)
_NAMED = re.compile(r"(?:parameter|argument|field|property|key|supplied|input)s?:? [\"'`]?([a-z_.]+)")
_NAMED_BEFORE = re.compile(r"\bthe [\"'`]?([a-z_.]+)[\"'`]? (?:parameter|argument|field)\b")
_QUOTED = re.compile(r"[\"'`]([a-z_.\[\]0-9]+)[\"'`]")

# Shapes of messages that chat templates and strict servers refuse (U12), to the trait that the next try bends them by.
_SHAPES = (
    (re.compile(r"role'? does not support '?system|system (?:role|messages?|prompt)s? (?:is |are )?not supported|only (?:support )?user and assistant roles"), "system_role"),
    (re.compile(r"system message must be (?:at the beginning|the first|first)|only one system message|system role must be first"), "system_once"),
    (re.compile(r"roles? must alternate|alternate user/assistant|after the optional system message, conversation roles"), "alternate_roles"),
    (re.compile(r"(?:unexpected|unknown|invalid|unsupported) (?:message )?role:? .{0,10}developer|role'? does not support '?developer|developer.{0,40}(?:not supported|is not one of)"), "developer_role"),
    (re.compile(r"content.{0,40}(?:must not be|cannot be|can't be|may not be|got|but got|is) (?:null|none)\b|content: input should be a valid string|null (?:is not allowed|not allowed|value).{0,20}content"), "null_content"),
)  # fmt: skip

_KEYS = re.compile(
    r"(?i)\bsk-[A-Za-z0-9_\-*.…]{4,}"
    r"|\b(?:pk|rk|gsk|xai|hf|nvapi|key|tok|fw|dsk|tgp|pplx|api)[-_](?=[a-z_\-]{0,64}[0-9*])[A-Za-z0-9_\-*.…]{10,}"
    r"|\bAIza[A-Za-z0-9_\-]{10,}"
    r"|\beyJ[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]+)*"
    r"|(?<=bearer )[A-Za-z0-9._~+/\-*]{8,}=*"
    r"|(?<=api key: )\S{4,}|(?<=api key provided: )\S{4,}|(?<=token: )\S{8,}"
    r"|\b[A-Za-z0-9]{4,}\*{3,}[A-Za-z0-9]*"
)
_EVENT_LINE = re.compile(r"\A\s*(?:event: ?\w+\s+)?data:")
_TITLE = re.compile(r"(?is)<title[^>]{0,80}>([^<]{1,120})</title")
_CODE = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


class Said(msgspec.Struct, frozen=True):
    """What an error object says: its words and its names, as far as it has them."""

    message: str = ""
    names: tuple[str, ...] = ()
    code: str | None = None
    parameter: str | None = None
    status: int | None = None
    fields: tuple[str, ...] = ()


def from_status(traits: UpstreamTraits, status: int, headers: Mapping[str, str], body: bytes) -> Failed:
    """The failure behind an answer with this status. `headers` have lower-case names."""
    said = _said_in_body(status, headers, body)
    return _failed(traits, status, said, _retry_after(headers))


def in_answer(traits: UpstreamTraits, value: object) -> Failed:
    """The failure behind an error found inside an answer that began as a success."""
    said = _said(value)
    return _failed(traits, said.status, said, None)


def _failed(traits: UpstreamTraits, status: int | None, said: Said, retry_after: str | None) -> Failed:
    words = said.message.lower()[:4000]
    kind = _kind(status, said, words)
    if traits.own_key and kind in (ErrorKind.AUTHENTICATION, ErrorKind.PERMISSION):
        return Failed(ErrorKind.UPSTREAM_AUTHENTICATION, "The upstream refused the proxy's own credentials.")
    dropped = _dropped(said, words) if status in (400, 422) and kind is not ErrorKind.CONTEXT_OVERFLOW else None
    if dropped is not None and kind is ErrorKind.INVALID_REQUEST and dropped in OPTIONAL:
        kind = ErrorKind.UNSUPPORTED_PARAMETER
    quota = "insufficient_quota" in said.names
    return Failed(
        kind,
        _shown(said.message) or _default_message(status),
        status=status if status is not None and 400 <= status < 600 and status not in _NOT_THE_CLIENTS else None,
        parameter=said.parameter,
        code=said.code if kind in _UPSTREAMS_CODE else None,
        retry_after=retry_after,
        retryable=not quota and (status is None or status in _RETRYABLE or (status >= 500 and status not in _NOT_RETRYABLE)),
        dropped=dropped,
    )


def _kind(status: int | None, said: Said, words: str) -> ErrorKind:
    if status in (None, 400, 413, 422, 500) and (
        _CONTEXT_OVERFLOW.search(words) or "context_length_exceeded" in said.names or "exceed_context_size_error" in said.names
    ):
        return ErrorKind.CONTEXT_OVERFLOW
    if status in (400, 422):
        if "unsupported_parameter" in said.names or "unknown_parameter" in said.names:
            return ErrorKind.UNSUPPORTED_PARAMETER
        if "unsupported_value" in said.names:
            return ErrorKind.UNSUPPORTED_VALUE
    if status in (400, 404) and ("model_not_found" in said.names or (status == 404 and _MODEL_MISSING.search(words))):
        return ErrorKind.MODEL_NOT_FOUND
    if status is None or status in _NOT_THE_CLIENTS or not 400 <= status < 600:
        return ErrorKind.UPSTREAM_ERROR
    return _BY_STATUS.get(status, ErrorKind.INVALID_REQUEST if status < 500 else ErrorKind.UPSTREAM_ERROR)


def _dropped(said: Said, words: str) -> str | None:
    """The optional field, or the bent shape, that this refusal is about."""
    for pattern, trait in _SHAPES:
        if pattern.search(words):
            return trait
    if not _REFUSED.search(words) and _REFUSED_NAMES.isdisjoint(said.names):
        return None
    if _OUT_OF_RANGE.search(words) and "instead" not in words:
        return None  # a value is refused, not the field
    structured = [said.parameter or "", *said.fields]
    named = (_root(name) for name in (*structured, *_NAMED.findall(words), *_NAMED_BEFORE.findall(words)))
    quoted = (_root(name) for name in _QUOTED.findall(words))
    plain = (name for name in _FIELD.findall(words) if "_" in name)
    unmistakable = (name for name in (*quoted, *plain) if "_" in name or name in ("temperature", "verbosity"))
    return next((name for name in (*named, *unmistakable) if name in OPTIONAL), None)


def _root(name: str) -> str:
    """The top-level request field that a path such as `body.stream_options.include_usage` is about."""
    root = name.removeprefix("body.").split(".", 1)[0].split("[", 1)[0]
    return _ALIASES.get(root, root)


def _said_in_body(status: int, headers: Mapping[str, str], body: bytes) -> Said:
    text = _EVENT_LINE.sub("", body[:_MAX_READ].decode("utf-8", "replace")).strip()
    if text[:1] in ("{", "["):
        try:
            return _said(json_values.loads(text))
        except json_values.NotJsonError:
            return Said(message=text)
    if text[:1] == "<" or "text/html" in headers.get("content-type", ""):
        title = _TITLE.search(text)
        page = f" ({title[1].strip()})" if title else ""
        return Said(message=f"The upstream answered HTTP {status} with an HTML page{page}.")
    return Said(message=text)


def _said(value: object) -> Said:
    if isinstance(value, list):
        value = next((one for one in value if isinstance(one, dict)), None)
    if isinstance(value, str):
        return Said(message=value)
    if not isinstance(value, dict):
        return Said()
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    message = error if isinstance(error, str) else _words(inner) or _words(value)
    raw = inner.get("metadata")
    if isinstance(raw, dict) and isinstance(raw.get("raw"), str):
        message = f"{message}: {raw['raw']}"  # a relay's own words hide those of the provider behind it
    fields, about = _detail(value.get("detail"))
    names = tuple(one.lower() for one in (inner.get("type"), inner.get("code"), inner.get("status"), *about) if isinstance(one, str))
    parameter = inner.get("param")
    code = inner.get("code")
    return Said(
        message=message,
        names=names,
        code=code if isinstance(code, str) and _CODE.fullmatch(code) else None,
        parameter=parameter if isinstance(parameter, str) and len(parameter) <= 200 else None,
        status=_status_of(inner, names),
        fields=fields,
    )


def _words(value: Mapping[str, object]) -> str:
    for key in ("message", "msg", "detail", "error_description", "errors", "reason", "title"):
        found = value.get(key)
        if isinstance(found, str) and found.strip():
            return found
        if isinstance(found, list) and found:
            return "; ".join(_one_detail(one) for one in found[:5])
        if isinstance(found, dict):
            return json_values.dumps(found)
    return ""


def _one_detail(value: object) -> str:
    """One entry of a validator's list: where, and what."""
    if not isinstance(value, dict):
        return str(value)
    place = value.get("loc")
    at = ".".join(str(one) for one in place) if isinstance(place, list) else ""
    said = value.get("msg") or value.get("message") or ""
    return f"{at}: {said}" if at else str(said)


def _detail(value: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields and the kinds of fault that a validator's list names."""
    fields: list[str] = []
    kinds: list[str] = []
    for one in value[:20] if isinstance(value, list) else ():
        if isinstance(one, dict):
            place = one.get("loc")
            if isinstance(place, list) and len(place) > 1 and isinstance(place[1], str):
                fields.append(place[1])
            if isinstance(one.get("type"), str):
                kinds.append(one["type"])
    return tuple(fields), tuple(kinds)


def _status_of(error: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for key in ("code", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return next((_STATUS_OF_NAME[name] for name in names if name in _STATUS_OF_NAME), None)


def _retry_after(headers: Mapping[str, str]) -> str | None:
    value = headers.get("retry-after", "").strip()
    if value:
        return value[:64] if value.isascii() and value.isprintable() else None
    milliseconds = headers.get("retry-after-ms", "").strip()
    if milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 10:
        return str(-(-int(milliseconds) // 1000))
    return None


def _shown(message: str) -> str:
    """The words as a client may see them: one line, bounded, keys blanked."""
    words = " ".join(_KEYS.sub("***", json_values.well_formed(message[: 4 * MAX_MESSAGE_CHARS])).split())
    return words if len(words) <= MAX_MESSAGE_CHARS else words[: MAX_MESSAGE_CHARS - 1] + "…"


def _default_message(status: int | None) -> str:
    if status is None:
        return "The upstream reported an error."
    if 300 <= status < 400:
        return f"The upstream answered HTTP {status}, a redirect, which is not followed."
    return f"The upstream answered HTTP {status}."

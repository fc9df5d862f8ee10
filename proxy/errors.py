"""Failures outside the engine as the client's protocol words them; no default body of aiohttp ever reaches a client (X21).

In: a path and a Failed. Out: a whole response. The dialect follows the path; only paths that both vendors have, or none, follow the version
header that one of them demands (X16, X21).
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from multidict import CIMultiDict

from pipeline.events import Failed
from pipeline.protocols.errors import error_response
from pipeline.verdicts import Api, ErrorKind
from proxy.headers import id_headers

SERVER_NAME = "toolgraft"
_OWNERS = {
    "chat": Api.OPENAI_CHAT,
    "completions": Api.OPENAI_CHAT,
    "responses": Api.OPENAI_RESPONSES,
    "messages": Api.ANTHROPIC_MESSAGES,
    "complete": Api.ANTHROPIC_MESSAGES,
}
_SHARED = frozenset({"models"})  # behind it stands a name, which may be any


def api_of_path(path: str, headers: Mapping[str, str]) -> Api:
    """The protocol of a path, also of one that does not exist. Headers count by their names in lower case."""
    for step in path.split("/"):
        if step in _OWNERS:
            return _OWNERS[step]
        if step in _SHARED:
            break
    return Api.ANTHROPIC_MESSAGES if "anthropic-version" in headers else Api.OPENAI_CHAT


def json_response(status: int, body: bytes, rid: str, headers: tuple[tuple[str, str], ...] = ()) -> web.Response:
    """A whole response with the headers that every one of ours carries."""
    fields = CIMultiDict((("content-type", "application/json"), *id_headers(rid), ("server", SERVER_NAME)))
    fields.update(headers)
    return web.Response(status=status, body=body, headers=fields)


def refusal(api: Api, failed: Failed, rid: str, headers: tuple[tuple[str, str], ...] = ()) -> web.Response:
    """An error response."""
    status, own, body = error_response(api, failed, rid)
    return json_response(status, body, rid, (*own, *headers))


NOT_FOUND = Failed(ErrorKind.NOT_FOUND, "There is nothing at this path.")
NOT_ALLOWED = Failed(ErrorKind.METHOD_NOT_ALLOWED, "This method is not allowed here.")
INTERNAL = Failed(ErrorKind.INTERNAL, "internal error")
NOT_HTTP = Failed(ErrorKind.INVALID_REQUEST, "This is not a valid HTTP request.")

"""Paths to endpoints, and the frame around every request: base path, request id, client key, errors in the dialect of the path.

In: aiohttp requests on the public port. Out: responses. Promise: no answer of aiohttp's own, no operator's endpoint here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from pipeline.events import Failed
from pipeline.stage import StageError
from pipeline.verdicts import Api, ErrorKind
from proxy.errors import INTERNAL, NOT_ALLOWED, NOT_FOUND, api_of_path, refusal
from proxy.headers import request_id, trace
from proxy.small_endpoints import SmallEndpoints
from proxy.telemetry.catalogue import OTHER
from proxy.turn_endpoint import Shared, TurnEndpoint

Small = Callable[[web.BaseRequest, str], Awaitable[web.Response]]

_TURNS = {"/chat/completions": Api.OPENAI_CHAT, "/messages": Api.ANTHROPIC_MESSAGES, "/responses": Api.OPENAI_RESPONSES}
_COUNTS = {"/messages/count_tokens": Api.ANTHROPIC_MESSAGES, "/responses/input_tokens": Api.OPENAI_RESPONSES}


class App:
    """The public side of a process."""

    def __init__(self, shared: Shared, base_path: str) -> None:
        """Lay the paths out once: each with and without `/v1`."""
        self._shared = shared
        self._base = base_path
        self.turns = TurnEndpoint(shared)
        self._small = SmallEndpoints(shared.limits, shared.intake, shared.routes, shared.transport, shared.admission)
        self._turn_paths = _with_and_without_version(_TURNS)
        self._count_paths = _with_and_without_version(_COUNTS)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        path = self._below_base(request.path)
        api = self._turn_paths.get(path)
        if api is not None and request.method == "POST":
            return await self.turns.serve(request, api)
        return await self._answer(request, path)

    def _below_base(self, path: str) -> str:
        """The path without the base path and a trailing slash; empty for a path that is not below it."""
        if self._base:
            if path != self._base and not path.startswith(self._base + "/"):
                return ""
            path = path[len(self._base) :]
        return path.rstrip("/") or "/"

    async def _answer(self, request: web.BaseRequest, path: str) -> web.Response:
        rid = request_id(request.headers.get("X-Request-ID"))
        api = api_of_path(path, request.headers)
        try:
            response = await self._small_answer(request, path, api, rid)
        except StageError as exc:
            response = self._refused(api, exc.failed, rid)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as exc:  # noqa: BLE001 - a client never gets aiohttp's own 500
            self._fault(request, rid)("app", exc)
            response = refusal(api, INTERNAL, rid)
        if self._shared.closing():
            response.force_close()
        self._shared.telemetry.answered(api if path in self._count_paths else OTHER, response.status)
        return response

    async def _small_answer(self, request: web.BaseRequest, path: str, api: Api, rid: str) -> web.Response:
        if path == "/":
            return self._small.root(rid) if request.method in ("GET", "HEAD") else _not_allowed(api, rid, "GET, HEAD")
        if path in self._turn_paths:
            return _not_allowed(api, rid, "POST")
        counted = self._count_paths.get(path)
        if counted is not None:
            self._shared.intake.key(request)
            return (
                await self._small.count_tokens(request, counted, rid, self._fault(request, rid))
                if request.method == "POST"
                else _not_allowed(api, rid, "POST")
            )
        prefix, _, name = path.removeprefix("/v1").partition("/models")
        if not prefix and path.removeprefix("/v1").startswith("/models") and (not name or name.startswith("/")):
            if request.method not in ("GET", "HEAD"):
                return _not_allowed(api, rid, "GET, HEAD")
            self._shared.intake.key(request)
            return await self._small.model(name[1:], api, rid) if name else await self._small.models(request, api, rid)
        return refusal(api, NOT_FOUND, rid)

    def _fault(self, request: web.BaseRequest, rid: str) -> Callable[[str, BaseException], None]:
        """Who logs a fault while this request is answered, with its ids."""
        return partial(self._shared.telemetry.unexpected, rid=rid, trace_id=trace(request.headers.get("traceparent")).trace_id)

    def _refused(self, api: Api, failed: Failed, rid: str) -> web.Response:
        if failed.kind is ErrorKind.AUTHENTICATION:
            self._shared.telemetry.metrics["auth_failures"].inc()
        return refusal(api, failed, rid)


def _with_and_without_version(paths: dict[str, Api]) -> dict[str, Api]:
    return paths | {f"/v1{path}": api for path, api in paths.items()}


def _not_allowed(api: Api, rid: str, methods: str) -> web.Response:
    return refusal(api, NOT_ALLOWED, rid, (("allow", methods),))

"""A request on its way to a turn: key, body, JSON, limits, route.

In: an aiohttp request. Out: a Turn for the engine and the plan of its route, or a StageError with the client's 4xx. Promise: nothing of the request
is copied into an error but names of fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from pipeline.events import Failed
from pipeline.protocols.json_body import BodyLimits, parse_body
from pipeline.stage import StageError
from pipeline.turn import Turn
from pipeline.verdicts import Api, ErrorKind
from proxy.auth import Gate, presented_key
from proxy.config.tree import Limits
from proxy.headers import protocol_headers
from proxy.routing import Plan

_KEY_NEEDED = Failed(ErrorKind.AUTHENTICATION, "A valid API key is needed.")
_COUNTED = {"messages": "max_messages", "input": "max_messages", "tools": "max_tools", "functions": "max_tools"}


class Finder(Protocol):
    """Routes, as far as a request is concerned."""

    @property
    def plans(self) -> Sequence[Plan]:
        """All of them, in order."""

    def find(self, model: str) -> Plan | None:
        """The first that takes this model."""


class Intake:
    """What a request must pass before it is work."""

    def __init__(self, limits: Limits, gate: Gate, routes: Finder) -> None:
        """Take the limits, the client keys and the routes."""
        self._limits = limits
        self._body_limits = BodyLimits(limits.max_body_bytes, limits.max_depth)
        self._gate = gate
        self._routes = routes

    @property
    def keys_are_the_clients(self) -> bool:
        """Whether a key that comes is the client's own, meant for an upstream: so where this proxy has no client keys (U-K)."""
        return self._gate.open

    def key(self, request: web.BaseRequest) -> str | None:
        """The key the client sent. Raises StageError (AUTHENTICATION) where it is none of ours and one is needed."""
        key = presented_key(request.headers)
        if not self._gate.admits(key):
            raise StageError(_KEY_NEEDED)
        return key

    def turn(self, api: Api, raw: bytes, headers: Mapping[str, str], rid: str, *, count_only: bool = False) -> tuple[Turn, Plan]:
        """The turn and its route. Raises StageError.

        A request for a token count needs no `max_tokens`, and no route: clients take a 404 there for a missing endpoint, and stop asking (AR15).
        """
        body = parse_body(raw, self._body_limits)
        for field, limit in _COUNTED.items():
            items = body.get(field)
            if isinstance(items, list) and len(items) > getattr(self._limits, limit):
                raise StageError(
                    Failed(ErrorKind.INVALID_REQUEST, f"`{field}` has more than {getattr(self._limits, limit)} items.", parameter=field)
                )
        model = body.get("model")
        plan = self._plan(model, needed=not count_only)
        turn = Turn(
            api=api,
            raw=raw,
            body=body,
            headers=protocol_headers(headers),
            request_id=rid,
            count_only=count_only,
            echo={"created": int(time.time())},
            upstream_model=plan.upstream_model(model) if isinstance(model, str) else "",
        )
        return turn, plan

    def _plan(self, model: object, *, needed: bool) -> Plan:
        if not isinstance(model, str) or not model:
            return self._routes.plans[0]  # normalize tells the client what is wrong with it
        plan = self._routes.find(model)
        if plan is None:
            if not needed:
                return self._routes.plans[0]
            raise StageError(Failed(ErrorKind.MODEL_NOT_FOUND, "No route serves this model.", parameter="model"))
        return plan


def prepared(turn: Turn, plan: Plan, failed: Callable[[str, BaseException], None]) -> Turn:
    """The turn as the chain's request side leaves it, for answers that need no upstream. Raises StageError; `failed` hears of a stage's other faults."""
    for stage in (*plan.chain.once, *plan.chain.each):
        try:
            turn = stage.prepare(turn, _ignore)
        except StageError:
            raise
        except Exception as exc:  # noqa: BLE001 - an estimate may do without this stage
            failed(stage.name, exc)
    return turn


def _ignore(*_: object, **__: object) -> None:
    return None

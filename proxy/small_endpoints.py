"""Answers that need no turn: the model list, a token count, the root (E10, U-M, AR15).

In: an aiohttp request. Out: a response, or a StageError for the client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from aiohttp import web

from pipeline import json_values
from pipeline.events import Failed
from pipeline.protocols.count_tokens import count
from pipeline.protocols.models import model_body, models_body, token_count_body
from pipeline.stage import StageError
from pipeline.verdicts import Api, ErrorKind
from proxy.admission import Admission
from proxy.body import read_body
from proxy.config.tree import Limits
from proxy.errors import json_response
from proxy.intake import Intake, prepared
from proxy.routing import Plan, Routes
from proxy.transport import Transport


class SmallEndpoints:
    """Serves what is no turn. Every answer carries the request id."""

    def __init__(self, limits: Limits, intake: Intake, routes: Routes, transport: Transport, admission: Admission) -> None:
        """Take what they share with turns."""
        self._limits = limits
        self._intake = intake
        self._routes = routes
        self._transport = transport
        self._admission = admission
        self._started = int(time.time())

    async def count_tokens(
        self, request: web.BaseRequest, api: Api, rid: str, failed: Callable[[str, BaseException], None]
    ) -> web.Response:
        """An estimate of the input tokens of a request, the contract included. `failed` hears of stages that raised: it goes on without them."""
        with self._admission.ticket() as ticket:
            raw = await read_body(request, self._limits, ticket.take)
            turn, plan = self._intake.turn(api, raw, request.headers, rid, count_only=True)
            return json_response(200, token_count_body(api, count(prepared(turn, plan, failed))), rid)

    async def models(self, request: web.BaseRequest, api: Api, rid: str) -> web.Response:
        """Every model with a route of its own name; where a route takes names by pattern, those it leads to of its upstreams' models (U-M)."""
        return json_response(200, models_body(api, await self._names(request), self._started), rid)

    async def model(self, name: str, api: Api, rid: str) -> web.Response:
        """One model. Raises StageError where no route would take it."""
        if self._routes.find(name) is None:
            raise StageError(Failed(ErrorKind.MODEL_NOT_FOUND, "No route serves this model.", parameter="model"))
        return json_response(200, model_body(api, name, self._started), rid)

    def root(self, rid: str) -> web.Response:
        """Something to see; `HEAD /` is how some clients look whether anybody is there."""
        return json_response(
            200, json_values.dumps_bytes({"service": "toolgraft", "paths": ["/v1/chat/completions", "/v1/messages", "/v1/responses"]}), rid
        )

    async def _names(self, request: web.BaseRequest) -> list[str]:
        """Names that a client may ask for, in the order of the routes; of two routes for one name the first has it."""
        key = self._intake.key(request) if self._intake.keys_are_the_clients else None
        plans = self._routes.plans
        listed = await asyncio.gather(*(self._listed(plan, key) for plan in plans))
        return [name for plan, names in zip(plans, listed, strict=True) for name in names if self._routes.find(name) is plan]

    async def _listed(self, plan: Plan, key: str | None) -> list[str]:
        """The names of one route. The client's own key is meant for its first upstream alone (U-K)."""
        if plan.literal is not None:
            return [plan.literal]
        asked = (self._transport.models(target.name, client_key=None if at else key) for at, target in enumerate(plan.targets))
        found = [plan.client_model(model) for models in await asyncio.gather(*asked) for model in models]
        return [name for name in found if name is not None]

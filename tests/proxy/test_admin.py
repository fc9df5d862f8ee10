"""The operator's listener: formats, readiness, and nothing else."""

from __future__ import annotations

from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from proxy.admin import AdminApp
from proxy.http_server import HttpServer
from proxy.telemetry.catalogue import Names
from proxy.telemetry.metrics import Metrics


@asynccontextmanager
async def admin(not_ready=None):
    app = AdminApp(Metrics(Names()), lambda: not_ready)
    runner = web.ServerRunner(HttpServer(app.handle, lambda *_: None, keepalive_s=5.0))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        yield session
    await runner.cleanup()


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain"),
        ("text/plain;version=0.0.4", "text/plain"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text"),
    ],
)
async def test_metrics_come_in_the_format_asked_for(accept, content_type):
    async with admin() as session, session.get("/metrics", headers={"accept": accept}) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith(content_type)
        assert b"toolgraft_turns_total" in await answer.read()


@pytest.mark.parametrize(("why", "status"), [(None, 200), ("draining", 503)])
async def test_readiness_says_why_not_and_liveness_does_not_care(why, status):
    async with admin(why) as session:
        async with session.get("/readyz") as answer:
            assert (answer.status, (await answer.text()).strip()) == (status, why or "ready")
        async with session.get("/healthz") as answer:
            assert answer.status == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("GET", "/v1/models", 404), ("POST", "/metrics", 405)])
async def test_nothing_else_is_there(method, path, status):
    async with admin() as session, session.request(method, path) as answer:
        assert answer.status == status

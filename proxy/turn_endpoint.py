"""One turn from the first header to the canonical line: take the request in, drive the engine, close the books.

In: an aiohttp request on a path that generates. Out: a response. Promise: whatever happens, the client gets the protocol's answer or error while
it is there to hear it, exactly one `turn` line is written, and the turn's place is free again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic

import msgspec
from aiohttp import web

from pipeline.commands import Send, TurnRecord
from pipeline.events import Failed
from pipeline.exchange import Exchange
from pipeline.stage import StageError
from pipeline.verdicts import Api, ErrorKind, Verdict
from proxy.admission import Admission, Ticket
from proxy.body import read_body
from proxy.client import Client
from proxy.config.tree import Limits
from proxy.errors import INTERNAL, refusal
from proxy.handler import TurnDriver, UpstreamAnswer
from proxy.headers import id_headers, request_id, trace
from proxy.intake import Intake
from proxy.routing import Plan, Routes
from proxy.telemetry.capture import ABORTED, CaptureFolder, TurnCapture
from proxy.telemetry.telemetry import Telemetry
from proxy.telemetry.turn_line import turn_fields
from proxy.transport import Transport, TransportError


class Shared(msgspec.Struct, frozen=True):
    """What all turns of a process share. `closing` says whether connections should end with their answer."""

    limits: Limits
    intake: Intake
    routes: Routes
    transport: Transport
    telemetry: Telemetry
    admission: Admission
    closing: Callable[[], bool]
    capture: CaptureFolder | None = None


class TurnEndpoint:
    """Serves turns, and knows those that run."""

    def __init__(self, shared: Shared) -> None:
        """Begin with none."""
        self._shared = shared
        self._running: set[_Serving] = set()
        self._begun = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def serve(self, request: web.BaseRequest, api: Api) -> web.StreamResponse:
        """Serve one turn. Raises CancelledError, or ConnectionError, when the client left."""
        serving = _Serving(self._shared, request, api)
        self._running.add(serving)
        self._begun += 1
        self._idle.clear()
        try:
            return await serving.run()
        finally:
            self._running.discard(serving)
            if not self._running:
                self._idle.set()

    async def settle(self, within_s: float, quiet_s: float = 0.0) -> bool:
        """Wait for running turns to end, and for `quiet_s` in which none begins. Returns whether none runs."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    await self._idle.wait()
                    begun = self._begun
                    if quiet_s:
                        await asyncio.sleep(quiet_s)
                    if self._begun == begun:
                        return True
        except TimeoutError:
            return not self._running

    async def dismiss(self) -> None:
        """Close every running turn with the protocol's error."""
        await asyncio.gather(*(serving.dismiss() for serving in self._running), return_exceptions=True)


class _Serving:
    """One turn being served."""

    def __init__(self, shared: Shared, request: web.BaseRequest, api: Api) -> None:
        self._shared = shared
        self._request = request
        self._api = api
        self._rid = request_id(request.headers.get("X-Request-ID"))
        self._trace = trace(request.headers.get("traceparent"))
        self._ledger = shared.telemetry.turn(api, self._rid, self._trace.trace_id)
        self._record = TurnRecord(api=api, started=monotonic())
        self._client = Client(request, id_headers(self._rid), shared.limits.write_stall_s, shared.closing)
        self._key: str | None = None
        self._plan: Plan | None = None
        self._capture = shared.capture.begin(self._rid) if shared.capture is not None else None
        self._reading: asyncio.Timeout | None = None
        self.driver: TurnDriver | None = None

    async def dismiss(self) -> None:
        """End with the protocol's error, whatever is being waited for. Who waits for a place is told by the admission."""
        if self.driver is not None:
            await self.driver.drain()
        elif self._reading is not None:
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> web.StreamResponse:
        try:
            return await self._answer()
        except (asyncio.CancelledError, ConnectionError):
            self._client.gone = not self._client.finished
            raise
        finally:
            self._close_books()
            if self._capture is not None and self._plan is not None:  # what was never read is no turn to replay, and drives real ones out
                self._write_capture(self._capture)
            self.driver = None  # it holds this object: what a turn has read is freed with the turn, not by the collector

    async def _answer(self) -> web.StreamResponse:
        try:
            self._key = self._admitted_key()
            with self._shared.admission.ticket() as ticket:
                raw = await self._body(ticket)
                self._ledger.measured.in_bytes = len(raw)
                await ticket.take()
                return await self._drive(raw)
        except StageError as exc:
            return self._refuse(exc.failed)
        except ConnectionError:
            raise
        except Exception as exc:
            self._ledger.unexpected("turn", exc)
            if self._client.opened:
                await self._client.end(clean=False)
                raise ConnectionError("an answer that broke off") from exc
            return self._refuse(INTERNAL)

    async def _body(self, ticket: Ticket) -> bytes:
        try:
            async with asyncio.timeout(None) as self._reading:
                return await read_body(self._request, self._shared.limits, ticket.take)
        except TimeoutError:
            retry_after = str(self._shared.limits.retry_after_s)
            raise StageError(
                Failed(ErrorKind.SHUTTING_DOWN, "the server is shutting down", retry_after=retry_after, retryable=True)
            ) from None
        finally:
            self._reading = None

    def _admitted_key(self) -> str | None:
        try:
            key = self._shared.intake.key(self._request)
        except StageError:
            self._shared.telemetry.metrics["auth_failures"].inc()
            raise
        if key is not None:
            self._ledger.measured.key = self._shared.telemetry.fingerprint(key)
        return key

    async def _drive(self, raw: bytes) -> web.StreamResponse:
        shared, begun = self._shared, monotonic()
        turn, plan = shared.intake.turn(self._api, raw, self._request.headers, self._rid)
        self._plan = plan
        self._ledger.measured.model = plan.label
        if self._capture is not None:
            self._capture.request(self._api, plan.label, turn.headers, raw)
            self._client.tee = self._capture.emitted
        exchange = Exchange(plan.chain, turn, plan.targets, self._ledger.bind, shared.routes.refused, self._record.started)
        self._record = exchange.record
        driver = self.driver = TurnDriver(exchange, self._client, self._send, self._ledger, shared.routes.learn)
        driver.busy_s = monotonic() - begun
        return await driver.run() or self._refuse(INTERNAL)

    async def _send(self, send: Send) -> UpstreamAnswer:
        """U-K: the client's own key is meant for the first upstream of its route, and for no other it fails over to."""
        plan = self._plan
        own = self._key if plan is not None and send.target == plan.targets[0].name and self._shared.intake.keys_are_the_clients else None
        try:
            answer = await self._shared.transport.send(
                send.target, send.request, client_key=own, headers={"traceparent": self._trace.child(), "x-request-id": self._rid}
            )
        except BaseException as exc:
            if self._capture is not None:
                self._capture.lost(send, exc.outcome if isinstance(exc, TransportError) else ABORTED)
            raise
        return answer if self._capture is None else self._capture.attempt(send, answer)

    def _refuse(self, failed: Failed) -> web.StreamResponse:
        response = refusal(self._api, failed, self._rid)
        if self._shared.closing():
            response.force_close()
        record = self._record
        record.verdict = record.verdict or Verdict.REJECTED
        record.error = record.error or failed.kind
        record.status = response.status
        record.first_client_byte = record.first_client_byte or monotonic()
        return response

    def _close_books(self) -> None:
        record, measured = self._record, self._ledger.measured
        if self._client.gone:
            record.client_gone = True
            record.verdict = record.verdict or Verdict.CLIENT_GONE
        measured.ended = monotonic()
        measured.out_bytes = self._client.sent
        if self.driver is not None:
            measured.overhead_s = self.driver.busy_s
        self._ledger.conclude(record)

    def _write_capture(self, capture: TurnCapture) -> None:
        """In a task of its own: the client does not wait for a disk."""
        folder = self._shared.capture
        assert folder is not None  # noqa: S101 - it made this capture
        folder.write_later(capture, turn_fields(self._record, self._ledger.measured), partial(self._ledger.beside, "capture_failed"))

"""The engine of one turn: happenings in, commands out. Sans-IO.

    start            once-stages prepare the turn, each-stages the attempt; Send
    Opened/Received  the attempt's reader and receivers make events
    events           while a retry is possible they are held, and the judge's watch answers hold, release or refuse;
                     once released they go through the encoder, one Emit per read
    refuse or End    the judge accepts or asks again; a Retry is a Send with its cause
    Tick             keep-alives, the hold bound, first-byte and idle deadlines

The hold belongs to this file alone. `_released` turns true when content goes to the encoder and never back, and `_ask_again` is reachable
only while it is false: an attempt whose text was seen cannot be replaced. A discarded attempt goes on reading until another one
is accepted, so that a retry that fails falls back to the whole first answer (R7). Every attempt gets exactly one verdict, every
turn too. Nothing raises out of `start` and `receive`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from pipeline.attempt import MAX_ERROR_BODY, Attempt
from pipeline.commands import (
    Abort,
    ClientGone,
    Command,
    Done,
    Draining,
    Emit,
    Ended,
    Happening,
    Head,
    Learn,
    Lost,
    Opened,
    Received,
    Send,
    Tick,
    TurnRecord,
    Wait,
)
from pipeline.events import End, Event, Failed, Finish
from pipeline.fault import fault_fields
from pipeline.passthrough import UsageTail, can_pass, passed_body, passed_headers, passed_path
from pipeline.protocols.count_tokens import count
from pipeline.protocols.errors import error_response
from pipeline.roles import Chain
from pipeline.settings import UpstreamTraits
from pipeline.stage import Accept, Encoder, Note, Outcome, Receiver, Requester, Retry, Stage, StageError, UpstreamRequest, Watch
from pipeline.text.tokens import estimate
from pipeline.turn import Correction, Text, Turn, Usage
from pipeline.verdicts import Cause, ErrorKind, FinishReason, Hold, Noted, RefusalKind, UpstreamOutcome, Verdict

Bind = Callable[[str, int], Note]
_RETRY_CAUSES = frozenset(Cause) - {Cause.FIRST, Cause.FAILOVER, Cause.TRANSPORT, Cause.DROPPED_PARAMETER}
_NAMES_OF_LOSS = {
    UpstreamOutcome.CONNECT: Failed(ErrorKind.UPSTREAM_UNREACHABLE, "the upstream cannot be reached", retryable=True),
    UpstreamOutcome.FIRST_BYTE_TIMEOUT: Failed(ErrorKind.UPSTREAM_TIMEOUT, "the upstream did not begin to answer in time", retryable=True),
    UpstreamOutcome.IDLE_TIMEOUT: Failed(ErrorKind.UPSTREAM_TIMEOUT, "the upstream fell silent", retryable=True),
}
FINISH_GRACE_S = 2.0
"""How long an upstream that gave its finish reason may take for its usage and its end (U03)."""
_CUT = Failed(ErrorKind.UPSTREAM_CUT, "the upstream's answer was cut", retryable=True)


class Exchange:
    """One turn. `record` is its canonical line, complete once `Done` was returned."""

    def __init__(
        self,
        chain: Chain,
        turn: Turn,
        targets: Sequence[UpstreamTraits],
        bind: Bind,
        without: Mapping[str, frozenset[str]],
        now: float,
    ) -> None:
        """Take the turn as the handler made it; `targets` in failover order, `without` the request fields each is known to refuse."""
        self._chain = chain
        self._settings = chain.settings
        self._turn = turn
        self._targets = list(targets)
        self._without = {name: frozenset(fields) for name, fields in without.items()}
        self._bind = bind
        self._attempts: list[Attempt] = []
        self._current: Attempt | None = None
        self._fallback: Attempt | None = None
        self._retries = 0
        self._transport_retried = False
        self._encoder: Encoder | None = None
        self._head_sent = False
        self._released = False
        self._done = False
        self._out: list[Command] = []
        self._last_emit = now
        self._last_content = now
        self._wait_until = float("inf")
        self._deadlines_moved = True
        self._usage_tail = UsageTail()
        self.record = TurnRecord(api=turn.api, started=now)

    # --- the two doors --------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Command]:
        """Prepare the turn and send its first attempt."""
        self._out = []
        try:
            self._start(now)
        except Exception as exc:  # noqa: BLE001 - the last boundary: a client always gets an answer
            self._crashed(exc, now)
        self._schedule(now)
        return self._out

    def receive(self, happening: Happening, now: float) -> list[Command]:
        """Take one happening."""
        if self._done:
            return []
        self._out = []
        try:
            if type(happening) is Received:
                attempt = self._attempts[happening.attempt - 1]
                if attempt.open:
                    self._received(attempt, happening.data, now)
            else:
                self._happened(happening, now)
                self._deadlines_moved = True
        except Exception as exc:  # noqa: BLE001
            self._crashed(exc, now)
        if self._deadlines_moved:
            self._schedule(now)
        return self._out

    def _crashed(self, exc: Exception, now: float) -> None:
        self._stage_failed("engine", 0, "closed", exc)
        if not self._done:
            self._fail(Failed(ErrorKind.INTERNAL, "internal error"), Verdict.REJECTED, now)

    def _happened(self, happening: Happening, now: float) -> None:
        if isinstance(happening, Tick):
            self._tick(now)
        elif isinstance(happening, Opened | Ended | Lost):
            attempt = self._attempts[happening.attempt - 1]
            if not attempt.open:
                return
            if isinstance(happening, Opened):
                self._opened(attempt, happening, now)
                return
            attempt.open = False
            if isinstance(happening, Ended):
                self._ended(attempt, now)
            else:
                self._lost(attempt, happening.outcome, now)
        elif isinstance(happening, ClientGone):
            self.record.client_gone = True
            self._conclude(Verdict.CLIENT_GONE, clean=False, now=now)
        elif isinstance(happening, Draining):
            self._fail(Failed(ErrorKind.SHUTTING_DOWN, "the server is shutting down", retryable=True), Verdict.UPSTREAM_FAILED, now)

    # --- going down -----------------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        try:
            self._turn = self._prepare(self._chain.once, self._turn, 0)
            turn = self._prepare(self._chain.each, self._turn, 1)
        except StageError as exc:
            if self._turn.messages:  # else nothing was read, and nothing can be said about its tools
                self._describe(self._turn)
            self._fail(exc.failed, Verdict.REJECTED, now)
            return
        self._describe(turn)
        self._encoder = self._chain.encoding.encode(turn, self._bind(self._chain.encoding.name, 0))
        if turn.max_tokens == 0 and not can_pass(turn, self._targets[0], self._settings.tools):
            self._answer_nothing(turn, now)
            return
        self._send(Cause.FIRST, self._targets[0], turn, now)

    def _answer_nothing(self, turn: Turn, now: float) -> None:
        """A limit of 0 tokens warms a cache where it passes, and asks for nothing anywhere else (AR01): it is answered without an upstream."""
        assert self._encoder is not None  # noqa: S101 - the caller made it
        finish = Finish(FinishReason.LENGTH, Usage(input_tokens=count(turn), estimated=True))
        self.record.finish, self.record.usage = finish.reason, finish.usage
        self._emit(self._encoder.finish(finish), now, content=True)
        self._conclude(Verdict.TRUNCATED, clean=True, now=now)

    def _prepare(self, stages: Sequence[Stage], turn: Turn, attempt: int) -> Turn:
        for stage in stages:
            try:
                turn = stage.prepare(turn, self._bind(stage.name, attempt))
            except StageError:
                raise
            except Exception as exc:
                closed = isinstance(stage, Requester) or not turn.messages
                self._stage_failed(stage.name, attempt, "closed" if closed else "open", exc)
                if closed:
                    raise StageError(Failed(ErrorKind.INTERNAL, "internal error")) from exc
        return turn

    def _send(self, cause: Cause, target: UpstreamTraits, turn: Turn, now: float) -> None:
        number = len(self._attempts) + 1
        without = self._without.get(target.name, frozenset())
        passing = cause not in _RETRY_CAUSES and can_pass(turn, target, self._settings.tools)
        try:
            request = (
                UpstreamRequest(passed_path(turn), passed_body(turn), turn.stream, passed_headers(turn))
                if passing
                else self._chain.requester.build(turn, target, without)
            )
        except StageError as exc:
            self._cannot_ask(target, turn, exc.failed, now)
            return
        attempt = Attempt(
            number,
            cause,
            target,
            turn,
            () if passing else self._receivers(turn, number),
            None if passing else self._watch(turn, number),
            lambda stage, exc: self._stage_failed(stage, number, "open", exc),
            now,
        )
        attempt.passing = self.record.passed_through = passing
        attempt.without = without
        # What passes is the client's own bytes, whatever reading them left out.
        attempt.warnings = () if passing else (*turn.warnings, *_left_out(request))
        self.record.warnings = len(attempt.warnings)
        attempt.holding = attempt.watch is not None or not turn.stream
        self._attempts.append(attempt)
        self._current = attempt
        self._deadlines_moved = True
        self.record.attempts += 1
        self.record.causes.append(cause)
        self.record.targets.append(target.name)
        note = self._bind(self._chain.requester.name, number)
        note(Noted.UPSTREAM_SENT, upstream=target.name, cause=cause, bytes=len(request.body))
        for parameter in request.dropped:
            note(Noted.PARAMETER_DROPPED, parameter=parameter, upstream=target.name)
        for kind, times in request.replaced:
            note(Noted.CONTENT_REPLACED, kind=kind, count=times)
        self._out.append(Send(number, target.name, cause, request))

    def _cannot_ask(self, target: UpstreamTraits, turn: Turn, failed: Failed, now: float) -> None:
        """An upstream cannot be asked at all (AR09, CR08): the held first answer, the next upstream, what an earlier one said, or a 4xx."""
        if self._fallback is not None:
            self._fall_back(now)
            return
        at = next((i for i, one in enumerate(self._targets) if one.name == target.name), 0)
        earlier = self._current
        if at + 1 < len(self._targets):
            self._send(Cause.FAILOVER, self._targets[at + 1], turn, now)
        elif earlier is not None and isinstance(earlier.end, Failed):
            self._fail(earlier.end, Verdict.UPSTREAM_FAILED, now, earlier)
        else:
            self._fail(failed, Verdict.REJECTED, now)

    def _receivers(self, turn: Turn, number: int) -> list[tuple[str, Receiver]]:
        found: list[tuple[str, Receiver]] = []
        for stage in self._chain.receivers:
            try:
                receiver = stage.open(turn, self._bind(stage.name, number))
            except Exception as exc:  # noqa: BLE001
                self._stage_failed(stage.name, number, "open", exc)
                continue
            if receiver is not None:
                found.append((stage.name, receiver))
        return found

    def _watch(self, turn: Turn, number: int) -> Watch | None:
        judge = self._chain.judge
        if judge is None or turn.emulation is None:
            return None
        try:
            return judge.watch(turn, self._bind(judge.name, number))
        except Exception as exc:  # noqa: BLE001
            self._stage_failed(judge.name, number, "open", exc)
            return None

    # --- coming back ----------------------------------------------------------------------------------------------------------

    def _opened(self, attempt: Attempt, opened: Opened, now: float) -> None:
        attempt.status = opened.status
        attempt.headers = dict(opened.headers)
        attempt.last_byte_at = now
        if opened.status != 200:
            return
        if not attempt.passing:
            note = self._bind(self._chain.requester.name, attempt.number)
            content_type = attempt.headers.get("content-type", "")
            attempt.reader = self._chain.requester.read(attempt.turn, attempt.target, content_type, note)

    def _received(self, attempt: Attempt, data: bytes, now: float) -> None:
        attempt.last_byte_at = now
        if attempt.first_byte_at is None:
            attempt.first_byte_at = now
            if self.record.first_upstream_byte is None:
                self.record.first_upstream_byte = now
        if attempt.status != 200:
            if len(attempt.error_body) < MAX_ERROR_BODY:
                attempt.error_body += data
            return
        if attempt.passing:
            self._usage_tail.feed(data)
            self._passing_head(attempt)
            self._emit(data, now, content=True)
            return
        self._advance(attempt, attempt.read(data), now)
        if attempt.finishing:
            self._deadlines_moved = True

    def _ended(self, attempt: Attempt, now: float) -> None:
        if attempt.status != 200:
            self._refused_by_upstream(attempt, now)
        elif attempt.passing:
            self._passing_head(attempt)
            self.record.usage = self._usage_tail.usage(attempt.turn.api)
            self._conclude(Verdict.PASSED, clean=True, now=now)
        else:
            self._advance(attempt, attempt.finish_reading(), now)

    def _lost(self, attempt: Attempt, outcome: UpstreamOutcome, now: float) -> None:
        failed = _NAMES_OF_LOSS.get(outcome, _CUT)
        self._bind(self._chain.requester.name, attempt.number)(Noted.UPSTREAM_FAILED, kind=failed.kind, outcome=outcome)
        if attempt.passing:
            if self._head_sent:
                self._conclude(Verdict.UPSTREAM_FAILED, clean=False, now=now)
            else:
                self._attempt_failed(attempt, failed, now)
            return
        self._advance(attempt, attempt.take([failed]), now)

    def _refused_by_upstream(self, attempt: Attempt, now: float) -> None:
        note = self._bind(self._chain.requester.name, attempt.number)
        failed = self._chain.requester.failure(attempt.target, attempt.status, attempt.headers, attempt.error_body)
        note(Noted.UPSTREAM_FAILED, kind=failed.kind, status=attempt.status)
        if failed.dropped is not None and failed.dropped not in attempt.without and not attempt.passing:
            name = attempt.target.name
            self._without[name] = attempt.without | {failed.dropped}
            self._out.append(Learn(name, failed.dropped))
            self._close_attempt(attempt, Verdict.UPSTREAM_FAILED)
            self._send(Cause.DROPPED_PARAMETER, attempt.target, attempt.turn, now)
            return
        attempt.end = failed
        if attempt is self._current:
            self._attempt_failed(attempt, failed, now)

    def _advance(self, attempt: Attempt, events: list[Event], now: float) -> None:
        """Hold, release or encode what an attempt brought, and conclude it when it ended."""
        if attempt.end is not None and attempt.open:
            self._abort(attempt)  # the sieve or the reader saw the end before the connection did
        if attempt is not self._current:
            attempt.held += events  # a discarded attempt reads on as the fallback
            return
        if attempt.holding:
            if events:
                self._hold(attempt, events, now)
        elif events:
            self._encode(events, now)
        if attempt is self._current and attempt.end is not None and not self._done:
            self._judge_end(attempt, attempt.end, now)

    def _hold(self, attempt: Attempt, events: list[Event], now: float) -> None:
        attempt.held += events
        if attempt.held_since is None and attempt.text_chars:  # thinking aloud is no text that waits (R6)
            attempt.held_since = now
            self._deadlines_moved = True
        if attempt.watch is None or (not attempt.turn.stream and attempt.end is not None):
            return
        for event in events:
            try:
                answer = attempt.watch.feed(event)
            except Exception as exc:  # noqa: BLE001
                self._stage_failed("retry_on_refusal", attempt.number, "open", exc)
                answer = Hold.RELEASE
            if answer is Hold.HOLD:
                continue
            attempt.watch = None
            if answer is Hold.REFUSE:
                if attempt.end is None:
                    self._judge_early(attempt, now)
            elif attempt.turn.stream:
                self._release(attempt, now)
            return

    def _release(self, attempt: Attempt, now: float) -> None:
        """Let an attempt's events go to the client; from here on nothing can replace it."""
        if not attempt.holding:
            return
        attempt.holding = False
        attempt.watch = None
        if attempt.held_since is not None:
            self.record.held_s += now - attempt.held_since
        held, attempt.held = attempt.held, []
        if held:
            self._encode(held, now)

    def _encode(self, events: list[Event], now: float) -> None:
        encoder = self._encoder
        assert encoder is not None  # noqa: S101 - set in _start before any attempt
        self._released = True  # even where the encoder holds it back still: it cannot be taken out again
        data = encoder.feed(events)
        if data:
            self._emit(data, now, content=True)
        if encoder.stopped and self._current is not None and self._current.end is None:
            self._current.end = Finish()
            self._abort(self._current)

    def _emit(self, data: bytes, now: float, *, content: bool) -> None:
        if not self._head_sent:
            assert self._encoder is not None  # noqa: S101
            self._head(200, self._encoder.content_type, stream=self._turn.stream)
        if self.record.first_client_byte is None:
            self.record.first_client_byte = now
        if content and self.record.first_content is None:
            self._released = True
            self.record.first_content = now
            self._drop_discarded()
        self._last_emit = now
        if content:
            self._last_content = now
        self._out.append(Emit(data))

    def _passing_head(self, attempt: Attempt) -> None:
        """Begin an answer that passes with its first byte and not before: until then every failure keeps its status (X08, E7)."""
        if not self._head_sent:
            self._head(200, attempt.headers.get("content-type") or "application/json", stream=True)

    def _head(self, status: int, content_type: str, *, stream: bool, extra: tuple[tuple[str, str], ...] = ()) -> None:
        self._head_sent = True
        self.record.status = status
        headers = (("content-type", content_type), *extra)
        warnings = self._turn.warnings if self._current is None else self._current.warnings
        if warnings:
            headers += (("x-toolgraft-warnings", ", ".join(dict.fromkeys(warnings))[:1000]),)
        self._out.append(Head(status, headers, stream))

    # --- judging --------------------------------------------------------------------------------------------------------------

    def _outcome(self, attempt: Attempt, end: End, now: float) -> Outcome:
        return Outcome(
            attempt=attempt.number,
            text="".join(attempt.text),
            calls=tuple(attempt.calls),
            blocks=tuple(attempt.blocks),
            end=end,
            reasoned=attempt.reasoned,
            released=self._released or not attempt.holding,
            retries_left=self._settings.max_retries - self._retries,
            seconds_left=self._settings.turn_deadline_s - (now - self.record.started),
        )

    def _ask_judge(self, attempt: Attempt, end: End, now: float) -> Retry | Accept:
        judge = self._chain.judge
        if judge is not None:
            try:
                decision = judge.judge(attempt.turn, self._outcome(attempt, end, now), self._bind(judge.name, attempt.number))
            except Exception as exc:  # noqa: BLE001
                self._stage_failed(judge.name, attempt.number, "open", exc)
            else:
                self._note_hit(decision.hit)
                return decision
        return Accept(_plain_verdict(attempt))

    def _judge_early(self, attempt: Attempt, now: float) -> None:
        """Decide about a refusal that was recognised while the model is still writing."""
        decision = self._ask_judge(attempt, Finish(), now)
        if isinstance(decision, Retry):
            self._ask_again(attempt, decision, now)
        elif attempt.turn.stream:
            self._skipped(decision)
            self._release(attempt, now)

    def _judge_end(self, attempt: Attempt, end: End, now: float) -> None:
        if attempt is self._fallback and isinstance(end, Finish):
            self._deliver(attempt, end, Accept(attempt.delivered or _plain_verdict(attempt)), now)
            return
        if isinstance(end, Failed) and end.kind is not ErrorKind.BROKEN_CALL:
            self._attempt_failed(attempt, end, now)
            return
        decision = self._ask_judge(attempt, end, now)
        if isinstance(decision, Retry) and attempt.holding and not self._released:
            self._ask_again(attempt, decision, now)
            return
        accept = decision if isinstance(decision, Accept) else Accept(decision.verdict)
        self._skipped(accept)
        came = accept.came or accept.verdict
        if self._fallback is not None and came in _WORSE_THAN_TEXT and self._fallback.has_words and attempt.holding:
            self._close_attempt(attempt, accept.verdict)
            self._fall_back(now, "exhausted")  # an answer in words was held; a last attempt without one is no better (R7)
        elif isinstance(end, Failed):
            self._fail(end, accept.verdict, now, attempt)
        else:
            self._deliver(attempt, end, accept, now)

    def _ask_again(self, attempt: Attempt, retry: Retry, now: float) -> None:
        """Discard a held attempt and send the next one. Only ever called while nothing of this turn was released."""
        self._retries += 1
        attempt.delivered = retry.delivered or retry.verdict
        first = self._fallback
        if first is None or (first.end is not None and not first.has_words and attempt.has_words):
            self._fallback = attempt  # the first answer, or the first that says anything
        elif attempt.open:
            self._abort(attempt)
        self._close_attempt(attempt, retry.verdict)
        try:
            turn = self._prepare(self._chain.each, _corrected(self._turn, retry.correction), len(self._attempts) + 1)
        except StageError:
            self._fall_back(now)
            return
        self._send(retry.cause, attempt.target, turn, now)

    def _attempt_failed(self, attempt: Attempt, failed: Failed, now: float) -> None:
        """Another upstream, the same once more, the held first answer, or the error."""
        if self._released:
            self._fail(failed, Verdict.UPSTREAM_FAILED, now, attempt)
            return
        self._close_attempt(attempt, Verdict.UPSTREAM_FAILED)
        if self._fallback is not None:
            self._fall_back(now)
            return
        at = next((i for i, target in enumerate(self._targets) if target.name == attempt.target.name), 0)
        if (failed.retryable or (failed.status or 0) >= 500 or failed.status == 429) and at + 1 < len(self._targets):
            self._send(Cause.FAILOVER, self._targets[at + 1], attempt.turn, now)
        elif failed.retryable and failed.status is None and not self._transport_retried and self._may_resend(failed):
            self._transport_retried = True
            self._send(Cause.TRANSPORT, attempt.target, attempt.turn, now)
        else:
            self._fail(failed, Verdict.UPSTREAM_FAILED, now, attempt)

    def _may_resend(self, failed: Failed) -> bool:
        return failed.kind is not ErrorKind.UPSTREAM_TIMEOUT

    def _fall_back(self, now: float, result: str = "upstream_failed") -> None:
        """Deliver the first answer after all: whole if it ended, else live from here on (R7)."""
        attempt = self._fallback
        assert attempt is not None  # noqa: S101
        self._current = attempt
        self._bind("retry_on_refusal", attempt.number)(Noted.RETRY_ENDED, result=result)
        verdict = attempt.delivered or _plain_verdict(attempt)
        if isinstance(attempt.end, Failed):
            self._fail(attempt.end, Verdict.UPSTREAM_FAILED, now, attempt)
        elif attempt.end is not None:
            self._deliver(attempt, attempt.end, Accept(verdict), now)
        elif attempt.turn.stream:
            self._release(attempt, now)
        else:
            attempt.watch = None

    # --- ending ---------------------------------------------------------------------------------------------------------------

    def _deliver(self, attempt: Attempt, finish: Finish, accept: Accept, now: float) -> None:
        verdict = accept.verdict
        if verdict is Verdict.MISSING_CALL and self._settings.required_unmet == "error":
            self._fail(
                Failed(ErrorKind.TOOL_CHOICE_UNMET, "the model did not call a tool although one was required"), verdict, now, attempt
            )
            return
        if attempt.held_since is not None and attempt.holding:
            self.record.held_s += now - attempt.held_since
        encoder = self._encoder
        assert encoder is not None  # noqa: S101
        finish = self._with_usage(attempt, finish)
        self.record.finish = finish.reason
        self.record.usage = finish.usage
        held, attempt.held = attempt.held, []
        attempt.holding = False
        try:
            data = encoder.feed(held) + encoder.finish(finish)
        except StageError as exc:  # a begun call that never became an object (E4)
            self._fail(exc.failed, Verdict.MALFORMED, now, attempt)
            return
        if encoder.stopped:  # what stood behind the stop sequence never was (E10)
            del attempt.calls[encoder.calls_written :]
            verdict = _plain_verdict(attempt)
        self.record.calls_dropped = len(attempt.calls) - encoder.calls_written
        if not self._head_sent:
            extra = (("x-toolgraft-outcome", verdict.value),) if verdict in _STATED_OUTCOMES else ()
            self._head(200, encoder.content_type, stream=attempt.turn.stream, extra=extra)
        self._emit(data, now, content=True)
        if self._retries:
            result = "recovered" if verdict in (Verdict.CALL, Verdict.NATIVE_CALL, Verdict.TEXT) else _result_of_retry(verdict)
            if attempt is not self._fallback:
                self._bind("retry_on_refusal", attempt.number)(Noted.RETRY_ENDED, result=result)
        self._conclude(verdict, clean=True, now=now, attempt=attempt)

    def _fail(self, failed: Failed, verdict: Verdict, now: float, attempt: Attempt | None = None) -> None:
        self.record.error = failed.kind
        if not self._head_sent:
            status, headers, body = error_response(self._turn.api, failed, self._turn.request_id)
            raw = self._raw_refusal(attempt, failed)
            if raw is not None:
                status, headers, body = raw
            self._head_sent = True
            self.record.status = status
            self._out.append(Head(status, headers, stream=False))
            self._out.append(Emit(body))
            self._conclude(verdict, clean=True, now=now, attempt=attempt)
            return
        encoder = self._encoder
        if encoder is not None and not (attempt is not None and attempt.passing):
            data = b""
            if attempt is not None and attempt.held:
                data = encoder.feed(attempt.held)
                attempt.held = []
            self._out.append(Emit(data + encoder.fail(failed)))
        self._conclude(verdict, clean=False, now=now, attempt=attempt)

    def _raw_refusal(self, attempt: Attempt | None, failed: Failed) -> tuple[int, tuple[tuple[str, str], ...], bytes] | None:
        """An upstream's own JSON error in the client's own protocol goes on as it is, but for what concerns our key (X23)."""
        if attempt is None or not attempt.passing or attempt.status in (0, 200) or failed.kind is ErrorKind.UPSTREAM_AUTHENTICATION:
            return None
        if attempt.status < 400 or "json" not in attempt.headers.get("content-type", ""):
            return None
        headers = [("content-type", attempt.headers["content-type"])]
        retry_after = attempt.headers.get("retry-after") or ("5" if attempt.status == 429 else None)
        if retry_after:
            headers.append(("retry-after", retry_after))
        return attempt.status, tuple(headers), attempt.error_body

    def _conclude(self, verdict: Verdict, *, clean: bool, now: float, attempt: Attempt | None = None) -> None:
        winner = attempt or self._current
        for one in self._attempts:
            if one.open:
                self._abort(one)
            if one.verdict is None:
                self._close_attempt(one, verdict if one is winner else Verdict.CLIENT_GONE)
        record = self.record
        record.verdict = verdict
        record.ended = now
        if winner is not None:
            # What the client got: of several calls it may have wanted one (R8), and of an answer that failed it may have seen none.
            delivered = winner.calls[: self._encoder.calls_written if self._encoder is not None else 0]
            record.calls = sum(not call.native for call in delivered)
            record.native_calls = sum(call.native for call in delivered)
            record.text_chars = winner.text_chars
        for one in self._attempts:
            one.let_go()
        self._done = True
        self._out.append(Done(clean))

    def _close_attempt(self, attempt: Attempt, verdict: Verdict) -> None:
        if attempt.verdict is not None:
            return
        attempt.verdict = verdict
        self.record.attempt_verdicts.append(verdict)
        for block in attempt.blocks:
            self.record.blocks[block.outcome.value] = self.record.blocks.get(block.outcome.value, 0) + 1
            for repair in block.repairs:
                self.record.repairs[repair.value] = self.record.repairs.get(repair.value, 0) + 1
        for invariant in attempt.broken_promises():
            self._bind("engine", attempt.number)(Noted.INVARIANT_BROKEN, invariant=invariant)
        self._bind("engine", attempt.number)(
            Noted.ATTEMPT_ENDED, verdict=verdict, cause=attempt.cause, upstream=attempt.target.name, status=attempt.status
        )

    def _abort(self, attempt: Attempt) -> None:
        attempt.open = False
        self._out.append(Abort(attempt.number))

    def _drop_discarded(self) -> None:
        for attempt in self._attempts:
            if attempt is not self._current and attempt.open:
                self._abort(attempt)

    # --- time -----------------------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        settings = self._settings
        self._wait_until = float("inf")
        for attempt in self._attempts:
            if not attempt.open:
                continue
            if attempt.finishing and now - attempt.last_byte_at >= FINISH_GRACE_S:
                self._abort(attempt)
                self._advance(attempt, attempt.finish_reading(), now)
                if self._done:
                    return
                continue
            waiting = attempt.first_byte_at is None
            limit = settings.first_byte_s if waiting else settings.idle_s
            if now - attempt.last_byte_at >= limit:
                self._abort(attempt)
                self._lost(attempt, UpstreamOutcome.FIRST_BYTE_TIMEOUT if waiting else UpstreamOutcome.IDLE_TIMEOUT, now)
                if self._done:
                    return
        current = self._current
        if current is not None and self._hold_ends(current) <= now:
            self._release(current, now)
            if current.end is not None:
                self._judge_end(current, current.end, now)
        if self._done or not self._turn.stream or self._encoder is None or current is None:
            return
        if current.passing:
            if current.status == 200 and now >= self.record.started + self._settings.keep_alive_first_s:
                self._passing_head(current)
            return
        if now >= self._keep_alive_at():
            data = self._encoder.keep_alive(now - self._last_content)
            if data:
                self._emit(data, now, content=False)
            else:
                self._last_emit = now

    def _hold_ends(self, attempt: Attempt) -> float:
        if not attempt.holding or attempt.held_since is None or not attempt.turn.stream:
            return float("inf")
        if attempt.turn.tool_choice.mandatory:
            return float("inf")
        return attempt.held_since + self._settings.hold_s

    def _keep_alive_at(self) -> float:
        if self._head_sent:
            return self._last_emit + self._settings.keep_alive_s
        return self.record.started + self._settings.keep_alive_first_s

    def _schedule(self, now: float) -> None:
        """Ask for a Tick only when an earlier one than already asked for is needed; a Tick looks at every deadline anew.

        Bytes only move deadlines later, so the hot path comes here just when a hold began or an attempt was sent.
        """
        self._deadlines_moved = False
        if self._done:
            return
        due = float("inf")
        for attempt in self._attempts:
            if attempt.open:
                limit = self._settings.first_byte_s if attempt.first_byte_at is None else self._settings.idle_s
                if attempt.finishing:
                    limit = FINISH_GRACE_S
                due = min(due, attempt.last_byte_at + limit)
        current = self._current
        if current is not None:
            due = min(due, self._hold_ends(current))
            if self._turn.stream and (not current.passing or (current.status == 200 and not self._head_sent)):
                due = min(due, self._keep_alive_at())
        if due < self._wait_until:
            self._wait_until = due
            self._out.append(Wait(max(due, now)))

    # --- small change ---------------------------------------------------------------------------------------------------------

    def _stage_failed(self, stage: str, attempt: int, mode: str, exc: Exception) -> None:
        self._bind("engine", attempt)(Noted.STAGE_FAILED, stage=stage, mode=mode, **fault_fields(exc))

    def _note_hit(self, hit: tuple[RefusalKind, str, str] | None) -> None:
        """Book the refusal that the judge found: streamed and not streamed alike, and the answer is classified once."""
        if hit is not None:
            kind, _, phrase = hit
            self.record.refusal_kind, self.record.refusal = kind.value, phrase

    def _skipped(self, accept: Accept) -> None:
        if accept.skipped is not None:
            self.record.retry_skipped = accept.skipped

    def _describe(self, turn: Turn) -> None:
        record = self.record
        emulation = turn.emulation
        record.read = True
        record.stream = turn.stream
        record.emulated = emulation is not None
        record.emulation_reason = turn.emulation_reason
        record.tools_offered = len(turn.tools)
        record.tools_rebuilt = turn.tools_rebuilt
        record.tool_choice = turn.tool_choice.mode.value
        record.history = self._turn.has_tool_history
        record.state = turn.state
        record.warnings = len(turn.warnings)
        if emulation is not None:
            record.dialect = emulation.dialect
            record.tier = emulation.tier
            record.contract_bytes = emulation.contract_bytes

    def _with_usage(self, attempt: Attempt, finish: Finish) -> Finish:
        usage = finish.usage
        if usage is None:
            texts = (part.text for message in attempt.turn.messages for part in message.parts if isinstance(part, Text))
            said = estimate("".join(attempt.text)) + sum(estimate(call.arguments) for call in attempt.calls)
            usage = Usage(input_tokens=sum(map(estimate, texts)), output_tokens=max(said, 1), estimated=True)
        if self._settings.usage == "client" and attempt.turn.emulation is not None:
            extra = attempt.turn.emulation.contract_bytes // 4
            usage = msgspec.structs.replace(usage, input_tokens=max(usage.input_tokens - extra, 0))
        return finish if usage is finish.usage else msgspec.structs.replace(finish, usage=usage)


_WORSE_THAN_TEXT = frozenset({Verdict.EMPTY, Verdict.TRUNCATED, Verdict.MALFORMED})
_STATED_OUTCOMES = frozenset({Verdict.MISSING_CALL, Verdict.MALFORMED, Verdict.REFUSED})


def _left_out(request: UpstreamRequest) -> tuple[str, ...]:
    """The warnings for what this upstream did not get of the client's request."""
    return (*(f"dropped {name}" for name in request.dropped), *(f"replaced {kind}" for kind, _ in request.replaced))


def _corrected(turn: Turn, correction: Correction) -> Turn:
    return msgspec.structs.replace(turn, correction=correction)


def _plain_verdict(attempt: Attempt) -> Verdict:
    if attempt.calls:
        return Verdict.NATIVE_CALL if attempt.calls[0].native else Verdict.CALL
    return Verdict.TEXT if attempt.has_words else Verdict.EMPTY


def _result_of_retry(verdict: Verdict) -> str:
    return "refused_again" if verdict is Verdict.REFUSED else "exhausted"

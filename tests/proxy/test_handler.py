"""The driver over a real connection: every way a turn can go, and that each leaves nothing behind."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from pipeline.verdicts import UpstreamOutcome
from proxy.config.tree import Limits
from tests.support.body_bench import HandAnswer, HandTransport, service

CHAT = "/v1/chat/completions"


@pytest.fixture(autouse=True)
async def nothing_left_behind():
    """No task outlives a turn."""
    before = asyncio.all_tasks()
    yield
    for _ in range(100):
        left = asyncio.all_tasks() - before - {asyncio.current_task()}
        if not left:
            break
        await asyncio.sleep(0.01)
    assert left == set()


class Talk:
    """One streamed request, read by marks."""

    def __init__(self, port):
        self.port = port
        self.raw = b""

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n".encode() + b'{"model":"m"}')
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)

    async def until(self, mark):
        async with asyncio.timeout(5):
            while mark not in self.raw:
                piece = await self.reader.read(65536)
                assert piece, f"closed after {self.raw!r}"
                self.raw += piece

    async def rest(self):
        async with asyncio.timeout(5):
            while piece := await self.reader.read(65536):
                self.raw += piece
        return self.raw

    def leave(self):
        """Go away at once, as a killed process does."""
        self.writer.transport.abort()


async def test_text_goes_through_as_it_comes_and_ends_in_order():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        for word in (b"alpha", b"beta", b"gamma"):
            answer.give(b"t " + word + b"\n")
            await talk.until(word + b"\n")
        answer.give(b"f\n", None)
        await talk.until(b"[finish]\n\r\n0\r\n\r\n")
        turn = await running.turn()
        assert b"x-accel-buffering: no" in talk.raw.lower()
        assert b"transfer-encoding: chunked" in talk.raw.lower()
        assert (turn["verdict"], turn["status"], turn["attempts"], turn["out_bytes"]) == ("text", 200, 1, 26)
        assert running.value("requests_in_flight", api="openai_chat") == 0
        assert running.value("turns_total", model="other", verdict="text") == 1


async def test_a_connection_serves_one_turn_after_another():
    answers = [HandAnswer(), HandAnswer()]
    for answer in answers:
        answer.give(b"t hello\n", b"f\n", None)
    async with service(HandTransport(answers)) as running, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(running.url + CHAT, json={"model": "m"}) as got:
                assert await got.read() == b"hello\n[finish]\n"
        await running.settled()
        assert len(running.lines.turns()) == 2


async def test_a_whole_answer_has_its_length():
    answer = HandAnswer()
    answer.give(b"t one\nt two\n", b"f\n", None)
    async with service(HandTransport([answer]), stream=False) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}) as got:
            assert await got.read() == b"one\ntwo\n[finish]\n"
            assert got.headers["content-length"] == "17"
            assert got.headers["x-request-id"] == got.headers["request-id"] == (await running.turn())["rid"]


async def test_an_answer_that_the_engine_ends_early_is_closed_once():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        answer.give(b"t hello\nf\n")  # the finish is read, the upstream's connection stays open
        await talk.until(b"0\r\n\r\n")
        await running.turn()
    assert answer.aborts == 1


async def test_the_pieces_of_an_answer_are_counted():
    answer = HandAnswer()
    answer.give(b"t one\n", b"t two\n", b"t " + b"x" * (40 << 10) + b"\n", b"f\n", None)
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        await talk.until(b"0\r\n\r\n")
        turn = await running.turn()
        assert turn["pieces"] == 6  # one of 40 KiB counts as three
        assert turn["excess_ms"] <= turn["overhead_ms"]


async def test_events_of_one_read_leave_in_one_write():
    answer = HandAnswer()
    answer.give(b"t a\nt b\nt c\n", b"f\n", None)
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        await talk.until(b"0\r\n\r\n")
        assert b"\r\n6\r\na\nb\nc\n\r\n" in talk.raw


async def test_a_retry_is_invisible():
    first, second = HandAnswer(), HandAnswer()
    first.give(b"t no tools here\n", b"f\n", None)
    second.give(b"c lookup\n", b"f\n", None)
    transport = HandTransport([first, second])
    async with service(transport) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}) as got:
            assert await got.read() == b"[call lookup]\n[finish]\n"
        turn = await running.turn()
        assert (turn["verdict"], turn["causes"], turn["attempt_verdicts"]) == ("call", ["first", "refusal"], ["refused", "call"])
        assert running.value("attempts_total", model="other", cause="refusal") == 1
        assert running.value("retries_total", cause="refusal", result="recovered") == 1


async def test_what_cannot_be_reached_is_a_502_in_json():
    transport = HandTransport([UpstreamOutcome.CONNECT, UpstreamOutcome.CONNECT])
    async with service(transport) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}) as got:
            assert got.status == 502
            assert (await got.json())["error"]["code"] == "upstream_unreachable"
        turn = await running.turn()
        assert (turn["verdict"], turn["error_kind"], turn["causes"]) == ("upstream_failed", "upstream_unreachable", ["first", "transport"])
        assert running.value("upstream_requests_total", upstream="one", outcome="connect") == 2


async def test_another_upstream_takes_over_without_the_clients_key():
    answer = HandAnswer()
    answer.give(b"t hi\n", b"f\n", None)
    transport = HandTransport([UpstreamOutcome.CONNECT, answer])
    async with service(transport, targets=("one", "two")) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}, headers={"authorization": "Bearer canary"}) as got:
            assert await got.read() == b"hi\n[finish]\n"
    assert [(target, key) for target, _, key, _ in transport.sent] == [("one", "canary"), ("two", None)]


async def test_a_client_key_of_ours_goes_nowhere():
    answer = HandAnswer()
    answer.give(b"t hi\n", b"f\n", None)
    transport = HandTransport([answer])
    async with service(transport, keys=["canary"]) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}, headers={"x-api-key": "canary"}) as got:
            assert got.status == 200
            await got.read()
        turn = await running.turn()
    assert transport.sent[0][2] is None
    assert turn["key"] == running.telemetry.fingerprint("canary")


async def test_a_refused_parameter_is_learnt():
    refusing = HandAnswer(400)
    refusing.give(b'{"error": "stream_options"}', None)
    answers = [HandAnswer(), HandAnswer()]
    for answer in answers:
        answer.give(b"t hi\n", b"f\n", None)
    transport = HandTransport([refusing, *answers])
    async with service(transport) as running, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(running.url + CHAT, json={"model": "m"}) as got:
                assert await got.read() == b"hi\n[finish]\n"
    assert [request.body for _, request, _, _ in transport.sent] == [b"one:0:", b"one:0:stream_options", b"one:0:stream_options"]


async def test_an_upstreams_429_keeps_its_retry_after_and_its_limits():
    refusing = HandAnswer(429, {"retry-after-ms": "1500", "x-ratelimit-remaining-requests": "0", "set-cookie": "a=b"})
    refusing.give(b"{}", None)
    async with service(HandTransport([refusing])) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}) as got:
            assert got.status == 429
            assert got.headers["retry-after"]
            assert got.headers["retry-after-ms"] == "1500"
            assert got.headers["x-ratelimit-remaining-requests"] == "0"
            assert "set-cookie" not in got.headers


# --- an answer that breaks off ------------------------------------------------------------------------------------------------


async def test_an_upstream_that_dies_ends_in_an_error_and_no_final_chunk():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        answer.give(b"t seen\n")
        await talk.until(b"seen\n")
        answer.give(UpstreamOutcome.CUT)
        raw = await talk.rest()
        assert b"[error upstream_cut]\n" in raw
        assert not raw.endswith(b"0\r\n\r\n")
        turn = await running.turn()
        assert (turn["verdict"], turn["error_kind"], turn["status"]) == ("upstream_failed", "upstream_cut", 200)


async def test_a_fault_in_reading_an_upstream_ends_the_turn_too():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        answer.give(b"t seen\n")
        await talk.until(b"seen\n")
        answer.give(RuntimeError("canary"))
        raw = await talk.rest()
        assert b"[error upstream_cut]\n" in raw
        assert (await running.turn())["verdict"] == "upstream_failed"
        assert [line["error"] for line in running.lines.all if line["event"] == "unexpected"] == ["RuntimeError"]
        assert len({(line["rid"], line["trace_id"]) for line in running.lines.all}) == 1
        assert running.value("unexpected_total") == 1
        assert "canary" not in str(running.lines.all)


# --- clients that leave -------------------------------------------------------------------------------------------------------


async def test_leaving_before_the_upstream_answered_cancels_the_request():
    transport = HandTransport([])
    async with service(transport) as running, Talk(running.port) as talk:
        await asyncio.wait_for(transport.waiting.wait(), 5)
        talk.leave()
        await asyncio.wait_for(transport.cancelled.wait(), 5)
        turn = await running.turn()
        assert (turn["verdict"], turn["client_gone"]) == ("client_gone", True)
        assert running.value("disconnects_total", phase="before_first_byte") == 1
        assert running.value("requests_total", api="openai_chat", code="499") == 1
        assert running.value("upstream_requests_total", upstream="one", outcome="cancelled") == 1


async def test_leaving_while_text_is_held_closes_the_upstream():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        answer.give(b"t maybe\n")
        await asyncio.sleep(0.05)
        talk.leave()
        await asyncio.wait_for(answer.aborted.wait(), 5)
        assert (await running.turn())["verdict"] == "client_gone"


async def test_leaving_in_the_middle_of_a_stream_closes_the_upstream_before_it_writes_again():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running, Talk(running.port) as talk:
        answer.give(b"t seen\n")
        await talk.until(b"seen\n")
        talk.leave()
        await asyncio.wait_for(answer.aborted.wait(), 5)
        turn = await running.turn()
        assert (turn["verdict"], turn["status"]) == ("client_gone", 200)
        assert running.value("disconnects_total", phase="mid_stream") == 1


async def test_leaving_during_a_retry_closes_both_attempts_and_starts_no_other():
    first = HandAnswer()
    transport = HandTransport([first])
    async with service(transport) as running, Talk(running.port) as talk:
        first.give(b"t no tools\n")
        await asyncio.wait_for(transport.waiting.wait(), 5)
        talk.leave()
        await asyncio.wait_for(transport.cancelled.wait(), 5)
        await asyncio.wait_for(first.aborted.wait(), 5)
        turn = await running.turn()
        assert (turn["verdict"], turn["attempts"]) == ("client_gone", 2)
        assert len(transport.sent) == 2


async def test_leaving_a_whole_answer_closes_the_upstream():
    answer = HandAnswer()
    async with service(HandTransport([answer]), stream=False) as running, Talk(running.port) as talk:
        answer.give(b"t hello\n")
        await asyncio.sleep(0.05)
        talk.leave()
        await asyncio.wait_for(answer.aborted.wait(), 5)
        assert (await running.turn())["verdict"] == "client_gone"


async def test_leaving_while_waiting_for_a_place_is_a_turn_too():
    transport = HandTransport([])
    async with service(transport, limits=Limits(max_concurrency=1)) as running, Talk(running.port) as first:
        await asyncio.wait_for(transport.waiting.wait(), 5)
        async with Talk(running.port) as second:
            await asyncio.sleep(0.05)
            second.leave()
            for _ in range(100):
                if running.lines.turns():
                    break
                await asyncio.sleep(0.01)
            assert [turn["verdict"] for turn in running.lines.turns()] == ["client_gone"]
            assert running.value("disconnects_total", phase="before_upstream") == 1
        first.leave()
        await running.settled()
    assert len(transport.sent) == 1


async def test_a_client_that_does_not_read_is_cut_and_the_upstream_closed():
    answer = HandAnswer()
    async with service(HandTransport([answer]), limits=Limits(write_stall_s=0.2)) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port, limit=1024)
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n".encode() + b"{}")
        for _ in range(400):
            answer.give(b"t " + b"x" * 65536 + b"\n")
        await asyncio.wait_for(answer.aborted.wait(), 10)
        turn = await running.turn()
        assert turn["client_gone"] is True
        assert turn["overhead_ms"] < 1000 * turn["total_ms"]
        writer.transport.abort()
        del reader


# --- silence ------------------------------------------------------------------------------------------------------------------


async def test_silence_is_filled_and_held_text_counts_as_silence():
    answer = HandAnswer()
    async with (
        service(HandTransport([answer]), keep_alive_first_s=0.05, keep_alive_s=0.05, hold_s=60.0) as running,
        Talk(running.port) as talk,
    ):
        await talk.until(b"[alive]\n")
        answer.give(b"t maybe\n")
        talk.raw = b""
        await talk.until(b"[alive]\n")
        assert b"maybe" not in talk.raw
        answer.give(b"t more\n", b"f\n", None)
        await talk.until(b"maybe\nmore\n")
        await running.turn()


@pytest.mark.parametrize(("settings", "outcome"), [({"first_byte_s": 0.05}, "first_byte_timeout")])
async def test_an_upstream_that_says_nothing_is_given_up(settings, outcome):
    transport = HandTransport([])
    async with service(transport, stream=False, **settings) as running, aiohttp.ClientSession() as session:
        async with session.post(running.url + CHAT, json={"model": "m"}) as got:
            assert got.status == 504
        await asyncio.wait_for(transport.cancelled.wait(), 5)
        await running.turn()
        assert running.value("upstream_requests_total", upstream="one", outcome=outcome) == 1


async def test_an_upstream_that_falls_silent_is_closed_with_an_error():
    answer = HandAnswer()
    async with service(HandTransport([answer]), idle_s=0.1) as running, Talk(running.port) as talk:
        answer.give(b"t seen\n")
        raw = await talk.rest()
        assert b"seen\n" in raw
        assert b"[error upstream_timeout]" in raw
        await asyncio.wait_for(answer.aborted.wait(), 5)
        await running.turn()
        assert running.value("upstream_requests_total", upstream="one", outcome="idle_timeout") == 1


# --- the end of the process ---------------------------------------------------------------------------------------------------


async def test_a_drain_closes_running_turns_with_the_protocols_error():
    answer, held = HandAnswer(), HandAnswer()
    transport = HandTransport([answer, held])
    async with service(transport) as running, Talk(running.port) as streaming:
        answer.give(b"t seen\n")
        await streaming.until(b"seen\n")
        async with Talk(running.port) as waiting:
            await asyncio.sleep(0.05)
            running.closing = True
            await running.app.turns.dismiss()
            await running.settled()
            assert b"[error shutting_down]" in await streaming.rest()
            raw = await waiting.rest()
            assert raw.startswith(b"HTTP/1.1 503")
            assert b"connection: close" in raw.lower()
        assert answer.aborted.is_set()
        assert held.aborted.is_set()


@pytest.mark.parametrize("begun", [b"", b'{"model"'])
async def test_a_drain_answers_a_request_whose_body_still_arrives(begun):
    async with service(HandTransport([])) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n" + begun)
        async with asyncio.timeout(5):
            while not running.value("requests_in_flight", api="anthropic_messages"):
                await asyncio.sleep(0.01)
            running.closing = True
            await running.app.turns.dismiss()
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read(65536)
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 5" in head.lower()
        assert b"connection: close" in head.lower()
        assert b'"type":"overloaded_error"' in body
        turn = await running.turn()
        assert (turn["verdict"], turn["status"], turn["error_kind"]) == ("rejected", 503, "shutting_down")
        assert "tools_offered" not in turn
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_while_draining_every_response_says_close():
    answers = [HandAnswer(), HandAnswer()]
    for answer in answers:
        answer.give(b"t hello\n", b"f\n", None)
    async with service(HandTransport(answers)) as running, Talk(running.port) as talk:
        await talk.until(b"0\r\n\r\n")
        assert b"connection: close" not in talk.raw.lower()
        running.closing = True
        async with Talk(running.port) as second:
            assert b"connection: close" in (await second.rest()).lower()


async def test_a_connection_whose_head_said_nothing_of_closing_stays_open_when_the_drain_begins():
    """A proxy in front uses it again at once; were it closed then, that request would be lost."""
    first, second = HandAnswer(), HandAnswer()
    async with service(HandTransport([first, second])) as running, Talk(running.port) as talk:
        first.give(b"t hello\n")
        await talk.until(b"hello\n")
        running.closing = True
        first.give(b"f\n", None)
        await talk.until(b"\r\n0\r\n\r\n")
        assert b"connection: close" not in talk.raw.lower()
        talk.raw = b""
        second.give(b"t again\n", b"f\n", None)
        talk.writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n".encode() + b'{"model":"m"}')
        rest = await talk.rest()  # and this one is the last
        assert b"connection: close" in rest.lower()
        assert rest.endswith(b"\r\n0\r\n\r\n")


async def test_settling_waits_for_a_time_in_which_nothing_begins():
    answers = [HandAnswer() for _ in range(3)]
    async with service(HandTransport(answers)) as running, Talk(running.port) as talk:
        settling = None
        for answer in answers:
            answer.give(b"t hello\n", b"f\n", None)
            await talk.until(b"\r\n0\r\n\r\n")
            talk.raw = b""
            settling = settling or asyncio.create_task(running.app.turns.settle(30, quiet_s=1.0))
            if answer is not answers[-1]:
                await asyncio.sleep(0.05)
                assert not settling.done()
                talk.writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n".encode() + b'{"model":"m"}')
        assert await settling
        assert len(running.lines.turns()) == 3


async def test_settling_does_not_wait_for_ever_for_a_quiet_time():
    answer = HandAnswer()
    async with service(HandTransport([answer])) as running:
        assert await running.app.turns.settle(0.05, quiet_s=30)
        async with Talk(running.port) as talk:
            answer.give(b"t hello\n")
            await talk.until(b"hello\n")
            assert not await running.app.turns.settle(0.05, quiet_s=30)
            answer.give(b"f\n", None)
            await talk.until(b"\r\n0\r\n\r\n")


async def test_a_tick_that_comes_as_the_turn_ends_leaves_no_coroutine_unawaited():
    import gc
    import warnings

    from proxy.handler import TurnDriver

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        driver = TurnDriver(None, None, None, None, None)
        driver._wake()
        await driver._close()
        gc.collect()
    assert [str(one.message) for one in caught] == []

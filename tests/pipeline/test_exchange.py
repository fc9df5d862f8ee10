"""The engine: who is sent, what is held, what the client sees, and that attempts and verdicts add up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.commands import Abort, ClientGone, Command, Done, Draining, Emit, Ended, Head, Learn, Lost, Opened, Received, Send, Tick, Wait
from pipeline.verdicts import Cause, ErrorKind, Invariant, Noted, UpstreamOutcome, Verdict
from tests.support.engine_fakes import Bench, BrokenReceiver


def sent(commands: list[Command]) -> list[tuple[int, str, Cause]]:
    return [(c.attempt, c.target, c.cause) for c in commands if isinstance(c, Send)]


def seen(commands: list[Command]) -> bytes:
    return b"".join(c.data for c in commands if isinstance(c, Emit))


def of(commands: list[Command], kind: type) -> list[Command]:
    return [c for c in commands if isinstance(c, kind)]


def ok(attempt: int) -> Opened:
    return Opened(attempt, 200, {"content-type": "text/event-stream"})


class TestPlainTurns:
    def test_streams_text_as_it_comes(self):
        bench = Bench()
        e = bench.exchange
        assert sent(e.start(0.0)) == [(1, "one", Cause.FIRST)]
        e.receive(ok(1), 0.1)
        first = e.receive(Received(1, b"t hello\n"), 0.2)
        assert [type(c) for c in first if not isinstance(c, Wait)] == [Head, Emit]
        assert seen(first) == b"hello\n"
        assert seen(e.receive(Received(1, b"t there\n"), 0.3)) == b"there\n"
        last = e.receive(Received(1, b"f\n"), 0.4)
        assert seen(last) == b"[finish]\n"
        assert of(last, Done) == [Done(clean=True)]
        assert e.record.verdict is Verdict.TEXT
        assert e.record.first_content == 0.2

    def test_plain_answers_wait_for_the_end(self):
        e = Bench(stream=False).exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        assert seen(e.receive(Received(1, b"t hello\n"), 0.2)) == b""
        last = e.receive(Received(1, b"f\n"), 0.3)
        assert seen(last) == b"hello\n[finish]\n"
        assert [c.stream for c in of(last, Head)] == [False]

    def test_a_body_that_ends_without_a_finish_is_an_error_after_text(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        e.receive(Received(1, b"t hello\n"), 0.2)
        last = e.receive(Ended(1), 0.3)
        assert seen(last) == b"[error upstream_cut]\n"
        assert of(last, Done) == [Done(clean=False)]
        assert e.record.verdict is Verdict.UPSTREAM_FAILED


class TestRetries:
    def test_a_refusal_is_replaced_and_never_seen(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        retry = e.receive(Received(1, b"t no tools here\n"), 0.2)
        assert sent(retry) == [(2, "one", Cause.REFUSAL)]
        assert seen(retry) == b""
        e.receive(ok(2), 0.3)
        out = e.receive(Received(2, b"c list\nf\n"), 0.4)
        assert seen(out) == b"[call list]\n[finish]\n"
        assert Abort(1) in out
        assert e.record.attempt_verdicts == [Verdict.REFUSED, Verdict.CALL]
        assert e.record.refusal == "fake"

    def test_retries_are_bounded_and_the_last_answer_is_delivered(self):
        e = Bench(max_retries=2).exchange
        e.start(0.0)
        for attempt in (1, 2):
            e.receive(ok(attempt), 0.1)
            assert sent(e.receive(Received(attempt, b"t no tools\nf\n"), 0.2)) == [(attempt + 1, "one", Cause.REFUSAL)]
        e.receive(ok(3), 0.3)
        out = e.receive(Received(3, b"t no tools\nf\n"), 0.4)
        assert seen(out) == b"no tools\n[finish]\n"
        assert e.record.verdict is Verdict.REFUSED
        assert e.record.attempts == 3

    def test_a_last_attempt_without_words_gives_way_to_the_held_first_answer(self):
        for stream in (True, False):
            e = Bench(max_retries=1, stream=stream).exchange
            e.start(0.0)
            e.receive(ok(1), 0.1)
            e.receive(Received(1, b"t no tools\nf\n"), 0.2)
            e.receive(ok(2), 0.3)
            out = e.receive(Received(2, b"f\n"), 0.4)
            assert seen(out) == b"no tools\n[finish]\n"
            assert e.record.verdict is Verdict.REFUSED
            assert e.record.attempt_verdicts == [Verdict.REFUSED, Verdict.EMPTY]

    def test_no_retry_after_text_was_released(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        e.receive(Received(1, b"t hello\n"), 0.2)
        out = e.receive(Received(1, b"t no tools\nf\n"), 0.3)
        assert sent(out) == []
        assert seen(out) == b"no tools\n[finish]\n"

    def test_a_failed_retry_falls_back_to_the_whole_first_answer(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        e.receive(Received(1, b"t no tools\n"), 0.2)
        e.receive(Received(1, b"t and a long explanation\nf\n"), 0.25)
        out = e.receive(Lost(2, UpstreamOutcome.CONNECT), 0.3)
        assert seen(out) == b"no tools\nand a long explanation\n[finish]\n"
        assert e.record.verdict is Verdict.REFUSED
        assert e.record.attempt_verdicts == [Verdict.REFUSED, Verdict.UPSTREAM_FAILED]

    def test_a_failed_retry_falls_back_to_a_first_answer_that_still_runs(self):
        for stream in (True, False):
            e = Bench(stream=stream).exchange
            e.start(0.0)
            e.receive(ok(1), 0.1)
            e.receive(Received(1, b"t no tools\n"), 0.2)
            e.receive(Opened(2, 500, {}), 0.3)
            out = e.receive(Ended(2), 0.4)
            out += e.receive(Received(1, b"t more\nf\n"), 0.5)
            assert seen(out) == b"no tools\nmore\n[finish]\n"
            assert of(out, Done) == [Done(clean=True)]

    def test_the_hold_ends_by_time(self):
        e = Bench(hold_s=8.0).exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        held = e.receive(Received(1, b"t maybe\n"), 1.0)
        assert seen(held) == b""
        assert of(held, Wait) == [Wait(9.0)]
        assert seen(e.receive(Tick(), 9.0)) == b"maybe\n"
        assert e.record.held_s == 8.0

    def test_the_deadline_of_the_turn_ends_retries(self):
        e = Bench(turn_deadline_s=5.0).exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        out = e.receive(Received(1, b"t no tools\nf\n"), 6.0)
        assert sent(out) == []
        assert e.record.verdict is Verdict.REFUSED


class TestFailures:
    def test_fails_over_before_the_first_byte(self):
        e = Bench(targets=("one", "two")).exchange
        e.start(0.0)
        assert sent(e.receive(Lost(1, UpstreamOutcome.CONNECT), 0.1)) == [(2, "two", Cause.FAILOVER)]

    def test_tries_the_same_upstream_once_more_when_the_wire_broke(self):
        e = Bench().exchange
        e.start(0.0)
        assert sent(e.receive(Lost(1, UpstreamOutcome.CUT), 0.1)) == [(2, "one", Cause.TRANSPORT)]
        out = e.receive(Lost(2, UpstreamOutcome.CUT), 0.2)
        assert [c.status for c in of(out, Head)] == [502]
        assert e.record.error is ErrorKind.UPSTREAM_CUT

    def test_an_http_error_keeps_its_status(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(Opened(1, 429, {"retry-after": "7"}), 0.1)
        e.receive(Received(1, b"{}"), 0.1)
        out = e.receive(Ended(1), 0.2)
        assert [c.status for c in of(out, Head)] == [429]
        assert e.record.verdict is Verdict.UPSTREAM_FAILED

    def test_a_refused_parameter_is_left_out_and_learned(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(Opened(1, 400, {}), 0.1)
        e.receive(Received(1, b"unknown field stream_options"), 0.1)
        out = e.receive(Ended(1), 0.2)
        assert of(out, Learn) == [Learn("one", "stream_options")]
        assert sent(out) == [(2, "one", Cause.DROPPED_PARAMETER)]
        assert [c.request.body for c in of(out, Send)] == [b"one:0:stream_options"]

    def test_a_client_that_leaves_aborts_every_attempt(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        e.receive(Received(1, b"t no tools\n"), 0.2)
        out = e.receive(ClientGone(), 0.3)
        assert set(of(out, Abort)) == {Abort(1), Abort(2)}
        assert e.record.verdict is Verdict.CLIENT_GONE
        assert len(e.record.attempt_verdicts) == e.record.attempts == 2

    def test_silence_of_the_upstream_ends(self):
        e = Bench(first_byte_s=3.0, keep_alive_first_s=100.0).exchange
        e.start(0.0)
        out = e.receive(Tick(), 3.0)
        assert Abort(1) in out
        assert [c.status for c in of(out, Head)] == [504]

    def test_draining_tells_the_client(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        e.receive(Received(1, b"t hello\n"), 0.2)
        out = e.receive(Draining(), 0.3)
        assert seen(out) == b"[error shutting_down]\n"
        assert of(out, Done) == [Done(clean=False)]

    def test_keep_alives_open_the_response_and_go_on(self):
        e = Bench(keep_alive_first_s=10.0, keep_alive_s=12.0).exchange
        assert of(e.start(0.0), Wait) == [Wait(10.0)]
        out = e.receive(Tick(), 10.0)
        assert [type(c) for c in out] == [Head, Emit, Wait]
        assert seen(e.receive(Tick(), 22.0)) == b"[alive]\n"
        e.receive(Opened(1, 500, {}), 23.0)
        late = e.receive(Ended(1), 23.0)
        assert seen(late) == b"[error upstream_error]\n"
        assert of(late, Done) == [Done(clean=False)]


class _Broken:
    name = "broken"
    per_attempt = True

    def prepare(self, turn, note):
        raise RuntimeError("prepare")

    def open(self, turn, note):
        return BrokenReceiver()


class _Doubling:
    name = "doubling"
    per_attempt = True

    def prepare(self, turn, note):
        return turn

    def open(self, turn, note):
        return self

    def feed(self, event):
        return [event, event]

    def close(self, end):
        return [end]


class TestFailsOpen:
    def test_a_stage_that_raises_is_noted_and_left_out(self):
        bench = Bench(extra=[_Broken()])
        e = bench.exchange
        assert len(sent(e.start(0.0))) == 1
        e.receive(ok(1), 0.1)
        out = e.receive(Received(1, b"t hello\nf\n"), 0.2)
        assert seen(out) == b"hello\n[finish]\n"
        failed = [fields for _, _, outcome, fields in bench.notes if outcome is Noted.STAGE_FAILED]
        assert [fields["stage"] for fields in failed] == ["broken", "broken"]
        assert [fields["error"] for fields in failed] == ["RuntimeError", "RuntimeError"]
        assert failed[0]["where"][-1].startswith("test_exchange.py:")
        assert failed[1]["where"][0].startswith("attempt.py:")

    def test_a_stage_that_gives_a_call_twice_is_found_out_and_the_turn_goes_on(self):
        bench = Bench(extra=[_Doubling()])
        e = bench.exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        assert of(e.receive(Received(1, b"c lookup\nf\n"), 0.2), Done) == [Done(clean=True)]
        assert [fields for _, _, outcome, fields in bench.notes if outcome is Noted.INVARIANT_BROKEN] == [
            {"invariant": Invariant.DUPLICATE_ID}
        ]

    def test_a_reader_that_raises_is_a_failed_attempt(self):
        e = Bench().exchange
        e.start(0.0)
        e.receive(ok(1), 0.1)
        out = e.receive(Received(1, b"boom\n"), 0.2)
        assert [c.status for c in of(out, Head)] == [500]


LINES = st.sampled_from([b"t hi\n", b"t maybe\n", b"t no tools\n", b"c list\n", b"f\n", b"x upstream_error\n", b"boom\n"])
STEPS = st.one_of(
    st.tuples(st.just("read"), st.lists(LINES, min_size=1, max_size=3).map(b"".join)),
    st.tuples(st.sampled_from(["open", "open500", "end", "cut", "connect", "tick", "gone", "drain"]), st.just(b"")),
)


@given(st.booleans(), st.integers(0, 3), st.lists(st.tuples(st.integers(1, 4), STEPS), max_size=30))
def test_law_attempts_add_up_and_nothing_replaces_what_was_seen(stream, budget, steps):
    bench = Bench(stream=stream, targets=("one", "two"), max_retries=budget)
    e = bench.exchange
    out = e.start(0.0)
    everything = list(out)
    now = 0.0
    opened: set[int] = set()
    for attempt, (kind, data) in steps:
        if attempt > e.record.attempts:
            continue
        now += 1.0
        happening = {
            "read": Received(attempt, data),
            "open": ok(attempt),
            "open500": Opened(attempt, 500, {}),
            "end": Ended(attempt),
            "cut": Lost(attempt, UpstreamOutcome.CUT),
            "connect": Lost(attempt, UpstreamOutcome.CONNECT),
            "tick": Tick(),
            "gone": ClientGone(),
            "drain": Draining(),
        }[kind]
        if kind.startswith("open") and attempt in opened:
            continue
        if kind == "read" and attempt not in opened:
            continue
        if kind.startswith("open"):
            opened.add(attempt)
        everything += e.receive(happening, now)
    everything += e.receive(Draining(), now + 1)
    content_at = [i for i, c in enumerate(everything) if isinstance(c, Emit) and b"[alive]" not in c.data]
    sends = [i for i, c in enumerate(everything) if isinstance(c, Send)]
    if content_at:
        assert all(i < content_at[0] for i in sends)
    retries = [c for c in everything if isinstance(c, Send) and c.cause is Cause.REFUSAL]
    assert len(retries) <= budget
    assert sum(isinstance(c, Done) for c in everything) == 1
    assert isinstance(everything[-1], Done)
    assert sum(isinstance(c, Head) for c in everything) <= 1
    record = e.record
    assert record.verdict is not None
    assert len(record.attempt_verdicts) == record.attempts == len(sends)
    ended = Counter(attempt for _, attempt, outcome, _ in bench.notes if outcome is Noted.ATTEMPT_ENDED)
    assert ended == Counter(range(1, record.attempts + 1))
    assert not any(outcome is Noted.STAGE_FAILED and fields["stage"] == "engine" for _, _, outcome, fields in bench.notes)

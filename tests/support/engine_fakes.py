"""Small stages for tests of the engine: an upstream whose bytes are events spelled out, a judge that follows a script, a plain encoder.

Bytes of an answer are lines: `t TEXT` a text delta, `c NAME` a call, `f` the finish, `x KIND` a failure. The encoder writes one line an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.chain import Chain
from pipeline.events import CallDone, End, Event, Failed, Finish, TextDelta
from pipeline.exchange import Exchange
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stage import Accept, Note, Outcome, Receiver, Retry, UpstreamRequest
from pipeline.turn import Correction, Emulation, Message, Role, Text, Turn
from pipeline.verdicts import Api, Cause, ErrorKind, Hold, RefusalKind, Verdict


class FakeNormalize:
    name = "normalize"
    per_attempt = False

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream

    def prepare(self, turn: Turn, note: Note) -> Turn:
        import msgspec

        return msgspec.structs.replace(
            turn,
            model="m",
            stream=self._stream,
            messages=(Message(Role.USER, (Text("hello"),)),),
            emulation=Emulation(dialect="json_action", tools=()),
        )

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return None


class FakeReader:
    def __init__(self) -> None:
        self._ended = False
        self._at = 0

    finishing = False

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        for line in data.decode().splitlines():
            if self._ended:
                break
            kind, _, rest = line.partition(" ")
            if kind == "t":
                events.append(TextDelta(rest))
            elif kind == "c":
                events.append(CallDone(self._at, rest, "{}"))
                self._at += 1
            elif kind == "f":
                events.append(Finish())
                self._ended = True
            elif kind == "x":
                events.append(Failed(ErrorKind(rest), "failed"))
                self._ended = True
            elif kind == "boom":
                raise RuntimeError("reader")
        return events

    def close(self) -> list[Event]:
        return [] if self._ended else [Failed(ErrorKind.UPSTREAM_CUT, "cut", retryable=True)]


class FakeUpstream:
    name = "upstream"
    per_attempt = False

    def prepare(self, turn: Turn, note: Note) -> Turn:
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return None

    def build(self, turn: Turn, traits: UpstreamTraits, without: frozenset[str]) -> UpstreamRequest:
        number = turn.correction.number if turn.correction else 0
        return UpstreamRequest(path="/x", body=f"{traits.name}:{number}:{','.join(sorted(without))}".encode(), stream=turn.stream)

    def read(self, turn: Turn, traits: UpstreamTraits, content_type: str, note: Note) -> FakeReader:
        return FakeReader()

    def failure(self, traits: UpstreamTraits, status: int, headers: Mapping[str, str], body: bytes) -> Failed:
        kind = ErrorKind.RATE_LIMIT if status == 429 else ErrorKind.UPSTREAM_ERROR
        return Failed(kind, "refused", status=status, dropped="stream_options" if b"stream_options" in body else None)


class FakeWatch:
    """Holds text that starts with `maybe`, refuses on `no tools`, releases at anything else."""

    def __init__(self) -> None:
        self.hit: tuple[RefusalKind, str, str] | None = None

    def feed(self, event: Event) -> Hold:
        if isinstance(event, TextDelta):
            if event.text.startswith("no tools"):
                self.hit = (RefusalKind.HARD, "en", "fake")
                return Hold.REFUSE
            if event.text.startswith("maybe"):
                return Hold.HOLD
            return Hold.RELEASE
        return Hold.RELEASE if isinstance(event, CallDone) else Hold.HOLD


class FakeJudge:
    name = "retry_on_refusal"
    per_attempt = False

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def prepare(self, turn: Turn, note: Note) -> Turn:
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return None

    def watch(self, turn: Turn, note: Note) -> FakeWatch:
        return FakeWatch()

    def judge(self, turn: Turn, outcome: Outcome, note: Note) -> Retry | Accept:
        self.outcomes.append(outcome)
        refused = "no tools" in outcome.text
        hit = (RefusalKind.HARD, "en", "fake") if refused else None
        bad = refused or (not outcome.text and not outcome.calls)
        verdict = Verdict.CALL if outcome.calls else (Verdict.REFUSED if outcome.text else Verdict.EMPTY) if bad else Verdict.TEXT
        if bad and not outcome.released and outcome.retries_left > 0 and outcome.seconds_left > 0:
            return Retry(Cause.REFUSAL, Correction(Cause.REFUSAL, outcome.attempt), verdict, hit=hit)
        return Accept(verdict, hit=hit)


class FakeEncoder:
    content_type = "text/event-stream"

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._kept = b""
        self.stopped = False
        self.calls_written = 0

    def feed(self, events: Sequence[Event]) -> bytes:
        data = b"".join(_line(event) for event in events)
        self.calls_written += sum(isinstance(event, CallDone) for event in events)
        if self._stream:
            return data
        self._kept += data
        return b""

    def finish(self, finish: Finish) -> bytes:
        return self._kept + b"[finish]\n"

    def fail(self, failed: Failed) -> bytes:
        return f"[error {failed.kind}]\n".encode()

    def keep_alive(self, silence_s: float) -> bytes:
        return b"[alive]\n" if self._stream else b""


def _line(event: Event) -> bytes:
    if isinstance(event, TextDelta):
        return f"{event.text}\n".encode()
    if isinstance(event, CallDone):
        return f"[call {event.name}]\n".encode()
    return b""


class FakeEncoding:
    name = "re_encode"
    per_attempt = False

    def prepare(self, turn: Turn, note: Note) -> Turn:
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:
        return None

    def encode(self, turn: Turn, note: Note) -> FakeEncoder:
        return FakeEncoder(stream=turn.stream)


class BrokenReceiver:
    def feed(self, event: Event) -> list[Event]:
        raise RuntimeError("receiver")

    def close(self, end: End) -> list[Event]:
        raise RuntimeError("receiver")


class Bench:
    """An Exchange over fakes, with its notes collected."""

    def __init__(self, *, stream: bool = True, targets: Sequence[str] = ("one",), extra: Sequence[object] = (), **settings: object) -> None:
        self.judge = FakeJudge()
        stages = [FakeNormalize(stream=stream), FakeUpstream(), *extra, self.judge, FakeEncoding()]
        self.chain = Chain(stages, Settings(**settings))  # type: ignore[arg-type]
        self.notes: list[tuple[str, int, object, dict[str, object]]] = []
        turn = Turn(api=Api.OPENAI_CHAT, request_id="req_1")
        self.exchange = Exchange(self.chain, turn, [UpstreamTraits(name=name) for name in targets], self._bind, {}, 0.0)

    def _bind(self, stage: str, attempt: int) -> Note:
        def note(outcome: object, /, **fields: object) -> None:
            self.notes.append((stage, attempt, outcome, fields))

        return note

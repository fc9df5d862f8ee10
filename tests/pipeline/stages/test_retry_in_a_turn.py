"""The judge inside the engine: what the client sees of discarded attempts, budgets, notes that add up (R4 to R7, R10)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from pipeline.chain import Chain
from pipeline.commands import Done, Emit, Ended, Opened, Received, Send, Tick
from pipeline.exchange import Exchange
from pipeline.refusals.classifier import Classifier
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.retry_on_refusal import RetryOnRefusal
from pipeline.turn import ChoiceMode, Emulation, Message, Role, Text, Tool, ToolChoice, Turn
from pipeline.verdicts import Api, Cause, HistoryState, Noted, SkipReason, Verdict
from tests.support.engine_fakes import FakeEncoding, FakeUpstream

REFUSAL = "I don't have access to any tools."
TOOLS = tuple(Tool(name=name) for name in ("read_file", "run_shell"))


class Prepared:
    """Stands for the stages before the judge: a turn that offers tools."""

    name = "normalize"
    per_attempt = False

    def __init__(self, **fields):
        self._fields = {
            "messages": (Message(Role.USER, (Text("hello"),)),),
            "tools": TOOLS,
            "emulation": Emulation("json_action", TOOLS),
        } | fields

    def prepare(self, turn, note):
        return msgspec.structs.replace(turn, **self._fields)

    def open(self, turn, note):
        return None


class Played:
    """A turn whose attempts answer from a script: each a list of reads, spelled as the fake upstream reads them."""

    def __init__(self, *answers, stream=True, settings=None, **fields):
        settings = settings or Settings()
        chain = Chain([Prepared(stream=stream, **fields), FakeUpstream(), RetryOnRefusal(settings), FakeEncoding()], settings)
        self.notes = []
        turn = Turn(api=Api.OPENAI_CHAT, request_id="req_1")
        self.exchange = Exchange(chain, turn, [UpstreamTraits()], self._bind, {}, 0.0)
        self.sends, self.seen, self.done, self.sent_after_release = [], b"", 0, 0
        waiting = []
        self._take(self.exchange.start(0.0), waiting)
        while waiting:
            number = waiting.pop(0)
            reads = answers[min(number, len(answers)) - 1]
            self._take(self.exchange.receive(Opened(number, 200, {"content-type": "text/event-stream"}), 0.1), waiting)
            for read in reads:
                self._take(self.exchange.receive(Received(number, read), 0.2), waiting)
            self._take(self.exchange.receive(Ended(number), 0.3), waiting)
            self._take(self.exchange.receive(Tick(), 0.4), waiting)

    def _bind(self, stage, attempt):
        def note(outcome, /, **fields):
            self.notes.append((outcome, fields))

        return note

    def of(self, outcome):
        return [fields for seen, fields in self.notes if seen is outcome]

    def _take(self, commands, waiting):
        for command in commands:
            if isinstance(command, Send):
                self.sends.append(command.cause)
                self.sent_after_release += b"\n" in self.seen
                waiting.append(command.attempt)
            elif isinstance(command, Emit):
                self.seen += command.data
            elif isinstance(command, Done):
                self.done += 1


def text(*pieces):
    return [b"".join(f"t {piece}\n".encode() for piece in pieces), b"f\n"]


CALL = [b"c read_file\n", b"f\n"]


def test_the_client_sees_nothing_of_a_refusal():
    for stream in (True, False):
        played = Played(text(REFUSAL), CALL, stream=stream)
        assert played.sends == [Cause.FIRST, Cause.REFUSAL]
        assert played.seen == b"[call read_file]\n[finish]\n"
        assert played.exchange.record.verdict is Verdict.CALL
        assert played.of(Noted.REFUSAL_HIT) == [{"kind": "hard", "lang": "en", "phrase": "en-no-tools"}]
        assert played.of(Noted.RETRY) == [{"cause": Cause.REFUSAL, "number": 1}]
        assert played.of(Noted.RETRY_ENDED) == [{"result": "recovered"}]


def test_a_refusal_in_many_pieces_is_the_same():
    played = Played([f"t {piece}\n".encode() for piece in ("I don", "'t have acc", "ess to any", " tools.")] + [b"f\n"], CALL)
    assert played.sends == [Cause.FIRST, Cause.REFUSAL]
    assert b"tools" not in played.seen


def test_refusing_for_ever_is_bounded_and_the_last_answer_is_delivered():
    for stream in (True, False):
        played = Played(text(REFUSAL), stream=stream)
        assert played.sends == [Cause.FIRST, Cause.REFUSAL, Cause.REFUSAL]
        assert played.seen.startswith(REFUSAL.encode())
        assert played.exchange.record.verdict is Verdict.REFUSED
        assert played.of(Noted.RETRY_SKIPPED) == [{"why": SkipReason.BUDGET, "cause": Cause.REFUSAL}]
        assert len(played.of(Noted.REFUSAL_HIT)) == 3


def test_a_long_refusal_is_acted_on_while_it_is_still_being_written():
    talk = "Tools are what people in workshops use to build things of all sorts. " * 4
    played = Played([f"t {REFUSAL} {talk}\n".encode(), b"t more\n", b"f\n"], CALL)
    assert played.sends == [Cause.FIRST, Cause.REFUSAL]
    assert played.seen == b"[call read_file]\n[finish]\n"


def test_ordinary_text_streams_and_is_never_asked_again():
    said = ["The quarterly report shows that revenue grew. ", REFUSAL]
    played = Played(text(*said), CALL)
    assert played.sends == [Cause.FIRST]
    assert REFUSAL.encode() in played.seen


def test_a_demanded_call_is_waited_for():
    played = Played(text("Hello!"), text("The answer is 4."), CALL, tool_choice=ToolChoice(ChoiceMode.REQUIRED))
    assert played.sends == [Cause.FIRST, Cause.MISSING_CALL, Cause.MISSING_CALL]
    assert played.seen == b"[call read_file]\n[finish]\n"


def test_a_demand_never_met_is_stated():
    played = Played(text("Hello!"), tool_choice=ToolChoice(ChoiceMode.NAMED, "read_file"))
    assert played.exchange.record.verdict is Verdict.MISSING_CALL
    failing = Played(
        text("Hello!"), tool_choice=ToolChoice(ChoiceMode.NAMED, "read_file"), settings=Settings(required_unmet="error"), stream=False
    )
    assert failing.exchange.record.status == 502


def test_another_tool_than_the_named_one_is_asked_again():
    played = Played([b"c run_shell\n", b"f\n"], CALL, tool_choice=ToolChoice(ChoiceMode.NAMED, "read_file"))
    assert played.sends == [Cause.FIRST, Cause.WRONG_TOOL]
    assert played.seen == b"[call read_file]\n[finish]\n"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("lesser", [text(""), text("\u200b\u200b"), [b"f\n"]])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("choice", [ToolChoice(ChoiceMode.REQUIRED), ToolChoice(ChoiceMode.NAMED, "read_file")])
def test_words_that_were_held_are_not_lost_to_an_answer_without_any(stream, lesser, before, choice):
    played = Played(*[lesser] * before, text("The answer is 42."), lesser, stream=stream, tool_choice=choice)
    assert played.seen == b"The answer is 42.\n[finish]\n"
    assert played.exchange.record.verdict is Verdict.MISSING_CALL


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after", [text(""), [b"x upstream_error\n"]])
def test_a_demand_never_met_is_stated_whichever_answer_is_delivered(stream, after):
    """R9: also where the first answer, whatever it was in itself, is what is left."""
    required = ToolChoice(ChoiceMode.REQUIRED)
    played = Played(text(REFUSAL), after, stream=stream, tool_choice=required)
    assert (played.seen, played.exchange.record.verdict) == (f"{REFUSAL}\n[finish]\n".encode(), Verdict.MISSING_CALL)
    failing = Played(text(REFUSAL), after, stream=stream, tool_choice=required, settings=Settings(required_unmet="error"))
    assert failing.exchange.record.status == 502


@pytest.mark.parametrize("nothing", ["", " ", "\u200b\u200b", "\u2060\ufeff", "\u200b" * 50])
@pytest.mark.parametrize("stream", [True, False])
def test_what_nobody_can_see_is_empty(nothing, stream):
    played = Played(text(nothing), CALL, stream=stream)
    assert played.sends == [Cause.FIRST, Cause.EMPTY]
    assert played.seen == b"[call read_file]\n[finish]\n"


@pytest.mark.parametrize("choice", [ToolChoice(), ToolChoice(ChoiceMode.REQUIRED)])
@pytest.mark.parametrize(
    "answers",
    [
        [text(REFUSAL), CALL],
        [text(REFUSAL)],
        [text(REFUSAL), text("It is 4.")],
        [text("", "I can", "'t see it. ", REFUSAL), text("")],
        [CALL],
    ],
)
def test_the_record_tells_the_refusal_streamed_and_not_streamed_alike(answers, choice):
    told = []
    for stream in (True, False):
        played = Played(*answers, stream=stream, tool_choice=choice)
        record = played.exchange.record
        told.append((record.refusal_kind, record.refusal, record.verdict, len(played.of(Noted.REFUSAL_HIT))))
        assert (record.refusal is not None) == bool(played.of(Noted.REFUSAL_HIT))
    assert told[0] == told[1]


def test_an_answer_in_one_read_is_classified_once(monkeypatch):
    looked = []
    classify = Classifier.classify
    monkeypatch.setattr(
        Classifier, "classify", lambda self, text, *rest, **more: looked.append(text) or classify(self, text, *rest, **more)
    )
    for stream in (True, False):
        looked.clear()
        Played([f"t {REFUSAL}\nf\n".encode()], CALL, stream=stream)
        assert looked == [REFUSAL]


ANSWERS = st.sampled_from(
    [
        text(REFUSAL),
        text("I can only provide guidance in text form."),
        text("The quarterly report shows that revenue grew."),
        text("I found it", " in the file."),
        text("Sorry, ", REFUSAL),
        text(""),
        CALL,
        [b"c no_such_tool\n", b"f\n"],
        [b"t Let me see.\n", b"c run_shell\n", b"f\n"],
        [b"t I don't have", b" access to your files.\n", b"x upstream_cut\n"],
        [b"x upstream_error\n"],
        [b"t The quarterly report shows\n", b"x upstream_cut\n"],
    ]
)
CHOICES = st.sampled_from([ToolChoice(), ToolChoice(ChoiceMode.REQUIRED), ToolChoice(ChoiceMode.NAMED, "read_file")])


@profile(max_examples=400, deadline=None)
@given(
    st.lists(ANSWERS, min_size=1, max_size=5),
    CHOICES,
    st.sampled_from(list(HistoryState)),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["forward", "retry"]),
)
def test_no_retry_after_release_none_beyond_the_budget_and_all_add_up(answers, choice, state, retries, stream, unknown):
    settings = Settings(max_retries=retries, unknown_tools=unknown)
    played = Played(*answers, stream=stream, settings=settings, tool_choice=choice, state=state)
    record = played.exchange.record
    asked = [cause for cause in played.sends if cause not in (Cause.FIRST, Cause.TRANSPORT, Cause.FAILOVER)]
    assert played.sent_after_release == 0
    assert len(asked) <= retries
    assert asked == [fields["cause"] for fields in played.of(Noted.RETRY)]
    assert played.done == 1
    assert record.verdict is not None
    assert len(record.attempt_verdicts) == record.attempts == len(played.sends)

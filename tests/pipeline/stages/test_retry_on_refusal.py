"""The judge: reasons, context, corrections, skips (R1 to R6)."""

import msgspec
import pytest

from pipeline.events import BlockSeen, CallDone, Failed, Finish, TextDelta
from pipeline.settings import Settings
from pipeline.stage import Accept, Judge, Outcome, Retry, Stage
from pipeline.stages.retry_on_refusal import RetryOnRefusal
from pipeline.turn import ChoiceMode, Correction, Emulation, Tool, ToolChoice, Turn
from pipeline.verdicts import (
    Api,
    BlockOutcome,
    Cause,
    ErrorKind,
    FinishReason,
    HistoryState,
    Hold,
    Noted,
    RefusalKind,
    SkipReason,
    Verdict,
)
from tests.support.requests_read import Notes

TOOLS = tuple(Tool(name=name) for name in ("read_file", "run_shell"))
REFUSAL = "I don't have access to any tools."
HIT = (RefusalKind.HARD, "en", "en-no-tools")
SOFT = "I can only provide guidance in text form."
NAMED = ToolChoice(ChoiceMode.NAMED, "read_file")
REQUIRED = ToolChoice(ChoiceMode.REQUIRED)
BLOCK = '```json action\n{"tool": }\n```'


def turn(*, injected=True, emulated=True, dialect="json_action", **fields):
    emulation = Emulation(dialect, TOOLS, injected=injected) if emulated else None
    return Turn(Api.OPENAI_CHAT, tools=TOOLS, emulation=emulation, **fields)


def outcome(text="", calls=(), blocks=(), reason=FinishReason.STOP, end=None, **fields):
    done = tuple(CallDone(at, name, "{}") for at, name in enumerate(calls))
    given = {"retries_left": 2, "seconds_left": 100.0} | fields
    return Outcome(1, text, done, tuple(blocks), end or Finish(reason), **given)


def block(kind=BlockOutcome.MALFORMED, **fields):
    return BlockSeen("json_action", kind, (0, len(BLOCK)), **{"text": BLOCK} | fields)


def judge(about, came, settings=None, notes=None):
    return RetryOnRefusal(settings or Settings()).judge(about, came, Notes() if notes is None else notes)


def test_it_is_a_stage_and_the_judge():
    stage = RetryOnRefusal(Settings())
    assert isinstance(stage, Stage) and isinstance(stage, Judge)
    assert (stage.name, stage.per_attempt) == ("retry_on_refusal", False)
    one = turn()
    assert stage.prepare(one, Notes()) is one
    assert stage.open(one, Notes()) is None


# --- what is asked for again (R1) ---

AGAIN = [
    (turn(), outcome(REFUSAL), Cause.REFUSAL, Verdict.REFUSED),
    (turn(), outcome(SOFT), Cause.SOFT_REFUSAL, Verdict.REFUSED),
    (turn(tool_choice=REQUIRED), outcome("Hello!"), Cause.MISSING_CALL, Verdict.MISSING_CALL),
    (turn(tool_choice=REQUIRED), outcome(REFUSAL), Cause.REFUSAL, Verdict.REFUSED),
    (turn(tool_choice=NAMED), outcome(calls=["run_shell"]), Cause.WRONG_TOOL, Verdict.UNKNOWN_TOOL),
    (turn(tool_choice=ToolChoice(allowed=frozenset({"read_file"}))), outcome(calls=["run_shell"]), Cause.WRONG_TOOL, Verdict.UNKNOWN_TOOL),
    (turn(), outcome(BLOCK, blocks=[block()]), Cause.MALFORMED, Verdict.MALFORMED),
    (turn(), outcome(BLOCK, blocks=[block(BlockOutcome.UNTERMINATED)]), Cause.MALFORMED, Verdict.MALFORMED),
    (turn(), outcome(BLOCK, blocks=[block(BlockOutcome.PLACEHOLDER)]), Cause.MALFORMED, Verdict.MALFORMED),
    (turn(), outcome(" \n"), Cause.EMPTY, Verdict.EMPTY),
    (turn(), outcome("", reasoned=True), Cause.EMPTY, Verdict.EMPTY),
    (turn(state=HistoryState.RESULTS_RECEIVED), outcome(REFUSAL), Cause.REFUSAL, Verdict.REFUSED),
    (turn(state=HistoryState.RESULTS_RECEIVED, tool_choice=REQUIRED), outcome("It is 4."), Cause.MISSING_CALL, Verdict.MISSING_CALL),
]


@pytest.mark.parametrize(("about", "came", "cause", "verdict"), AGAIN)
def test_what_is_asked_for_again(about, came, cause, verdict):
    notes = Notes()
    decision = judge(about, came, notes=notes)
    assert isinstance(decision, Retry)
    assert (decision.cause, decision.verdict, decision.correction.cause) == (cause, verdict, cause)
    assert notes.of(Noted.RETRY) == [{"cause": cause, "number": 1}]


# --- what stands ---

STANDS = [
    (turn(), outcome(calls=["read_file"]), Verdict.CALL),
    (turn(), outcome("I don't have access. Wait.", calls=["read_file"]), Verdict.CALL),
    (turn(), outcome(calls=["no_such_tool"]), Verdict.CALL),
    (turn(tool_choice=NAMED), outcome(calls=["run_shell", "read_file"]), Verdict.CALL),
    (turn(), outcome(BLOCK, calls=["read_file"], blocks=[block()]), Verdict.CALL),
    (turn(), outcome("It is 4 degrees in Oslo."), Verdict.TEXT),
    (turn(), outcome("Which file do you mean?"), Verdict.TEXT),
    (turn(), outcome("I can't help with getting into someone else's account."), Verdict.TEXT),
    (turn(), outcome("Let me check that file."), Verdict.TEXT),
    (turn(), outcome("An example:", blocks=[block(BlockOutcome.FENCED_EXAMPLE)]), Verdict.TEXT),
    (turn(), outcome("text", blocks=[block(BlockOutcome.UNKNOWN_TOOL)]), Verdict.UNKNOWN_TOOL),
    (turn(state=HistoryState.RESULTS_RECEIVED), outcome("All four tests pass."), Verdict.TEXT),
    (turn(), outcome(BLOCK, blocks=[block(BlockOutcome.UNTERMINATED)], reason=FinishReason.LENGTH), Verdict.TRUNCATED),
    (turn(), outcome("", reason=FinishReason.LENGTH), Verdict.TRUNCATED),
    (turn(), outcome("", reason=FinishReason.CONTENT_FILTER), Verdict.EMPTY),
    (turn(), outcome(REFUSAL, reason=FinishReason.CONTENT_FILTER), Verdict.TEXT),
    (turn(), outcome("x", end=Failed(ErrorKind.UPSTREAM_CUT, "cut")), Verdict.UPSTREAM_FAILED),
    (turn(), outcome("x", end=Failed(ErrorKind.BROKEN_CALL, "broken")), Verdict.MALFORMED),
    (turn(emulated=False), outcome(REFUSAL), Verdict.TEXT),
    (turn(emulated=False), outcome(""), Verdict.EMPTY),
]


@pytest.mark.parametrize(("about", "came", "verdict"), STANDS)
def test_what_stands(about, came, verdict):
    notes = Notes()
    assert judge(about, came, notes=notes) == Accept(verdict)
    assert notes == []


def test_native_calls_are_told_apart():
    came = msgspec.structs.replace(outcome(), calls=(CallDone(0, "read_file", "{}", native=True),))
    assert judge(turn(emulated=False), came) == Accept(Verdict.NATIVE_CALL)


# --- rescue: native tools, only a broken leak is asked for again ---


def test_rescue_asks_again_for_a_broken_leak_alone():
    rescue = turn(injected=False)
    assert judge(rescue, outcome(BLOCK, blocks=[block()])).cause is Cause.MALFORMED
    assert judge(rescue, outcome(REFUSAL)) == Accept(Verdict.TEXT)
    assert judge(turn(injected=False, tool_choice=REQUIRED), outcome("Hello")) == Accept(Verdict.TEXT)
    assert judge(rescue, outcome(BLOCK, calls=["read_file"], blocks=[block()])) == Accept(Verdict.CALL)
    assert judge(rescue, outcome(BLOCK, blocks=[block()], reason=FinishReason.LENGTH)) == Accept(Verdict.TRUNCATED)


# --- settings ---


def test_undeclared_tools_are_asked_again_where_the_route_says_so():
    settings = Settings(unknown_tools="retry")
    decision = judge(turn(), outcome(calls=["no_such_tool"]), settings)
    assert (decision.cause, decision.verdict) == (Cause.WRONG_TOOL, Verdict.UNKNOWN_TOOL)
    assert "no_such_tool" in decision.correction.fault
    as_text = outcome("text", blocks=[block(BlockOutcome.UNKNOWN_TOOL, names=("no_such_tool",))])
    assert judge(turn(), as_text, settings).correction.fault == "it called no_such_tool"
    assert judge(turn(), outcome(calls=["no_such_tool", "read_file"]), settings) == Accept(Verdict.CALL)


def test_announcements_are_asked_again_once_where_the_route_says_so():
    settings = Settings(retry_announcements=True)
    announced = outcome("Let me check that file.")
    assert judge(turn(), announced, settings).cause is Cause.MISSING_CALL
    assert judge(turn(correction=Correction(Cause.MISSING_CALL, 1)), announced, settings) == Accept(Verdict.TEXT)
    assert judge(turn(), outcome("Shall I check that file?"), settings) == Accept(Verdict.TEXT)
    assert judge(turn(), outcome("调查一下吗？"), settings) == Accept(Verdict.TEXT)
    assert judge(turn(), outcome("It is a long answer. " * 20), settings) == Accept(Verdict.TEXT)
    assert judge(turn(state=HistoryState.RESULTS_RECEIVED), announced, settings) == Accept(Verdict.TEXT)
    assert judge(turn(), announced) == Accept(Verdict.TEXT)


# --- notes and skips (R5) ---


def test_a_hit_is_noted_by_its_id():
    notes = Notes()
    judge(turn(), outcome("我没有可用的工具。"), notes=notes)
    assert notes.of(Noted.REFUSAL_HIT) == [{"kind": RefusalKind.HARD, "lang": "zh", "phrase": "zh-no-tools"}]


@pytest.mark.parametrize(
    ("settings", "fields", "why"),
    [
        (Settings(max_retries=0), {"retries_left": 0}, SkipReason.OFF),
        (Settings(), {"retries_left": 0}, SkipReason.BUDGET),
        (Settings(), {"seconds_left": 0.0}, SkipReason.DEADLINE),
        (Settings(), {"released": True}, SkipReason.ALREADY_STREAMED),
    ],
)
def test_a_skipped_retry_says_why(settings, fields, why):
    notes = Notes()
    assert judge(turn(), outcome(REFUSAL, **fields), settings, notes) == Accept(Verdict.REFUSED, Cause.REFUSAL, why, hit=HIT)
    assert notes.of(Noted.RETRY_SKIPPED) == [{"why": why, "cause": Cause.REFUSAL}]
    assert notes.of(Noted.RETRY) == []


@pytest.mark.parametrize(("text", "failed", "cause"), [(SOFT, False, Cause.SOFT_REFUSAL), (REFUSAL, True, Cause.REFUSAL)])
def test_after_results_what_need_not_be_pressed_is_told(text, failed, cause):
    notes = Notes()
    decision = judge(turn(state=HistoryState.RESULTS_RECEIVED, results_failed=failed), outcome(text), notes=notes)
    assert decision == Accept(Verdict.TEXT, cause, SkipReason.NOT_REQUIRED)
    assert notes == [(Noted.RETRY_SKIPPED, {"why": SkipReason.NOT_REQUIRED, "cause": cause})]


@pytest.mark.parametrize(
    "came",
    [
        outcome("Hello", retries_left=0),
        outcome(REFUSAL, retries_left=0),
        outcome("", retries_left=0),
        outcome(calls=["run_shell"], retries_left=0),
    ],
)
def test_a_demand_never_met_is_stated_whatever_came_instead(came):
    assert judge(turn(tool_choice=NAMED), came).verdict is Verdict.MISSING_CALL


# --- corrections (R4) ---


def test_a_malformed_block_is_quoted_with_its_fault_and_place():
    seen = block(fault="a value is missing", fault_at=BLOCK.index("}"))
    correction = judge(turn(), outcome(f"Well. {BLOCK}", blocks=[seen])).correction
    assert correction.fault == "a value is missing (line 2, column 10 of the block, at })"
    assert correction.discarded == BLOCK
    assert (correction.neutral, correction.dialect, correction.answer_allowed) == (False, None, False)


def test_the_named_tool_is_carried():
    assert judge(turn(tool_choice=NAMED), outcome("Hello")).correction.tool == "read_file"
    assert judge(turn(tool_choice=REQUIRED), outcome("Hello")).correction.tool is None


def test_the_second_correction_is_neutral_and_shows_no_refusal():
    first = judge(turn(), outcome(REFUSAL)).correction
    assert (first.number, first.neutral, first.discarded) == (1, False, REFUSAL)
    second = judge(turn(correction=first), outcome(REFUSAL)).correction
    assert (second.number, second.neutral, second.discarded) == (2, True, "")


def test_distrust_and_the_routes_own_choice_are_neutral_at_once():
    assert judge(turn(), outcome("This message looks like a prompt injection attempt.")).correction.neutral
    assert judge(turn(), outcome(REFUSAL), Settings(neutral_contract=True)).correction.neutral


def test_a_second_malformed_block_changes_the_dialect_and_it_stays_changed():
    came = outcome(BLOCK, blocks=[block()])
    first = judge(turn(), came).correction
    assert first.dialect is None
    second = judge(turn(correction=first), came).correction
    assert second.dialect == "dsml"
    third = judge(turn(correction=second, dialect="dsml"), outcome(REFUSAL)).correction
    assert third.dialect == "dsml"
    assert judge(turn(correction=first), came, Settings(dialects=("json_action",))).correction.dialect is None


def test_a_plain_answer_is_allowed_where_it_would_do():
    returned = {"state": HistoryState.RESULTS_RECEIVED}
    assert judge(turn(), outcome("")).correction.answer_allowed
    assert judge(turn(**returned), outcome(REFUSAL)).correction.answer_allowed
    assert not judge(turn(), outcome(REFUSAL)).correction.answer_allowed
    assert not judge(turn(tool_choice=REQUIRED, **returned), outcome("")).correction.answer_allowed
    assert not judge(turn(**returned), outcome(BLOCK, blocks=[block()])).correction.answer_allowed


# --- the watch (R6) ---


def watched(about, *events, settings=None):
    watch = RetryOnRefusal(settings or Settings()).watch(about, Notes())
    answers = [watch.feed(event) for event in events]
    return answers[-1]


def test_text_is_held_only_where_a_retry_may_follow():
    maybe = TextDelta("I don't")
    assert watched(turn(), maybe) is Hold.HOLD
    assert watched(turn(emulated=False), maybe) is Hold.RELEASE
    assert watched(turn(injected=False), maybe) is Hold.RELEASE
    assert watched(turn(), maybe, settings=Settings(max_retries=0)) is Hold.RELEASE
    assert watched(turn(correction=Correction(Cause.REFUSAL, 2)), maybe) is Hold.RELEASE
    assert watched(turn(correction=Correction(Cause.REFUSAL, 1)), maybe) is Hold.HOLD


def test_a_mandatory_call_is_waited_for_even_on_the_last_attempt():
    last = turn(tool_choice=REQUIRED, correction=Correction(Cause.REFUSAL, 2))
    assert watched(last, TextDelta("Hello there, this is a long text that says nothing at all.")) is Hold.HOLD
    assert watched(last, CallDone(0, "read_file", "{}")) is Hold.RELEASE


def test_a_wrong_call_is_held_for_another_try():
    assert watched(turn(tool_choice=NAMED), CallDone(0, "run_shell", "{}")) is Hold.HOLD
    assert watched(turn(), CallDone(0, "other", "{}"), settings=Settings(unknown_tools="retry")) is Hold.HOLD
    assert watched(turn(), CallDone(0, "other", "{}")) is Hold.RELEASE


def test_a_leaked_block_is_held_in_rescue_too():
    assert watched(turn(injected=False), block(), TextDelta(BLOCK)) is Hold.HOLD


def test_short_announcements_are_held_where_they_may_be_asked_again():
    said = TextDelta("The quarterly report shows that revenue grew.")
    assert watched(turn(), said) is Hold.RELEASE
    assert watched(turn(), said, settings=Settings(retry_announcements=True)) is Hold.HOLD


def test_the_bound_is_the_routes():
    said = TextDelta("I'm sorry " + "and " * 20)
    assert watched(turn(), said) is Hold.HOLD
    assert watched(turn(), said, settings=Settings(hold_chars=40)) is Hold.RELEASE


# --- strict tools (X35) ---

EXACT = Tool(
    name="add",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
    strict=True,
)


def strict_turn(**fields):
    return msgspec.structs.replace(turn(**fields), emulation=Emulation("json_action", (EXACT, *TOOLS)))


def called(*calls, **fields):
    done = tuple(CallDone(at, name, arguments) for at, (name, arguments) in enumerate(calls))
    return msgspec.structs.replace(outcome(**fields), calls=done)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "`n` is missing"),
        ('{"n": "x"}', "`n` does not fit"),
        ('{"n": 1, "m": 2}', "`m` is no parameter"),
        ('{"m": "secret"}', "`n` is missing, `m` is no parameter"),
    ],
)
def test_arguments_that_break_a_strict_schema_are_asked_for_again(arguments, words):
    decision = judge(strict_turn(), called(("read_file", "{}"), ("add", arguments)))
    assert isinstance(decision, Retry)
    assert (decision.cause, decision.verdict) == (Cause.MALFORMED, Verdict.BAD_ARGUMENTS)
    assert decision.correction.fault == f"the arguments of add do not fit its schema: {words}"
    assert (decision.correction.discarded, decision.correction.dialect, decision.correction.answer_allowed) == ("", None, False)


def test_a_second_misfit_keeps_the_dialect():
    second = strict_turn(correction=Correction(Cause.MALFORMED, 1))
    decision = judge(second, called(("add", "{}"), retries_left=1))
    assert isinstance(decision, Retry) and decision.correction.dialect is None and decision.correction.neutral


@pytest.mark.parametrize(("choice", "name"), [(ToolChoice(), "add"), (REQUIRED, "add"), (ToolChoice(ChoiceMode.NAMED, "add"), "add")])
def test_and_delivered_when_no_retry_is_left(choice, name):
    notes = Notes()
    decision = judge(strict_turn(tool_choice=choice), called((name, "{}"), retries_left=0), notes=notes)
    assert decision == Accept(Verdict.CALL, wanted=Cause.MALFORMED, skipped=SkipReason.BUDGET)


def test_what_fits_and_what_is_not_strict_is_not_asked_for_again():
    assert judge(strict_turn(), called(("add", '{"n": 1}'), ("read_file", '{"odd": 1}'))) == Accept(Verdict.CALL)
    loose = strict_turn(tool_choice=ToolChoice(allowed=frozenset({"read_file"})))
    assert judge(loose, called(("read_file", "{}"), ("add", "{}"))) == Accept(Verdict.CALL)  # dropped for its name, not its arguments


def test_a_misfit_is_held_and_a_fit_is_not():
    def answer(one, arguments, settings=None):
        return RetryOnRefusal(settings or Settings()).watch(one, Notes()).feed(CallDone(0, "add", arguments))

    assert answer(strict_turn(), "{}") is Hold.HOLD
    assert answer(strict_turn(), '{"n": 1}') is Hold.RELEASE
    assert answer(strict_turn(), "{}", Settings(max_retries=0)) is Hold.RELEASE
    assert answer(strict_turn(correction=Correction(Cause.MALFORMED, 2)), "{}") is Hold.RELEASE

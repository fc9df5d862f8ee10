import pytest

from pipeline.events import BlockSeen, CallBegun, CallDone, ReasoningDelta, TextDelta
from pipeline.refusals.classifier import Classifier
from pipeline.refusals.watching import AttemptWatch
from pipeline.verdicts import BlockOutcome, Hold, RefusalKind
from tests.support.refusal_cases import offered

REFUSAL = "I don't have access to any tools."
ANSWER = "The report shows that revenue grew by four percent."


def watch(*, mandatory=False, names=None, limit=400, **options):
    return AttemptWatch(
        Classifier(),
        offered(),
        limit=limit,
        mandatory=mandatory,
        acceptable=lambda name: names is None or name in names,
        **options,
    )


def test_text_is_released_once_it_cannot_be_a_refusal():
    one = watch()
    assert one.feed(TextDelta("The report")) is Hold.HOLD
    assert one.feed(TextDelta(ANSWER)) is Hold.RELEASE
    assert one.hit is None


def test_a_refusal_is_found_though_the_text_just_ended():
    one = watch()
    assert one.feed(TextDelta("I don't have access to any tools")) is Hold.HOLD
    assert one.hit == (RefusalKind.HARD, "en", "en-no-tools")


@pytest.mark.parametrize("event", [CallDone(0, "ping", "{}"), CallBegun(0, "ping")])
def test_a_call_releases_and_clears(event):
    one = watch()
    assert one.feed(TextDelta(REFUSAL)) is Hold.HOLD
    assert one.feed(event) is Hold.RELEASE
    assert one.hit is None


def test_a_mandatory_call_holds_everything_until_it_comes():
    one = watch(mandatory=True)
    assert one.feed(TextDelta(ANSWER * 50)) is Hold.HOLD
    assert one.feed(CallDone(0, "ping", "{}")) is Hold.RELEASE


def test_a_mandatory_turn_still_tells_its_refusal():
    one = watch(mandatory=True)
    one.feed(TextDelta("Of course the weather is a nice topic to talk about. " + REFUSAL))
    assert one.hit == (RefusalKind.HARD, "en", "en-no-tools")


def test_a_call_that_is_not_acceptable_releases_nothing():
    one = watch(names={"pong"})
    assert one.feed(CallDone(0, "ping", "{}")) is Hold.HOLD
    assert one.feed(TextDelta(ANSWER)) is Hold.HOLD
    assert one.feed(CallDone(1, "pong", "{}")) is Hold.RELEASE


@pytest.mark.parametrize("outcome", [BlockOutcome.MALFORMED, BlockOutcome.UNTERMINATED, BlockOutcome.PLACEHOLDER])
def test_behind_a_failed_block_everything_is_held(outcome):
    one = watch()
    assert one.feed(BlockSeen("json_action", outcome, (0, 9))) is Hold.HOLD
    assert one.feed(TextDelta(ANSWER * 50)) is Hold.HOLD


def test_an_example_is_no_failed_block():
    one = watch()
    one.feed(BlockSeen("json_action", BlockOutcome.FENCED_EXAMPLE, (0, 9)))
    assert one.feed(TextDelta(ANSWER)) is Hold.RELEASE


def test_reasoning_decides_nothing():
    one = watch()
    assert one.feed(ReasoningDelta("I have no tools, do I? " * 50)) is Hold.HOLD
    assert one.hit is None


def test_short_answers_are_held_where_announcements_are_asked_again():
    one = watch(at_least=100)
    assert one.feed(TextDelta(ANSWER)) is Hold.HOLD
    assert one.feed(TextDelta(ANSWER)) is Hold.RELEASE


def test_text_kept_for_later_is_bounded():
    one = watch(mandatory=True, limit=50)
    for _ in range(1000):
        one.feed(TextDelta("x" * 20))
    assert sum(map(len, one._text)) == 50

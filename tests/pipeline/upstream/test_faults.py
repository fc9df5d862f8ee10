"""Every row of the fault table, at every cut: U01 to U11 and E6."""

from __future__ import annotations

import pytest

from pipeline.events import Failed, Finish
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Turn
from pipeline.verdicts import Api, FinishReason
from tests.cases.upstream_faults import AB, FAULTS, STOP, Fault, sse
from tests.support.reading import Gathered, read


def check(fault: Fault, got: Gathered, where: object = None) -> None:
    assert got.text == fault.text, where
    assert got.reasoning == fault.reasoning, where
    assert tuple(got.calls) == fault.calls, where
    assert got.skipped == fault.skipped, where
    if fault.failed is not None:
        assert isinstance(got.end, Failed), where
        assert got.end.kind is fault.failed and got.end.message, where
    else:
        assert isinstance(got.end, Finish), (where, got.end)
        assert (got.end.reason, got.end.usage) == (fault.finish, fault.usage), where


def turn_of(fault: Fault) -> Turn:
    return Turn(Api.OPENAI_CHAT, stream=fault.stream, stop=fault.stop)


def test_ids_are_unique():
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_read_whole_by_byte_and_at_every_cut(fault: Fault):
    body, turn = fault.body, turn_of(fault)
    check(fault, read([body], fault.traits, turn), "whole")
    check(fault, read([bytes([one]) for one in body], fault.traits, turn), "by byte")
    check(fault, read([body], fault.traits, turn, content_type="text/html"), "the header is not believed")
    for at in range(len(body) + 1):
        check(fault, read([body[:at], body[at:]], fault.traits, turn), at)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.calls], ids=lambda fault: fault.id)
def test_live_calls_say_the_same(fault: Fault):
    settings, turn = Settings(stream_arguments=True), turn_of(fault)
    for pieces in ([fault.body], [bytes([one]) for one in fault.body]):
        got = read(pieces, fault.traits, turn, settings)
        assert tuple(got.calls[: len(fault.calls)]) == fault.calls
        assert tuple(got.live[: len(fault.calls)]) == fault.calls
        assert isinstance(got.end, Failed) == (fault.id == "call-cut")  # a begun call that ends badly fails the turn (E4)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_after_the_end_nothing_comes(fault: Fault):
    reader = Upstream(Settings()).read(turn_of(fault), fault.traits, "", lambda *_, **__: None)
    events = reader.feed(fault.body) + reader.close()
    assert isinstance(events[-1], Finish | Failed)
    assert reader.feed(fault.body) == reader.close() == []
    assert not reader.finishing


def test_finishing_stands_between_the_finish_reason_and_the_end():
    reader = Upstream(Settings()).read(Turn(Api.OPENAI_CHAT), UpstreamTraits(), "", lambda *_, **__: None)
    reader.feed(sse(*AB, end="").encode())
    assert not reader.finishing
    reader.feed(sse(STOP, end="").encode())
    assert reader.finishing
    assert reader.close() == [Finish(FinishReason.STOP)]
    assert not reader.finishing

from __future__ import annotations

import asyncio

import pytest

from pipeline.stage import StageError
from pipeline.verdicts import ErrorKind
from proxy.admission import Admission
from proxy.config.tree import Limits
from proxy.telemetry.catalogue import Reject


class Turns:
    """Turns that hold their place until told to go."""

    def __init__(self, **limits):
        self.rejects = []
        self.admission = Admission(Limits(**limits), self.rejects.append)
        self.entered = []
        self.tasks = {}
        self._go = {}

    async def begin(self, name):
        self._go[name] = asyncio.Event()

        async def turn():
            async with self.admission.place():
                self.entered.append(name)
                await self._go[name].wait()

        self.tasks[name] = asyncio.create_task(turn())
        await settle()

    async def go(self, name):
        self._go[name].set()
        await self.tasks[name]
        await settle()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_places_go_to_those_who_wait_in_the_order_they_came():
    turns = Turns(max_concurrency=1, max_queue=2)
    for name in "abc":
        await turns.begin(name)
    assert turns.entered == ["a"]
    assert turns.admission.saturated
    await turns.go("a")
    assert turns.entered == ["a", "b"]
    await turns.go("b")
    await turns.go("c")
    assert turns.entered == ["a", "b", "c"]
    assert turns.admission.running == 0


async def test_a_full_queue_is_a_429_that_says_when_to_come_back():
    turns = Turns(max_concurrency=1, max_queue=1, retry_after_s=9)
    for name in "abc":
        await turns.begin(name)
    with pytest.raises(StageError) as caught:
        await turns.tasks["c"]
    assert (caught.value.failed.kind, caught.value.failed.retry_after) == (ErrorKind.RATE_LIMIT, "9")
    assert turns.rejects == [Reject.QUEUE_FULL]
    await turns.go("a")
    await turns.go("b")
    assert turns.admission.running == 0


async def test_a_wait_that_is_too_long_is_an_overload():
    turns = Turns(max_concurrency=1, max_queue=5, queue_s=0.01)
    await turns.begin("a")
    await turns.begin("b")
    with pytest.raises(StageError) as caught:
        await turns.tasks["b"]
    assert (caught.value.failed.kind, turns.rejects) == (ErrorKind.OVERLOADED, [Reject.QUEUE_TIMEOUT])
    await turns.go("a")
    assert turns.admission.running == 0


async def test_a_waiting_client_that_leaves_makes_room_for_the_next():
    turns = Turns(max_concurrency=1, max_queue=5)
    for name in "abc":
        await turns.begin(name)
    turns.tasks["b"].cancel()
    await settle()
    await turns.go("a")
    assert turns.entered == ["a", "c"]
    await turns.go("c")
    assert turns.admission.running == 0


async def test_a_place_that_comes_as_the_client_leaves_is_handed_on():
    turns = Turns(max_concurrency=1, max_queue=5)
    for name in "abc":
        await turns.begin(name)
    turns._go["a"].set()
    await asyncio.sleep(0)  # a leaves and hands its place to b, which has not run yet
    turns.tasks["b"].cancel()
    await settle()
    assert turns.entered == ["a", "c"]
    await turns.go("c")
    assert turns.admission.running == 0


async def test_no_limit_means_no_waiting():
    turns = Turns(max_concurrency=0, max_queue=0)
    for name in "abcdef":
        await turns.begin(name)
    assert turns.entered == list("abcdef")
    assert not turns.admission.saturated
    for name in "abcdef":
        await turns.go(name)


async def test_at_the_end_of_the_process_those_who_wait_are_turned_away():
    turns = Turns(max_concurrency=1, max_queue=5)
    for name in "abc":
        await turns.begin(name)
    turns.admission.close()
    for name in "bc":
        with pytest.raises(StageError) as caught:
            await turns.tasks[name]
        assert caught.value.failed.kind is ErrorKind.SHUTTING_DOWN
    await turns.begin("d")
    with pytest.raises(StageError):
        await turns.tasks["d"]
    assert turns.rejects == [Reject.DRAINING] * 3
    await turns.go("a")
    assert turns.admission.running == 0

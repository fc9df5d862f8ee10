"""A worker's place, with processes that a test plays by hand."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from proxy.supervisor import slot
from proxy.supervisor.link import Said
from proxy.supervisor.slot import Backoff, Slot
from proxy.telemetry.logs import make_logger
from tests.support.body_bench import Lines


class HandProcess:
    """What a slot needs of a process. `log` tells in which order things were said to all of them."""

    def __init__(self, number, log):
        loop = asyncio.get_running_loop()
        self.pid = number
        self.worker = 0
        self.born = self.last_alive = monotonic()
        self.ready = loop.create_future()
        self.ended = loop.create_future()
        self.dismissed = False
        self.drain_s = 0.0
        self.log = log
        self.closed = False

    async def started(self, within_s):
        await asyncio.wait((self.ready, self.ended), return_when=asyncio.FIRST_COMPLETED)
        return None if self.ended.done() else self.ready.result()

    async def over(self):
        await asyncio.wait((self.ended,))
        return self.ended.result()

    def replaced(self):
        self.dismissed = True
        self.log.append(f"{self.pid} replaced")

    def terminate(self):
        self.dismissed = True
        self.log.append(f"{self.pid} terminated")

    def kill(self):
        self.log.append(f"{self.pid} killed")

    def tell(self, said):
        self.log.append(f"{self.pid} told {said.what}")

    async def close(self):
        self.closed = True

    def is_ready(self):
        self.ready.set_result(Said("ready", "127.0.0.1:1"))

    def ends(self, code=0):
        self.ended.set_result(code)


class HandSockets:
    def __init__(self, log):
        self._log = log

    def open(self):
        self._log.append("open")

    def pause(self):
        self._log.append("pause")

    def close(self):
        self._log.append("close")


class Bench:
    def __init__(self):
        self.log = []
        self.lines = Lines()
        self.processes = []
        self.fails = False
        self.slot = Slot(0, HandSockets(self.log), self.spawn, make_logger(self.lines))

    def spawn(self, worker, sockets, *, reloaded):
        if self.fails:
            raise OSError("no process to be had")
        self.processes.append(HandProcess(len(self.processes), self.log))
        self.log.append(f"{len(self.processes) - 1} born{' of a reload' if reloaded else ''}")
        return self.processes[-1]

    async def until(self, count):
        async with asyncio.timeout(5):
            while len(self.processes) < count:
                await asyncio.sleep(0)
        await settle()
        return self.processes[count - 1]

    async def started(self):
        starting = asyncio.create_task(self.slot.start())
        (await self.until(1)).is_ready()
        assert await starting == Said("ready", "127.0.0.1:1")
        self.log.clear()
        return self.processes[0]

    def events(self):
        return [line["event"] for line in self.lines.all]


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def bench(monkeypatch):
    monkeypatch.setattr(Backoff, "first_s", 0.01)
    found = Bench()
    yield found
    await found.slot.close()
    for process in found.processes:
        if not process.ended.done():
            process.ends()
    await found.slot.gone()
    assert all(process.closed for process in found.processes)


def test_waits_double_up_to_a_bound_and_a_long_life_forgives():
    backoff = Backoff()
    assert [backoff.failed(1.0) for _ in range(9)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [backoff.failed(60.0), backoff.failed(1.0)] == [0.0, 0.5]


async def test_the_first_crash_is_made_good_at_once_on_an_open_socket(bench):
    (await bench.started()).ends(-9)
    (await bench.until(2)).is_ready()
    assert bench.log == ["open", "1 born"]
    assert bench.events() == ["worker_ready", "worker_ended"]
    await settle()
    assert bench.events()[-1] == "worker_ready"


async def test_the_second_crash_closes_the_socket_for_the_time_of_a_wait(bench):
    (await bench.started()).ends(-9)
    second = await bench.until(2)
    second.is_ready()
    await settle()
    second.ends(1)
    (await bench.until(3)).is_ready()
    assert bench.log == ["open", "1 born", "pause", "open", "2 born"]


async def test_a_process_that_never_becomes_ready_counts_as_a_crash(bench):
    (await bench.started()).ends(-9)
    (await bench.until(2)).ends(1)
    (await bench.until(3)).is_ready()
    assert bench.log == ["open", "1 born", "pause", "open", "2 born"]
    assert "worker_not_started" in bench.events()


async def test_no_process_to_be_had_is_tried_again(bench):
    process = await bench.started()
    bench.fails = True
    process.ends(-9)
    async with asyncio.timeout(5):
        while bench.events().count("worker_not_started") < 3:
            await asyncio.sleep(0.001)
    bench.fails = False
    (await bench.until(2)).is_ready()


async def test_a_first_start_that_fails_is_told_and_not_repeated(bench):
    starting = asyncio.create_task(bench.slot.start())
    (await bench.until(1)).ends(1)
    assert await starting is None
    await settle()
    assert len(bench.processes) == 1


async def test_the_old_one_is_told_only_when_the_new_one_is_ready(bench):
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    new = await bench.until(2)
    assert bench.log == ["open", "1 born of a reload"]
    new.is_ready()
    await settle()
    assert bench.log[2:] == ["0 replaced"]
    assert not replacing.done()  # one by one: the next place waits until this one has drained
    old.ends()
    assert await replacing
    await settle()
    assert len(bench.processes) == 2
    new.ends(-9)  # the new one is looked after as the old one was
    await bench.until(3)


async def test_a_successor_that_does_not_start_leaves_the_old_one_in_place(bench):
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    (await bench.until(2)).ends(1)
    assert await replacing is False
    assert not old.dismissed
    old.ends(-9)
    (await bench.until(3)).is_ready()


async def test_a_crash_in_the_middle_of_a_replacement_leaves_one_process_in_the_end(bench):
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    successor = await bench.until(2)
    old.ends(-9)
    stopgap = await bench.until(3)
    successor.is_ready()
    assert await replacing
    stopgap.is_ready()
    await settle()
    assert [process.pid for process in bench.processes if not process.dismissed and not process.ended.done()] == [stopgap.pid]


async def test_the_end_leaves_a_draining_process_alone_the_first_time(bench):
    await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    (await bench.until(2)).is_ready()
    await settle()
    replacing.cancel()
    bench.log.clear()
    await bench.slot.close()
    bench.slot.terminate()
    assert bench.log == ["close", "1 terminated"]  # a second signal would cut the other one's turns
    bench.slot.terminate(again=True)
    assert sorted(bench.log[2:]) == ["0 terminated", "1 terminated"]


async def test_nothing_is_restarted_after_the_end(bench):
    process = await bench.started()
    await bench.slot.close()
    process.ends(-9)
    await settle()
    assert len(bench.processes) == 1
    await bench.slot.gone()


async def test_a_process_that_shows_no_life_is_killed_unless_nobody_looked(bench):
    await bench.started()
    bench.slot.forgive_silence()
    bench.slot.end_stuck(30)
    assert bench.log == []
    bench.processes[0].last_alive -= 31
    bench.slot.end_stuck(30)
    assert bench.log == ["0 killed"]
    assert "worker_stuck" in bench.events()


async def test_a_process_that_is_not_ready_yet_is_not_stuck(bench):
    starting = asyncio.create_task(bench.slot.start())
    process = await bench.until(1)
    process.last_alive -= 1000
    bench.slot.end_stuck(30)
    assert bench.log == ["0 born"]
    process.is_ready()
    await starting


# --- a successor and the one before it --------------------------------------------------------------------------------------------


async def test_a_successor_that_dies_while_the_old_one_drains_is_restarted_at_once(bench):
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    successor = await bench.until(2)
    successor.is_ready()
    await settle()
    successor.ends(-9)
    (await bench.until(3)).is_ready()
    await settle()
    assert not old.ended.done()
    assert bench.log == ["open", "1 born of a reload", "0 replaced", "open", "2 born"]
    old.ends()
    assert await replacing
    assert len(bench.processes) == 3


async def test_a_successor_that_is_stuck_while_the_old_one_drains_is_replaced(bench):
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    successor = await bench.until(2)
    successor.is_ready()
    await settle()
    successor.last_alive -= 31
    bench.slot.end_stuck(30)
    assert bench.log[-1] == "1 killed"
    successor.ends(-9)
    (await bench.until(3)).is_ready()
    old.ends()
    assert await replacing


async def test_a_reload_during_a_wait_after_crashes_needs_no_other_start(bench, monkeypatch):
    monkeypatch.setattr(Backoff, "first_s", 0.3)
    (await bench.started()).ends(-9)
    second = await bench.until(2)
    second.is_ready()
    await settle()
    second.ends(1)
    await settle()
    assert bench.log[-1] == "pause"
    replacing = asyncio.create_task(bench.slot.replace())
    (await bench.until(3)).is_ready()
    assert await replacing
    await asyncio.sleep(0.5)
    assert len(bench.processes) == 3


async def test_an_old_one_that_outlives_its_drain_is_told_again_and_then_killed(bench, monkeypatch):
    monkeypatch.setattr(slot, "FAREWELL_S", 0.02)
    old = await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    (await bench.until(2)).is_ready()
    async with asyncio.timeout(5):
        while "0 killed" not in bench.log:
            await asyncio.sleep(0.001)
    assert bench.log[2:] == ["0 replaced", "0 terminated", "0 killed"]
    old.ends(-9)
    assert await replacing
    assert "worker_overdue" in bench.events()
    assert "worker_not_killed" not in bench.events()


async def test_an_old_one_that_cannot_even_be_killed_holds_up_no_reload(bench, monkeypatch):
    monkeypatch.setattr(slot, "FAREWELL_S", 0.02)
    await bench.started()
    replacing = asyncio.create_task(bench.slot.replace())
    (await bench.until(2)).is_ready()
    async with asyncio.timeout(5):
        assert await replacing
    assert bench.events()[-2:] == ["worker_overdue", "worker_not_killed"]

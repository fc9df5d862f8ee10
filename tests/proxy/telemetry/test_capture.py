"""Captured turns: whole, private, bounded, and byte for byte."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import threading

import aiohttp
import msgspec
import pytest

from proxy.config.tree import Capture
from proxy.telemetry.capture import CaptureFolder, TurnCapture, bytes_of
from proxy.telemetry.logs import make_logger
from tests.support.body_bench import HandAnswer, HandTransport, Lines, service

REQUEST = b'{"model": "m", "text": "\xc3\xa9"}'


async def run_turns(folder, count=1, **settings):
    """Run turns through the service with a capture folder; returns the files, oldest first."""
    captures = CaptureFolder(Capture(dir=str(folder), **settings))
    answers = []
    for _ in range(2 * count):
        answer = HandAnswer()
        answer.give(b"t no tools\n" if len(answers) % 2 == 0 else b"t hi\n", b"f\n", None)
        answers.append(answer)
    async with service(HandTransport(answers)) as running:
        object.__setattr__(running.app.turns, "_shared", msgspec.structs.replace(running.shared, capture=captures))
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                url = running.url + "/v1/messages"
                headers = {"authorization": "Bearer canary", "anthropic-version": "2023-06-01"}
                async with session.post(url, data=REQUEST, headers=headers) as got:
                    await got.read()
        await running.settled()
        await asyncio.sleep(0)
        assert await captures.settle(10)
        running.faults = [line for line in running.lines.all if line["event"] in ("unexpected", "capture_failed")]
    return sorted(folder.glob("*.json")), running


async def test_a_turn_is_kept_whole_and_private(tmp_path):
    folder = tmp_path / "captures"
    files, running = await run_turns(folder)
    assert len(files) == 1
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    text = files[0].read_text()
    assert "canary" not in text
    kept = json.loads(text)
    assert bytes_of(kept["request"]["body"]) == REQUEST
    assert kept["request"]["headers"] == {"anthropic-version": "2023-06-01"}
    assert [attempt["cause"] for attempt in kept["attempts"]] == ["first", "refusal"]
    assert [[bytes_of(chunk) for chunk in attempt["chunks"]] for attempt in kept["attempts"]] == [
        [b"t no tools\n", b"f\n"],
        [b"t hi\n", b"f\n"],
    ]
    assert kept["attempts"][0]["status"] == 200
    assert kept["turn"]["verdict"] == (await running.turn())["verdict"] == "text"
    assert kept["truncated"] is False
    assert b"[finish]" in bytes_of(kept["client"])


async def test_a_turn_that_is_too_big_says_so(tmp_path):
    files, _ = await run_turns(tmp_path, max_turn_bytes=40)
    kept = json.loads(files[0].read_text())
    assert kept["truncated"] is True
    size = len(bytes_of(kept["request"]["body"])) + sum(len(bytes_of(chunk)) for one in kept["attempts"] for chunk in one["chunks"])
    assert size <= 40


async def test_the_oldest_files_make_room(tmp_path):
    files, _ = await run_turns(tmp_path, count=6)
    size = max(file.stat().st_size for file in files)
    last = files[-1]
    files, _ = await run_turns(tmp_path, count=1, max_total_bytes=3 * size + 10)
    assert len(files) <= 3
    assert files[-1] > last


async def test_a_sample_of_nothing_keeps_nothing(tmp_path):
    files, _ = await run_turns(tmp_path, sample=0.0)
    assert files == []


@pytest.mark.parametrize(("key", "body"), [("wrong", REQUEST), ("right", b"{"), ("right", b'{"model":"nobody"}')])
async def test_a_request_that_was_not_read_drives_no_capture_out(tmp_path, key, body):
    captures = CaptureFolder(Capture(dir=str(tmp_path)), make_logger(Lines()))
    async with service(HandTransport([]), keys=["right"], models=["m"]) as running:
        object.__setattr__(running.app.turns, "_shared", msgspec.structs.replace(running.shared, capture=captures))
        async with aiohttp.ClientSession() as session:
            async with session.post(running.url + "/v1/messages", data=body, headers={"x-api-key": key}) as got:
                assert got.status in (400, 401, 404)
        await running.settled()
        await asyncio.sleep(0)
        await captures.settle(5)
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_cannot_be_written_costs_the_capture_and_not_the_turn(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    files, running = await run_turns(blocked)
    assert files == []
    assert (await running.turn())["verdict"] == "text"
    (fault,) = running.faults
    line = await running.turn()
    assert (fault["event"], fault["rid"], fault["trace_id"]) == ("capture_failed", line["rid"], line["trace_id"])


def test_bytes_that_are_no_text_come_back_as_they_were():
    capture = TurnCapture("r", 1000)
    capture.emitted(b"\xff\x00")
    capture.emitted("é".encode())
    assert bytes_of(json.loads(capture.document({}))["client"]) == b"\xff\x00\xc3\xa9"


# --- disks that are full, stuck, or not ours alone --------------------------------------------------------------------------------


def captured(number, size=1000):
    capture = TurnCapture(f"r{number}", 1 << 20)
    capture.emitted(b"x" * size)
    return capture


class StuckFolder(CaptureFolder):
    """A folder on a disk that hangs until it is let go."""

    def __init__(self, folder, **options):
        self.let_go = threading.Event()
        self.lines = Lines()
        super().__init__(Capture(dir=str(folder)), make_logger(self.lines), **options)

    def _write(self, capture, turn):
        self.let_go.wait(30)
        super()._write(capture, turn)


@pytest.fixture
def stuck(tmp_path):
    made = []

    def make(**options):
        made.append(StuckFolder(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.let_go.set()


async def test_a_stuck_disk_holds_no_more_than_its_bound_and_then_costs_captures(tmp_path, stuck):
    captures = stuck(queue_bytes=10_000)
    faults = []
    for number in range(100):
        captures.write_later(captured(number), {}, faults.append)
    assert 0 < captures._waiting <= 10_000
    kept = 100 - captures.dropped
    assert 5 <= kept <= 10
    assert [line["event"] for line in captures.lines.all] == ["captures_dropping"]
    captures.let_go.set()
    assert await captures.settle(10)
    assert [(line["event"], line.get("count")) for line in captures.lines.all[1:]] == [("captures_dropped", 100 - kept)]
    assert len(list(tmp_path.iterdir())) == kept
    assert faults == []
    captures.write_later(captured(100), {}, faults.append)  # and life goes on
    assert await captures.settle(10)
    assert len(list(tmp_path.iterdir())) == kept + 1


async def test_one_capture_is_taken_however_small_the_bound(tmp_path, stuck):
    captures = stuck(queue_bytes=1)
    captures.let_go.set()
    captures.write_later(captured(0), {}, pytest.fail)
    assert await captures.settle(10)
    assert captures.dropped == 0


async def test_small_pieces_count_with_what_they_cost(tmp_path):
    capture = TurnCapture("r", 1 << 20)
    for _ in range(1000):
        capture.emitted(b"x")
    assert capture.size > 100_000


async def test_the_end_does_not_wait_for_a_stuck_disk(stuck):
    captures = stuck()
    for number in range(3):
        captures.write_later(captured(number), {}, pytest.fail)
    assert not await captures.settle(0.05)
    assert [(line["event"], line.get("count")) for line in captures.lines.all] == [("captures_dropping", None), ("captures_dropped", 3)]
    assert captures._writer.daemon  # no executor and no interpreter waits for it


async def test_a_full_disk_leaves_no_piece_of_a_file(tmp_path, monkeypatch):
    class Full:
        def __init__(self, descriptor, mode):
            self._file = os.fdopen(descriptor, mode)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._file.close()

        def write(self, data):
            self._file.write(data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    captures = CaptureFolder(Capture(dir=str(tmp_path)))
    faults = []
    monkeypatch.setattr("proxy.telemetry.bounded_folder.open", Full, raising=False)
    captures.write_later(captured(0), {}, faults.append)
    assert await captures.settle(10)
    assert [fault.errno for fault in faults] == [errno.ENOSPC]
    assert list(tmp_path.iterdir()) == []


async def test_what_others_put_into_the_folder_is_theirs(tmp_path):
    theirs = ["package.json", "0001-notes.json", "1790000000000-x y.json", "1790000000000-x.json.bak"]
    for name in theirs:
        (tmp_path / name).write_text("x" * 5000)
    ours = ["1790000000000-old.json", "1790000000001-torn.json.part"]
    for name in ours:
        (tmp_path / name).write_text("x" * 5000)
    captures = CaptureFolder(Capture(dir=str(tmp_path), max_total_bytes=1024))
    captures.write_later(captured(0, 100), {}, pytest.fail)
    assert await captures.settle(10)
    left = {file.name for file in tmp_path.iterdir()}
    assert left >= set(theirs)
    assert not left & set(ours)
    assert len(left) == len(theirs) + 1

"""Captured turns: whole, private, bounded, and byte for byte."""

from __future__ import annotations

import asyncio
import json
import stat

import aiohttp
import msgspec

from proxy.config.tree import Capture
from proxy.telemetry.capture import CaptureFolder, TurnCapture, bytes_of
from tests.support.body_bench import HandAnswer, HandTransport, service

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
        await captures.settle()
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

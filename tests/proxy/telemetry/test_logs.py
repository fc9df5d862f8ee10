"""The sink under pressure, and libraries that log."""

from __future__ import annotations

import errno
import logging
import os
import threading
import warnings

import orjson
import pytest

from proxy.telemetry.logs import LIBRARIES, lead_libraries, make_logger
from proxy.telemetry.sink import LogSink


def drain_pipe(reader):
    found = b""
    while piece := os.read(reader, 65536):
        found += piece
    return found


def test_every_line_comes_out_whole_and_in_order():
    reader, writer = os.pipe()
    got = []
    collecting = threading.Thread(target=lambda: got.append(drain_pipe(reader)))
    collecting.start()
    sink = LogSink(writer)
    log = make_logger(sink, worker=3)
    for at in range(3000):
        log.info("line", at=at, text="é\n\x00" * 10)
    sink.close(10)
    os.close(writer)
    collecting.join(10)
    os.close(reader)
    lines = [orjson.loads(line) for line in got[0].splitlines()]
    assert [line["at"] for line in lines] == list(range(3000))
    assert {(line["worker"], line["level"], line["event"]) for line in lines} == {(3, "info", "line")}


def test_a_reader_that_is_stuck_costs_lines_and_not_the_caller():
    reader, writer = os.pipe()
    drops = []
    sink = LogSink(writer, limit=10_000, on_drop=lambda: drops.append(1))
    for _ in range(5000):
        sink.msg(b"x" * 100)
    assert sink.dropped == len(drops) > 4000
    assert sink.dropped < 5000
    collecting = threading.Thread(target=drain_pipe, args=(reader,))
    collecting.start()
    sink.close(10)
    os.close(writer)
    collecting.join(10)
    os.close(reader)


def test_a_reader_that_is_gone_is_no_fault_and_its_lines_are_counted():
    reader, writer = os.pipe()
    os.close(reader)
    drops = []
    sink = LogSink(writer, on_drop=lambda: drops.append(1))
    for _ in range(3):
        sink.msg(b"x")
    sink.close(10)
    assert sink.dropped == len(drops) == 3
    os.close(writer)


def test_of_a_batch_that_breaks_off_only_the_rest_is_counted(monkeypatch):
    reader, writer = os.pipe()
    sink = LogSink(writer)
    sink.close(10)
    real, room = os.write, [5]

    def write(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "full")
        count = real(fd, bytes(data)[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write)
    sink._write([b"one", b"two", b"three"])
    assert sink.dropped == 2
    sink._write([b"four"])
    assert sink.dropped == 3
    room[0] = 100
    sink._write([b"five"])
    assert sink.dropped == 3
    monkeypatch.undo()
    os.close(writer)
    assert drain_pipe(reader) == b"one\nt\nfive\n"  # what broke off stands on a line of its own
    os.close(reader)


def test_a_descriptor_that_does_not_block_loses_nothing():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    sink = LogSink(writer)
    for _ in range(5000):
        sink.msg(b"x" * 100)
    got = []
    collecting = threading.Thread(target=lambda: got.append(drain_pipe(reader)))
    collecting.start()
    sink.close(10)
    os.close(writer)
    collecting.join(10)
    os.close(reader)
    assert sink.dropped == 0
    assert got[0] == (b"x" * 100 + b"\n") * 5000


@pytest.fixture
def lines():
    """What libraries log while the test runs, with their loggers put back afterwards."""
    found = []

    class Sink:
        def msg(self, line):
            found.append(orjson.loads(line))

        debug = info = warning = error = msg

    before = {name: (logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in LIBRARIES}
    lead_libraries(make_logger(Sink()))
    yield found
    logging.captureWarnings(False)
    for name, (handlers, propagate) in before.items():
        logging.getLogger(name).handlers[:] = handlers
        logging.getLogger(name).propagate = propagate


def test_a_library_says_what_and_where_but_not_whose_words(lines):
    try:
        raise ValueError("canary in the exception")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling request from %s", "canary address")
    assert (lines[0]["event"], lines[0]["level"], lines[0]["logger"]) == ("library", "error", "aiohttp.server")
    assert (lines[0]["message"], lines[0]["error"]) == ("Error handling request from %s", "ValueError")
    assert "canary" not in str(lines)


def test_of_a_long_message_only_the_first_line_is_kept(lines):
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task canary>")
    assert lines[0]["message"] == "Task exception was never retrieved"


def test_warnings_become_lines(lines):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("look here", UserWarning, stacklevel=1)
    assert "look here" in lines[0]["message"]


def test_what_is_below_a_warning_stays_out(lines):
    logging.getLogger("aiohttp.access").info("GET /")
    assert lines == []


def test_a_value_that_is_no_json_is_named_by_its_type(lines):
    found = []

    class Sink:
        def msg(self, line):
            found.append(orjson.loads(line))

        info = msg

    make_logger(Sink()).info("x", value=object(), several=("a", "b"))
    assert found[0]["value"] == "object"
    assert found[0]["several"] == ["a", "b"]


def test_lines_of_several_processes_on_one_pipe_are_not_torn_apart():
    reader, writer = os.pipe()
    sinks = [LogSink(writer, whole_lines=True) for _ in range(4)]
    got = b""
    for at in range(300):
        for number, sink in enumerate(sinks):
            sink.msg(orjson.dumps({"sink": number, "at": at, "text": "x" * (37 * at % 3000)}))
    closing = [threading.Thread(target=sink.close, args=(20,)) for sink in sinks]
    for one in closing:
        one.start()
    while got.count(b"\n") < 1200:
        got += os.read(reader, 1500)  # a slow reader: the pipe is always full
    for one in closing:
        one.join(20)
    lines = [orjson.loads(line) for line in got.splitlines()]
    for number in range(4):
        assert [line["at"] for line in lines if line["sink"] == number] == list(range(300))
    os.close(writer)
    os.close(reader)


def test_a_line_longer_than_a_pipe_takes_at_once_comes_out_too():
    reader, writer = os.pipe()
    sink = LogSink(writer, whole_lines=True)
    for size in (10, 20_000, 10, 4095, 4096, 4097):
        sink.msg(b"x" * size)
    sink.close(5)
    os.close(writer)
    assert [len(line) for line in drain_pipe(reader).splitlines()] == [10, 20_000, 10, 4095, 4096, 4097]
    os.close(reader)

"""Every rule of U01 at every cut, and the bounds."""

from __future__ import annotations

import pytest

from pipeline.protocols.sse import SseReader

CASES = {
    "plain": (b"data: a\n\ndata: b\n\n", [("", b"a"), ("", b"b")]),
    "no space behind the colon": (b"data:a\n\n", [("", b"a")]),
    "one space only is layout": (b"data:  a\n\n", [("", b" a")]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", b"a"), ("", b"b")]),
    "cr": (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [("", b"a"), ("", b"b"), ("", b"c")]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
    "bom only at the start": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")]),
    "comments": (b": OPENROUTER PROCESSING\n\n:\n\ndata: a\n: in between\n\n", [("", b"a")]),
    "several data lines": (b'data: {"a":\ndata: 1}\n\n', [("", b'{"a":\n1}')]),
    "json on the next line": (b'data:\n{"a": 1}\n\n', [("", b'\n{"a": 1}')]),
    "json over several bare lines": (b'data: {\n  "a": 1\n}\n\n', [("", b'{\n  "a": 1\n}')]),
    "event name": (b"event: error\ndata: x\n\ndata: y\n\n", [("error", b"x"), ("", b"y")]),
    "error field": (b'error: {"m":1}\n\n', [("error", b' {"m":1}')]),
    "id and retry": (b"id: 7\nretry: 10\ndata: a\n\n", [("", b"a")]),
    "unknown fields": (b"foo: bar\ndata: a\nbaz\n\n", [("", b"a")]),
    "bare data": (b"data:\n\ndata: \n\ndata\n\ndata: a\n\n", [("", b"a")]),
    "event without data": (b"event: ping\n\ndata: a\n\n", [("", b"a")]),
    "blank lines": (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [("", b"a"), ("", b"b")]),
    "u+2028 and friends": ("data: a\u2028b\u2029c\x0b\x0c\x1c\x85d\n\n".encode(), [("", "a\u2028b\u2029c\x0b\x0c\x1c\x85d".encode())]),
    "split characters": ("data: é世🌱\n\n".encode(), [("", "é世🌱".encode())]),
    "no last blank line": (b"data: a\n\ndata: b\n", [("", b"a"), ("", b"b")]),
    "no last line end": (b"data: a\n\ndata: b", [("", b"a"), ("", b"b")]),
    "nothing": (b"", []),
}


def read(pieces: list[bytes], limit: int = 1 << 20) -> list[tuple[str, bytes]]:
    reader = SseReader(limit)
    found = [frame for piece in pieces for frame in reader.feed(piece)]
    return found + reader.close()


@pytest.mark.parametrize("name", CASES)
def test_same_events_at_every_cut(name: str):
    data, expected = CASES[name]
    assert read([data]) == expected
    assert read([bytes([one]) for one in data]) == expected
    for at in range(len(data) + 1):
        assert read([data[:at], data[at:]]) == expected, at
        assert read([b"data: before\n\n", data[:at], b"", data[at:]]) == read([b"data: before\n\n" + data]), at


@pytest.mark.parametrize("name", CASES)
def test_an_event_comes_with_the_byte_that_completes_it(name: str):
    data, _ = CASES[name]
    reader = SseReader()
    one_by_one = [len(reader.feed(bytes([one]))) for one in data]
    for at in range(1, len(data) + 1):
        assert len(SseReader().feed(data[:at])) == sum(one_by_one[:at]), at


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"data: " + b"x" * 20 + b"\n\n", 0),
        (b"data: ok\n\ndata: " + b"x" * 20 + b"\n\n", 1),
        (b"data: ok\n\n" + b"data: xxxx\n" * 5 + b"\n", 1),
        (b"data: ok\n\n:" + b"x" * 30 + b"\n\ndata: no\n\n", 1),
        (b"data: ok\r\n\r\n" + b"y" * 30, 1),
    ],
)
def test_what_is_too_large_ends_the_stream_at_every_cut(data: bytes, frames: int):
    for at in range(len(data) + 1):
        reader = SseReader(18)
        found = reader.feed(data[:at]) + reader.feed(data[at:]) + reader.close()
        assert (len(found), reader.overflowed) == (frames, True), at
        assert reader.feed(b"data: more\n\n") == []


def test_a_large_event_in_small_reads_costs_one_join():
    reader = SseReader()
    body = b"x" * 200_000
    for at in range(0, len(body), 10):
        assert reader.feed((b"data: " if at == 0 else b"") + body[at : at + 10]) == []
    assert reader.feed(b"\n\n") == [("", body)]

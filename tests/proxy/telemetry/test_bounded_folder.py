"""A folder that never outgrows its bound, whoever else writes to it."""

from __future__ import annotations

import os

import pytest

from proxy.telemetry.bounded_folder import BoundedFolder


def sizes(folder):
    return {file.name.partition("-")[2]: file.stat().st_size for file in folder.iterdir()}


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a second at every look."""
    now = iter(range(1_790_000_000, 1_800_000_000))
    monkeypatch.setattr("time.time_ns", lambda: next(now) * 1_000_000_000)


@pytest.mark.usefixtures("clock")
def test_the_oldest_go_first(tmp_path):
    folder = BoundedFolder(tmp_path, 1000)
    for number in range(9):
        folder.write(f"r{number}", b"x" * 300)
    assert sizes(tmp_path) == {"r6.json": 300, "r7.json": 300, "r8.json": 300}
    folder.write("big", b"x" * 5000)  # one may be larger than the bound: then it is alone
    assert sizes(tmp_path) == {"big.json": 5000}


@pytest.mark.usefixtures("clock")
def test_what_an_earlier_process_left_counts(tmp_path):
    BoundedFolder(tmp_path, 1000).write("old", b"x" * 900)
    BoundedFolder(tmp_path, 1000).write("new", b"x" * 200)
    assert sizes(tmp_path) == {"new.json": 200}


@pytest.mark.usefixtures("clock")
def test_what_others_write_and_remove_is_seen(tmp_path):
    one, other = BoundedFolder(tmp_path, 1000), BoundedFolder(tmp_path, 1000)
    for number in range(20):
        (one, other)[number % 2].write(f"r{number}", b"x" * 300)
        os.utime(tmp_path, ns=(number, number))  # clocks of file systems are coarse; this one is not
        assert sum(sizes(tmp_path).values()) <= 1000
    assert sorted(sizes(tmp_path)) == ["r17.json", "r18.json", "r19.json"]


@pytest.mark.usefixtures("clock")
def test_the_folder_is_not_read_again_for_what_it_wrote_itself(tmp_path, monkeypatch):
    looks = []
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: looks.append(path) or real(path))
    folder = BoundedFolder(tmp_path, 1000)
    for number in range(50):
        folder.write(f"r{number}", b"x" * 100)
    assert len(looks) == 1
    assert len(sizes(tmp_path)) == 10

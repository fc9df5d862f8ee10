"""What is said over a link, however it is cut, and whoever is gone."""

from __future__ import annotations

import socket

import pytest

from proxy.supervisor.link import Hearing, Order, Said, line_of, order_from, say

ORDER = Order(3, 'workers = 2\n[upstreams.a]\nurl = "http://é"\n', [5, 6], [7], "00ff", reloaded=True)
SAYINGS = [Said("ready", "127.0.0.1:1", "127.0.0.1:2"), Said("alive"), Said("ready", "127.0.0.1:1"), Said("replaced")]


def test_an_order_arrives_and_nothing_behind_it_is_taken():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(line_of(ORDER) + line_of(Said("replaced")))
        assert order_from(theirs) == ORDER
        assert theirs.recv(1000) == line_of(Said("replaced"))


def test_a_supervisor_that_is_gone_before_the_order_is_a_fault():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(line_of(ORDER)[:-5])
        ours.close()
        with pytest.raises(ConnectionError):
            order_from(theirs)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_was_said_is_heard_at_any_cut_and_nonsense_is_passed_over(size):
    heard = []
    hearing = Hearing(heard.append)
    data = b"".join(map(line_of, SAYINGS[:2])) + b'nonsense\n{"what":"dance"}\n[]\n' + b"".join(map(line_of, SAYINGS[2:]))
    for at in range(0, len(data), size):
        hearing.feed(data[at : at + size])
    assert heard == SAYINGS


def test_nobody_waits_for_one_who_does_not_listen():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        for _ in range(100_000):
            say(ours, Said("alive"))
        theirs.close()
        say(ours, Said("alive"))

"""What systemd is told, and what is taken from it."""

from __future__ import annotations

import os
import socket

import pytest

from proxy.systemd import Notifier, SystemdError, take_sockets


@pytest.fixture
def door(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening, str(tmp_path / "notify")


def test_everything_is_told_in_its_own_words(door):
    listening, address = door
    notifier = Notifier(address)
    notifier.ready("2 workers")
    notifier.reloading()
    notifier.alive()
    notifier.stopping()
    heard = [listening.recv(4096).decode().split("\n") for _ in range(4)]
    assert heard[0] == ["READY=1", "STATUS=2 workers"]
    assert heard[1][0] == "RELOADING=1"
    assert heard[1][1].removeprefix("MONOTONIC_USEC=").isdecimal()
    assert heard[2:] == [["WATCHDOG=1"], ["STOPPING=1", "STATUS=draining"]]


def test_an_abstract_address_is_understood():
    name = f"toolgraft-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(5)
        Notifier("@" + name).alive()
        assert listening.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", [None, "/nowhere/at/all", ""])
def test_nobody_who_listens_is_no_fault(address):
    Notifier(address).ready("x")


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "30000000"}, 30.0),
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "0"}, None),
        ({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "soon"}, None),
        ({"NOTIFY_SOCKET": "x"}, None),
        ({"WATCHDOG_USEC": "30000000"}, None),
    ],
)
def test_the_watchdog_is_meant_for_us_or_not_at_all(environ, watchdog_s):
    environ = {**environ, "PATH": "/bin"}
    notifier = Notifier.take(environ)
    assert notifier.watchdog_s == watchdog_s
    assert notifier.period_s == (watchdog_s and watchdog_s / 2)
    assert environ == {"PATH": "/bin"}  # no child takes them for its own


def at_descriptors(*socks):
    """Neighbouring file descriptors for these sockets, as systemd would number them, and the first of them."""
    first = 200
    for at, sock in enumerate(socks):
        os.dup2(sock.fileno(), first + at)
    return first


def ours(count):
    return {"LISTEN_FDS": str(count), "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "a:b", "PATH": "/bin"}


def test_listening_sockets_are_taken_in_order():
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as two:
        environ = ours(2)
        taken = take_sockets(environ, at_descriptors(one, two))
        assert [sock.getsockname()[:2] for sock in taken] == [sock.getsockname()[:2] for sock in (one, two)]
        assert not any(sock.get_inheritable() for sock in taken)
        assert environ == {"PATH": "/bin"}
        for sock in taken:
            sock.close()


@pytest.mark.parametrize("environ", [{}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "1"}])
def test_sockets_of_another_process_are_not_ours(environ):
    assert take_sockets(environ, 200) == ()
    assert environ == {}


def test_what_is_no_listening_tcp_socket_is_refused():
    for make in (socket.socket, lambda: socket.socket(socket.AF_UNIX), lambda: socket.socket(type=socket.SOCK_DGRAM)):
        with make() as sock:
            first = at_descriptors(sock)
            with pytest.raises(SystemdError, match=f"file descriptor {first} is no listening TCP socket"):
                take_sockets(ours(1), first)
            os.close(first)
    reader, writer = os.pipe()
    with pytest.raises(SystemdError, match=f"file descriptor {reader} is no socket"):
        take_sockets(ours(1), reader)
    os.close(reader)
    os.close(writer)

"""Which sockets each worker gets, and what becomes of them."""

from __future__ import annotations

import socket

import pytest

from proxy.config import loads
from proxy.supervisor.sockets import open_sockets
from tests.support.workers import free_ports


def config_of(workers=2, listen="", admin=""):
    text = '[upstreams.a]\nurl = "http://127.0.0.1:9"\n'
    return loads(f"workers = {workers}\n{text}[listen]\n{listen}\n[admin]\n{admin}\n", {})


@pytest.fixture
def opened():
    found = []

    def open_all(config, given=()):
        found.extend(made := open_sockets(config, given))
        return made

    yield open_all
    for one in found:
        one.close()


def ports(sockets):
    return [[sock.getsockname()[1] for sock in one.public.socks] for one in sockets]


def accepts(port, host="127.0.0.1"):
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def test_each_worker_has_a_port_of_its_own(opened):
    first = free_ports(6)
    found = opened(config_of(3, f"port = {first}\nper_worker_ports = true", f"port = {first + 3}"))
    assert ports(found) == [[first], [first + 1], [first + 2]]
    assert [one.admin.port for one in found] == [first + 3, first + 4, first + 5]


def test_workers_share_a_port_but_no_socket(opened):
    first = free_ports(3)
    found = opened(config_of(2, f"port = {first}", f"port = {first + 1}"))
    assert ports(found) == [[first], [first]]
    assert found[0].public_fds != found[1].public_fds


@pytest.mark.parametrize("own", ["true", "false"])
def test_free_ports_are_taken_where_none_is_named(opened, own):
    found = opened(config_of(3, f"port = 0\nper_worker_ports = {own}", "port = 0"))
    public = [port for (port,) in ports(found)]
    assert 0 not in public
    assert len(set(public)) == (3 if own == "true" else 1)
    assert len({one.admin.port for one in found}) == 3


def test_a_name_with_two_addresses_is_listened_on_at_both(opened):
    try:
        both = {info[0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 here")
    if len(both) < 2:
        pytest.skip("localhost has one address here")
    found = opened(config_of(2, 'host = "localhost"\nport = 0\nper_worker_ports = true', "port = 0"))
    for one, two in ports(found):
        assert one == two
        assert accepts(one, "127.0.0.1")
        assert accepts(one, "::1")


def test_all_are_opened_or_none(opened):
    first = free_ports(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{first + 1}: Address already in use"):
            opened(config_of(2, f"port = {first}\nper_worker_ports = true", "port = 0"))
        assert not accepts(first)


def test_a_pause_closes_and_opens_the_same_port(opened):
    one = opened(config_of(2, "port = 0\nper_worker_ports = true", "port = 0"))[0]
    port, admin = one.public.port, one.admin.port
    one.pause()
    assert not accepts(port)
    assert not accepts(admin)
    assert one.public_fds == one.admin_fds == []
    one.open()
    assert accepts(port)
    assert accepts(admin)
    fds = one.public_fds
    one.open()
    assert one.public_fds == fds


def test_sockets_of_systemd_are_shared_out_in_order_and_never_closed_for_a_pause(opened):
    given = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    found = opened(config_of(2, "port = 0", "enabled = false"), given)
    assert [one.public.socks for one in found] == [(given[0], given[1]), (given[2], given[3])]
    assert found[0].admin is None
    found[0].pause()
    assert accepts(given[0].getsockname()[1])


def test_sockets_that_do_not_go_round_are_refused():
    with socket.create_server(("127.0.0.1", 0)) as one, pytest.raises(ValueError, match="workers = 2: systemd gives 1 socket"):
        open_sockets(config_of(2), [one])

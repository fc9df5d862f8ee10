"""Listening sockets of all workers: opened by the supervisor, or by systemd, and inherited by each worker process in turn.

In: a configuration, sockets of systemd. Out: for each worker its own public and admin sockets. Promise: no two workers share a socket (one of them
would get most connections); a socket stays open from one process of a worker to the next, so that connections wait instead of being
reset; while a worker is down for longer its sockets can be closed, so that clients and nginx go elsewhere.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

from proxy.config.tree import Config

_ADMIN_BACKLOG = 128


class Listener:
    """One address of one worker. Opened at construction. Raises OSError."""

    def __init__(self, host: str, port: int, backlog: int, *, shared: bool = False, given: Sequence[socket.socket] = ()) -> None:
        """`shared`: other workers listen on the same port (SO_REUSEPORT). `given` sockets are kept and never reopened."""
        self._host = host
        self._backlog = backlog
        self._shared = shared
        self._given = bool(given)
        self.port = port
        self.socks: tuple[socket.socket, ...] = tuple(given)
        self.open()

    def open(self) -> None:
        """Open it if it is closed. A free port, once taken, stays the same. Raises OSError."""
        if self.socks:
            return
        opened: list[socket.socket] = []
        try:
            for family, address in _resolved(self._host):
                opened.append(_listening(family, (address, self.port), self._backlog, shared=self._shared))
                self.port = self.port or opened[0].getsockname()[1]
        except OSError:
            _close(opened)
            raise
        self.socks = tuple(opened)

    def close(self) -> None:
        """Close this process's copies; those of worker processes live on."""
        _close(self.socks)
        self.socks = ()

    def pause(self) -> None:
        """Close until `open`, where that can be undone: sockets of systemd cannot be opened again."""
        if not self._given:
            self.close()


class WorkerSockets:
    """What one worker listens on."""

    def __init__(self, public: Listener, admin: Listener | None) -> None:
        """Take both."""
        self.public = public
        self.admin = admin

    @property
    def public_fds(self) -> list[int]:
        """File descriptors for the worker process."""
        return [sock.fileno() for sock in self.public.socks]

    @property
    def admin_fds(self) -> list[int]:
        """File descriptors for the worker process."""
        return [sock.fileno() for sock in self.admin.socks] if self.admin is not None else []

    def open(self) -> None:
        """Open what is closed. Raises OSError."""
        for listener in self._listeners():
            listener.open()

    def pause(self) -> None:
        """Let nobody wait for a worker that will not come soon."""
        for listener in self._listeners():
            listener.pause()

    def close(self) -> None:
        """Give all sockets up."""
        for listener in self._listeners():
            listener.close()

    def _listeners(self) -> list[Listener]:
        return [self.public] if self.admin is None else [self.public, self.admin]


def open_sockets(config: Config, given: Sequence[socket.socket] = ()) -> list[WorkerSockets]:
    """Sockets for every worker, all or none. Raises OSError, and ValueError where systemd's do not go round."""
    listen, admin, count = config.listen, config.admin, config.workers
    if len(given) % count:
        raise ValueError(
            f"workers = {count}: systemd gives {len(given)} socket(s), which cannot be shared out evenly; "
            "the socket unit needs a ListenStream line for each worker"
        )
    each = len(given) // count
    found: list[WorkerSockets] = []
    port = listen.port
    try:
        for at in range(count):
            shared = not listen.per_worker_ports
            own = port if shared or not port else port + at
            public = Listener(listen.host, own, listen.backlog, shared=shared, given=given[at * each : (at + 1) * each])
            if shared:
                port = public.port
            found.append(WorkerSockets(public, None))
            if admin.enabled:
                found[-1].admin = Listener(admin.host, admin.port and admin.port + at, _ADMIN_BACKLOG)
    except OSError:
        for one in found:
            one.close()
        raise
    return found


def _resolved(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """Every address of a host: `localhost` may mean two. Raises OSError."""
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _listening(family: socket.AddressFamily, address: tuple[str, int], backlog: int, *, shared: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(backlog)
    except OSError as exc:
        sock.close()
        raise OSError(exc.errno, f"cannot listen on {address[0]}:{address[1]}: {exc.strerror}") from None
    sock.setblocking(False)
    return sock


def _close(socks: Sequence[socket.socket]) -> None:
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.close()

"""systemd's two doors, in plain sockets: what it is told (`sd_notify`) and the listening sockets it gives.

In: the environment. Out: datagrams, sockets. Promise: without systemd nothing happens; a message that cannot be delivered is no fault; the
variables are taken out of the environment, so that no child takes them for its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from time import clock_gettime_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.server import Addresses, Server

_FIRST_FD = 3
_CLOCK_MONOTONIC = 1


class SystemdError(ValueError):
    """What systemd gives cannot be used. The message names the variable."""


class Notifier:
    """Tells systemd how the service fares. `watchdog_s` is how often it must hear from us, or None."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        """Take the address of `NOTIFY_SOCKET`; None for nobody to tell."""
        self._address = "\0" + address[1:] if address is not None and address.startswith("@") else address
        self.watchdog_s = watchdog_s

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Notifier:
        """The one that the environment names; its variables are gone afterwards."""
        address = environ.pop("NOTIFY_SOCKET", None)
        period = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        ours = address is not None and period.isdecimal() and int(period) > 0 and pid in ("", str(os.getpid()))
        return cls(address, int(period) / 1_000_000 if ours else None)

    @property
    def period_s(self) -> float | None:
        """How often to say `alive`: twice as often as systemd asks for."""
        return None if self.watchdog_s is None else self.watchdog_s / 2

    def ready(self, status: str) -> None:
        """The service answers."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={clock_gettime_ns(_CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The service ends."""
        self._send("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """The event loop runs."""
        self._send("WATCHDOG=1")

    def _send(self, *fields: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as door:
                door.sendto("\n".join(fields).encode(), self._address)
        except OSError:  # a service does not fail because nobody listens
            pass


class Unit:
    """The overseer of a service with one process."""

    def __init__(self, notifier: Notifier) -> None:
        """Take whom to tell."""
        self._notifier = notifier

    def ready(self, addresses: Addresses) -> None:
        """Tell where it listens."""
        self._notifier.ready(f"listening on {addresses.public[0]}:{addresses.public[1]}")

    def stopping(self) -> None:
        """Tell that it ends."""
        self._notifier.stopping()

    async def watch(self, server: Server, end: Callable[[], None]) -> None:  # noqa: ARG002 - systemd wishes by signals
        """Say that the loop runs, for as long as it does."""
        while self._notifier.period_s is not None:
            self._notifier.alive()
            await asyncio.sleep(self._notifier.period_s)


def take_sockets(environ: MutableMapping[str, str], first_fd: int = _FIRST_FD) -> tuple[socket.socket, ...]:
    """The listening TCP sockets that systemd opened for this process, in the order of its unit. Raises SystemdError for any other."""
    count, pid = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not count or pid != str(os.getpid()):
        return ()
    if not count.isdecimal():
        raise SystemdError(f"LISTEN_FDS = {count!r}: expected a number")
    return tuple(_listening(fd) for fd in range(first_fd, first_fd + int(count)))


def _listening(fd: int) -> socket.socket:
    try:
        taken = socket.socket(fileno=fd)
    except OSError as exc:
        raise SystemdError(f"LISTEN_FDS: file descriptor {fd} is no socket: {exc.strerror}") from None
    os.set_inheritable(fd, False)
    if taken.family not in (socket.AF_INET, socket.AF_INET6) or not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        taken.detach()  # it stays open: it is not ours to close
        raise SystemdError(f"LISTEN_FDS: file descriptor {fd} is no listening TCP socket")
    return taken

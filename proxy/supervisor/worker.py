"""The program of one worker process: `python -m proxy.supervisor.worker NUMBER FD`. The number is there for people who look at `ps`.

In: the order, over the link that it inherits. Out: a running server, signs of life. Promise: it never outlives its supervisor; it drains on SIGTERM,
and when another process has taken its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable

import click

from pipeline.chain import ChainError
from proxy.config import ConfigError, loads
from proxy.http_server import NoCParserError
from proxy.server import Addresses, Binding, Server, serve
from proxy.standard_streams import hold_standard_streams
from proxy.supervisor.link import ALIVE_EVERY_S, Hearing, Order, Said, order_from, say


class Supervised:
    """The overseer of a worker: its end of the link."""

    def __init__(self, link: socket.socket, order: Order) -> None:
        """Take the link after the order was read from it."""
        self._link = link
        self._order = order
        self._replaced = asyncio.Event()

    def ready(self, addresses: Addresses) -> None:
        """Tell where it listens."""
        say(self._link, Said("ready", _text(addresses.public), _text(addresses.admin) if addresses.admin is not None else None))

    def stopping(self) -> None:
        """The supervisor sees that for itself."""

    async def watch(self, server: Server, end: Callable[[], None]) -> None:
        """Say that the loop runs, and listen: `replaced` and a supervisor that is gone ask for the end."""
        reloads = server.telemetry.metrics["config_reloads"]
        if self._order.reloaded:
            reloads.inc("ok")

        def hear(said: Said) -> None:
            if said.what == "replaced":
                self._replaced.set()
            elif said.what == "reload_failed":
                reloads.inc("failed")

        listening = asyncio.get_running_loop().create_task(self._listen(server, Hearing(hear), end))
        try:
            while True:
                say(self._link, Said("alive"))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._replaced.wait(), ALIVE_EVERY_S)
                if self._replaced.is_set():
                    self._replaced.clear()
                    await server.hand_over()
                    end()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, server: Server, hearing: Hearing, end: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._link, 65536):
                hearing.feed(data)
        server.telemetry.log.warning("supervisor_gone")
        end()


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def main() -> None:
    """Read the order and serve. What hinders it goes to standard error in one line, and the exit status is 1."""
    hold_standard_streams()
    link = _inherited(int(sys.argv[2]))
    try:
        order = order_from(link)
        link.setblocking(False)
        config = loads(order.config, os.environ)
        binding = Binding(order.worker, _all(order.public), _all(order.admin), bytes.fromhex(order.salt))
        serve(config, os.environ, binding, overseer=Supervised(link, order), shared_output=True)
    except (ConfigError, ConnectionError, OSError, ChainError, NoCParserError) as exc:
        click.echo(f"worker {sys.argv[1]}: {exc}", err=True)
        raise SystemExit(1) from None


def _all(fds: list[int]) -> tuple[socket.socket, ...]:
    return tuple(_inherited(fd) for fd in fds)


def _inherited(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)


if __name__ == "__main__":
    main()

"""What a supervisor and one of its workers say to each other: JSON lines over a socket pair, one end each.

    supervisor > worker   the order, first of all; `replaced` when another process has taken its place; `reload_failed`
    worker > supervisor   `ready` with its addresses; then `alive`, every second

The pair says one thing more: when one side is gone the other reads the end. So no worker outlives its supervisor unnoticed.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Literal

import msgspec

ALIVE_EVERY_S = 1.0


class Order(msgspec.Struct, frozen=True):
    """What a worker process is to be: its number, the whole configuration as TOML, the file descriptors it inherits.

    `salt` (hex) makes key fingerprints the same in all workers; `reloaded` says that it was born of a reload.
    """

    worker: int
    config: str
    public: list[int]
    admin: list[int]
    salt: str
    reloaded: bool = False


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is said after the order. `public` and `admin` are addresses as text, with `ready`."""

    what: Literal["ready", "alive", "replaced", "reload_failed"]
    public: str = ""
    admin: str | None = None


def line_of(value: Order | Said) -> bytes:
    """One line of the link."""
    return msgspec.json.encode(value) + b"\n"


def order_from(link: socket.socket) -> Order:
    """The order, read by a worker before it does anything else. Raises ConnectionError when the supervisor is gone."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = link.recv(1)  # nothing behind the line may be taken: it is for whoever reads on
        if not piece:
            raise ConnectionError("the supervisor is gone")
        line += piece
    return msgspec.json.decode(line, type=Order)


def say(link: socket.socket, said: Said) -> None:
    """A worker's word. A supervisor that is gone or stuck is not waited for."""
    with contextlib.suppress(OSError):
        link.send(line_of(said))


class Hearing:
    """Bytes of a link into what was said, as they come."""

    def __init__(self, hear: Callable[[Said], None]) -> None:
        """`hear` takes what was said, one at a time."""
        self._hear = hear
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take what one read brought. A line that is none of ours is passed over."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):
                self._hear(msgspec.json.decode(line, type=Said))

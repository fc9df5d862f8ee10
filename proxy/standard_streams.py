"""File descriptors 0, 1 and 2, taken before anything else can get them.

A process that is started with one of them closed (`>&-`) would give its number to the next thing that it opens: an event loop, a socket. Then log
lines go there.
"""

from __future__ import annotations

import os


def hold_standard_streams() -> None:
    """Open the null device on each of the three that is closed. Children inherit it, as they would the real one."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, and all below are taken
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)

"""Several workers on one machine: a supervisor that owns their sockets, starts them, replaces them and ends them.

sockets     what each worker listens on, open for as long as the supervisor lives: a worker that is replaced loses no connection
link        what a supervisor and a worker say to each other
worker      the program that a worker process runs (`python -m proxy.supervisor.worker`)
process     one worker process as the supervisor sees it
slot        one worker's place: started, watched, restarted with back-off, replaced
supervisor  signals, rolling replacement, the end
"""

from __future__ import annotations

from proxy.supervisor.supervisor import supervise

__all__ = ["supervise"]

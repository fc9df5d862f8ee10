"""A real `toolgraft serve --workers N` on loopback, for tests from outside.

In: an upstream's URL, TOML for the rest. Out: the ports, the log's lines, who runs in which place, each worker's metrics. It is ended by its own handle,
and no worker may outlive it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.running import total_of

PATIENCE_S = 60.0


def free_ports(count: int) -> int:
    """The first of so many neighbouring loopback ports that are free now."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        taken: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                taken.append(socket.socket())
                taken[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for one in taken:
                one.close()
        return first
    raise AssertionError("no neighbouring free ports")


@dataclass
class Cluster:
    """The supervisor and its workers as seen from outside."""

    process: subprocess.Popen[bytes]
    ports: list[int]
    admin_ports: list[int]
    folder: Path

    @property
    def url(self) -> str:
        """The first port's, without /v1."""
        return f"http://127.0.0.1:{self.ports[0]}"

    def lines(self) -> list[dict[str, Any]]:
        """Every whole log line so far."""
        return [json.loads(line) for line in (self.folder / "log.jsonl").read_bytes().split(b"\n")[:-1]]

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines of one event that have these fields."""
        return [line for line in self.lines() if line["event"] == name and all(line.get(key) == value for key, value in fields.items())]

    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def until(self, done: Callable[[], Any], what: str = "it did not come to pass") -> Any:
        """What `done` returns once it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := done()):
            assert time.monotonic() < deadline, f"{what}\n{self.stderr()}\n" + "\n".join(map(str, self.lines()[-30:]))
            time.sleep(0.05)
        return found

    def pid(self, worker: int) -> int:
        """The process that was ready last in this place."""
        return int(self.events("worker_ready", worker=worker)[-1]["pid"])

    def ready(self, count: int) -> None:
        """Wait until so many processes have become ready since the start."""
        self.until(lambda: len(self.events("worker_ready")) >= count, f"{count} workers did not become ready")

    def total(self, worker: int, name: str, **labels: str) -> float:
        """The sum of a metric's samples of one worker."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_ports[worker]}/metrics", timeout=10) as answer:
            return total_of(answer.read().decode(), name, **labels)

    def readiness(self, worker: int) -> int | None:
        """The status of /readyz, None where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_ports[worker]}/readyz", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as exc:
            return exc.code
        except OSError:
            return None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def family(self) -> list[int]:
        """Every process whose parent is, or was, the supervisor: by the process group that each worker leads."""
        return [line["pid"] for line in self.events("worker_ready") if alive(line["pid"])]


def alive(pid: int) -> bool:
    """Whether this process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_of(config: Path) -> list[str]:
    return [sys.executable, "-m", "proxy", "serve", "--config", str(config)]


def written(
    folder: Path,
    upstream_url: str,
    workers: int,
    toml: str = "",
    *,
    per_worker_ports: bool = True,
    lame_duck_s: float = 0.3,
    timeout_s: float = 20,
) -> tuple[Path, list[int], list[int]]:
    """Write a configuration. Returns it, the public ports and the admin ports."""
    count = workers if per_worker_ports else 1
    first = free_ports(count + workers)
    ports, admin = list(range(first, first + count)), list(range(first + count, first + count + workers))
    config = folder / "toolgraft.toml"
    config.write_text(
        f"workers = {workers}\n[listen]\nport = {ports[0]}\nper_worker_ports = {str(per_worker_ports).lower()}\n[admin]\nport = {admin[0]}\n"
        f'[drain]\nlame_duck_s = {lame_duck_s}\ntimeout_s = {timeout_s}\n[upstreams.model]\nurl = "{upstream_url}"\n{toml}\n'
    )
    return config, ports, admin


@contextmanager
def cluster(
    folder: Path,
    upstream_url: str,
    workers: int = 2,
    toml: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
    wait: bool = True,
    **options: Any,
) -> Iterator[Cluster]:
    """Run it until the block is left; then it must end within its drain and leave no process behind."""
    config, ports, admin = written(folder, upstream_url, workers, toml, **options)
    with (folder / "log.jsonl").open("wb") as log, (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            [*prefix, *command_of(config)],
            stdout=log,
            stderr=errors,
            pass_fds=pass_fds,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **(environment or {})},
        )
        running = Cluster(process, ports, admin, folder)
        try:
            if wait:
                running.until(lambda: running.events("supervising") or process.poll() is not None, "it did not start")
                assert process.poll() is None, running.stderr()
            yield running
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
            finally:
                left = running.family()
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    assert left == [], f"workers {left} outlived their supervisor"

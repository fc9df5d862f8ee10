"""What is measured side by side: how each is started, and what it has used so far.

In: a folder for files, the upstream's port. Out: targets with a port, CPU seconds from the scheduler's counters, memory. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.end_to_end.bodies import small
from tests.support.running import free_port

ROOT = Path(__file__).parents[3]
LOAD_CORE, TARGET_CORE = "0", "1"
_NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.err warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  keepalive_timeout 600s;
  client_body_buffer_size 1m;
  client_max_body_size 16m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream one {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_buffering off;
  proxy_read_timeout 600s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /v1/ {{ proxy_pass http://one/v1/; }}
  }}
}}
"""
_TOOLGRAFT = """
[listen]
port = {port}
backlog = 4096

[admin]
enabled = false

[drain]
lame_duck_s = 0
timeout_s = 1

[limits]
max_concurrency = 0

[upstreams.bench]
url = "http://127.0.0.1:{upstream}/v1"
"""
_LITELLM = """
model_list:
  - model_name: "*"
    litellm_params:
      model: "openai/*"
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: bench
litellm_settings:
  drop_params: true
  num_retries: 0
  request_timeout: 600
general_settings:
  disable_spend_logs: true
"""
_QUIET = {
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "DISABLE_ADMIN_UI": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


@dataclass
class Target:
    """A running process tree. `tools`: requests offer tools."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    shared: list[str] = field(default_factory=list)

    def _tree(self) -> list[int]:
        found = [self.process.pid]
        for pid in found:
            for task in _listed(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    found += [int(one) for one in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
        return found

    def cpu_s(self) -> float:
        """CPU seconds of all its threads so far."""
        total = 0
        for pid in self._tree():
            for task in _listed(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        return total / 1e9

    def memory_mib(self) -> float:
        """Proportional set size of the tree."""
        total = 0
        for pid in self._tree():
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def _listed(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(path)
    return []


def _start(name: str, command: list[str], port: int, folder: Path, environment: dict[str, str] | None = None, wait_s: float = 30) -> Target:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["taskset", "-c", TARGET_CORE, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    target = Target(name, port, process, folder)
    until = time.monotonic() + wait_s
    headers = {"content-type": "application/json", "authorization": "Bearer bench"}
    while True:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", small("fast", stream=False, tools=False), headers)
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:
                answer.read()
        except (urllib.error.URLError, OSError) as exc:
            if process.poll() is not None or time.monotonic() > until:
                target.stop()
                raise RuntimeError(f"{name} does not answer: {exc}; {(folder / f'{name}.log').read_text()[-500:]}") from exc
            time.sleep(0.2)
        else:
            return target


def start_upstream(folder: Path) -> tuple[int, subprocess.Popen[bytes]]:
    """The paced upstream, on the load's core."""
    port = free_port()
    command = ["taskset", "-c", LOAD_CORE, sys.executable, "-m", "tests.bench.end_to_end.upstream", str(port)]
    with (folder / "upstream.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=1):
            return port, process
        time.sleep(0.05)
    raise RuntimeError("the upstream does not answer")


def baseline(folder: Path, upstream: int) -> Target:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.end_to_end.baseline", str(port), f"http://127.0.0.1:{upstream}/v1"]
    return _start("baseline", command, port, folder)


def toolgraft(folder: Path, upstream: int) -> Target:
    port = free_port()
    config = folder / "toolgraft.toml"
    config.write_text(_TOOLGRAFT.format(port=port, upstream=upstream))
    return _start("toolgraft", [sys.executable, "-m", "proxy", "serve", "--config", str(config)], port, folder)


def nginx(folder: Path, upstream: int) -> Target:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream))
    return _start("nginx", [program, "-e", str(folder / "nginx.err"), "-c", str(config)], port, folder)


def litellm(folder: Path, upstream: int) -> Target:
    """Its own environment: `TOOLGRAFT_CLIENTS`/venv/litellm (`pip install 'litellm[proxy]'`)."""
    from tests.e2e.agents.clients import installed

    program = installed() / "venv" / "litellm" / "bin" / "litellm"
    if not program.exists():
        raise RuntimeError(f"litellm is not installed at {program}")
    port = free_port()
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(upstream=upstream))
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return _start("litellm", command, port, folder, _QUIET, wait_s=120)


TARGETS: dict[str, Callable[[Path, int], Target]] = {"baseline": baseline, "nginx": nginx, "toolgraft": toolgraft, "litellm": litellm}

"""A real nginx on loopback with the shipped configuration, its ports replaced."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.running import free_port

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx" / "toolgraft.conf"
_MAIN = """
daemon off;
worker_rlimit_nofile 1024;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/toolgraft.conf;
}}
"""


def nginx_binary() -> str | None:
    """Where nginx is, or None."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")


def configure(folder: Path, ports: list[int]) -> tuple[Path, int]:
    """Write a main configuration around the shipped block, for workers on these ports. Returns it and nginx's own port."""
    port = free_port()
    text = SHIPPED.read_text()
    servers = "\n".join(f"    server 127.0.0.1:{one} max_fails=0;" for one in ports)
    for shipped, ours in (("    server 127.0.0.1:8790 max_fails=0;", servers), ("listen 8080;", f"listen 127.0.0.1:{port};")):
        assert text.count(shipped) == 1
        text = text.replace(shipped, ours)
    (folder / "toolgraft.conf").write_text(text)
    main = folder / "nginx.conf"
    main.write_text(_MAIN.format(folder=folder))
    return main, port


@contextmanager
def nginx(folder: Path, ports: list[int]) -> Iterator[str]:
    """Run nginx in front of these ports. Gives its base URL."""
    binary = nginx_binary()
    assert binary is not None
    main, port = configure(folder, ports)
    process = subprocess.Popen([binary, "-e", str(folder / "start.log"), "-p", str(folder), "-c", str(main)])
    try:
        _until_open(port, process, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _until_open(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            logs = "".join(log.read_text() for log in folder.glob("*.log"))
            raise AssertionError(f"nginx ended with {process.returncode}: {logs[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("nginx did not open its port")

"""Installs real clients by package name, each in a folder of its own: `python -m tests.e2e.agents.install [NAME ...]`.

In: names (see `clients.PACKAGES` and `clients.WHEELS`; none means all). They go to the folder that `TOOLGRAFT_CLIENTS` names. What is there stays.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.agents.clients import PACKAGES, PROJECTS, WHEELS, installed

TIMEOUT_S = 600


def npm(name: str) -> Path:
    """The folder with the npm packages, or the npm project, of this name, installed if they are not."""
    folder = installed() / "npm" / name
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        return _npm(name, folder)


def _npm(name: str, folder: Path) -> Path:
    packages: tuple[str, ...] = PACKAGES.get(name, ())
    if name in PROJECTS:
        new = (PROJECTS[name] / "package.json").read_bytes() != _read(folder / "package.json")
        for script in PROJECTS[name].iterdir():
            shutil.copy(script, folder)
    else:
        new = False
    if new or not (folder / "node_modules").is_dir():
        program = shutil.which("npm")
        if program is None:
            raise FileNotFoundError("npm is not installed")
        flags = ["--no-audit", "--no-fund", "--loglevel=error", "--no-package-lock"]
        subprocess.run([program, "install", "--prefix", str(folder), *flags, *packages], check=True, timeout=TIMEOUT_S)
    return folder


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def python(name: str) -> Path:
    """The interpreter of a virtual environment with the PyPI packages of this name, made if it is not there."""
    folder = installed() / "venv" / name
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "bin" / "python"
    with _alone(folder):
        if not program.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([str(program), "-m", "pip", "install", "-q", *WHEELS[name]], check=True, timeout=TIMEOUT_S)
    return program


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Tests in several processes install a thing once: the others wait."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(names: list[str]) -> None:
    for name in names or [*PACKAGES, *PROJECTS, *WHEELS]:
        begun = time.monotonic()
        where = python(name) if name in WHEELS else npm(name)
        print(f"{name}: {time.monotonic() - begun:.0f} s, {where}")


if __name__ == "__main__":
    main(sys.argv[1:])

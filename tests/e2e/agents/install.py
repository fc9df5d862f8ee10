"""Installs real clients by package name, each in a folder of its own: `python -m tests.e2e.agents.install [NAME ...]`.

In: names (see `clients.PACKAGES` and `clients.WHEELS`; none means all). They go to the folder that `TOOLGRAFT_CLIENTS` names. What is there stays.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

from tests.e2e.agents.clients import PACKAGES, WHEELS, installed

TIMEOUT_S = 600


def npm(name: str) -> Path:
    """The folder with the npm packages of this name, installed if they are not."""
    folder = installed() / "npm" / name
    if not (folder / "node_modules").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        program = shutil.which("npm")
        if program is None:
            raise FileNotFoundError("npm is not installed")
        flags = ["--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([program, "install", "--prefix", str(folder), *flags, *PACKAGES[name]], check=True, timeout=TIMEOUT_S)
    return folder


def python(name: str) -> Path:
    """The interpreter of a virtual environment with the PyPI packages of this name, made if it is not there."""
    folder = installed() / "venv" / name
    program = folder / "bin" / "python"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(program), "-m", "pip", "install", "-q", *WHEELS[name]], check=True, timeout=TIMEOUT_S)
    return program


def main(names: list[str]) -> None:
    for name in names or [*PACKAGES, *WHEELS]:
        begun = time.monotonic()
        where = npm(name) if name in PACKAGES else python(name)
        print(f"{name}: {time.monotonic() - begun:.0f} s, {where}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Programs that some tests run. Where one is missing the test is skipped; in CI it fails, since there every one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def tool(name: str, *, optional: bool = False) -> str:
    """Where a program is. `optional`: CI may lack it."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        if os.environ.get("CI") and not optional:
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str | Path, cwd: Path = ROOT, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, cwd=cwd, timeout=within_s, check=False)

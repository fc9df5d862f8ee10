"""Line E of what must be shown: real agents create a file through Toolgraft with a text-only upstream, in both dialects.

Heavy: installs the agents (npm) and runs each in network namespaces. `README.md` beside this file says how.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.agents import install
from tests.e2e.agents.clients import AGENTS, package_of

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
    pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="network namespaces need unshare and root"),
]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("dialect", ["json_action", "dsml"])
@pytest.mark.parametrize("agent", list(AGENTS))
def test_agent_creates_a_file(agent, dialect, tmp_path):
    install.npm(package_of(agent))
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.agents.inside", agent, dialect, str(tmp_path / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip(), done.stderr[-2000:]
    row = json.loads(done.stdout.strip().splitlines()[-1])
    assert row["works"], row
    assert row["final_seen"], row
    assert row["violations"] == []
    verdicts = [turn["verdict"] for turn in row["turns"]]
    assert "call" in verdicts, row["turns"]
    assert not {"malformed", "refused", "missing_call", "upstream_failed"} & set(verdicts), row["turns"]

"""The checks of `test_conformance.py` under an old pair of SDKs (openai 1.68, anthropic 0.49), in a virtual environment of their own. Heavy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.agents import install
from tests.e2e.test_conformance import plain_chat_api
from tests.support.running import toolgraft
from tests.support.scripted_upstream import ScriptedUpstream

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]


@pytest.mark.parametrize("dialect", ["json_action", "dsml"])
def test_old_sdks_find_nothing(tmp_path, dialect):
    python = install.python("old")
    with ScriptedUpstream(plain_chat_api()).in_thread() as upstream:
        with toolgraft(tmp_path, upstream.url, f'[defaults]\ncontract = "{dialect}"\n') as running:
            command = [str(python), "-m", "tests.conformance.check_sdks", running.url]
            done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "(openai 1.68.2, anthropic 0.49.0)" in done.stdout

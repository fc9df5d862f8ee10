"""JavaScript clients from outside: the official SDKs and the AI SDK run a tool loop, streamed and not, over a text-only upstream.

Installs their packages once (npm, seconds) into the folder that `TOOLGRAFT_CLIENTS` names, or among the temporary files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import ExitStack

import pytest

from tests.e2e.agents import install
from tests.support.running import toolgraft
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.text_model import FINAL, TextModel

pytestmark = [
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("node") is None, reason="node and npm are not installed"),
    pytest.mark.timeout(300),
]
LOOPS = [
    ("openai", "chat", "stop"),
    ("openai", "responses", "completed"),
    ("anthropic", "messages", "end_turn"),
    ("ai_sdk", "compatible", "stop"),
    ("ai_sdk", "chat", "stop"),
    ("ai_sdk", "responses", "stop"),
    ("ai_sdk", "open", "stop"),
    ("ai_sdk", "messages", "stop"),
]


@pytest.fixture(scope="module")
def packages():
    return install.npm("sdk_js")


@pytest.fixture(scope="module", params=["json_action", "dsml"])
def served(request, tmp_path_factory):
    with ExitStack() as stack:
        upstream = stack.enter_context(ScriptedUpstream(TextModel()).in_thread())
        folder = tmp_path_factory.mktemp("js")
        yield stack.enter_context(toolgraft(folder, upstream.url, f'[defaults]\ncontract = "{request.param}"\n'))


@pytest.mark.parametrize("mode", ["whole", "stream"])
@pytest.mark.parametrize(("script", "api", "finish"), LOOPS)
def test_tool_loop(packages, served, script, api, finish, mode):
    command = ["node", str(packages / f"{script}.mjs"), served.url, api, mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=packages)
    assert done.returncode == 0, done.stderr[-2000:]
    story = json.loads(done.stdout.strip().splitlines()[-1])
    assert story == {"text": FINAL, "finish": finish, "called": [["get_weather", {"city": "Oslo"}]]}

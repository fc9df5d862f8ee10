"""Python frameworks from outside: openai-agents, pydantic-ai and langchain run a tool loop over a text-only upstream. Heavy.

Their packages go into a virtual environment of their own, in the folder that `TOOLGRAFT_CLIENTS` names, or among the temporary files.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.agents import install
from tests.support.running import toolgraft
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.text_model import FINAL, TextModel

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]
SCRIPTS = Path(__file__).parent / "loops"
LOOPS = [
    *(("openai_agents", api, mode) for api in ("chat", "responses") for mode in ("whole", "stream", "required")),
    *(("pydantic_ai_loop", api, mode) for api in ("chat", "responses", "messages") for mode in ("whole", "stream", "typed")),
    *(("langchain_loop", api, mode) for api in ("chat", "responses", "messages") for mode in ("whole", "stream", "bind", "structured")),
]
CALLED = {"typed": "final_result", "structured": "place"}


@pytest.fixture(scope="module")
def python():
    return install.python("loops")


@pytest.fixture(scope="module", params=["json_action", "dsml"])
def served(request, tmp_path_factory):
    """Two servers: over a model that says something before it calls, and over one that does not."""
    with ExitStack() as stack:
        found = {}
        for preface in ("I will do that now.\n", ""):
            upstream = stack.enter_context(ScriptedUpstream(TextModel(preface=preface)).in_thread())
            toml = f'[defaults]\ncontract = "{request.param}"\n'
            found[bool(preface)] = stack.enter_context(toolgraft(tmp_path_factory.mktemp("loops"), upstream.url, toml))
        yield found


@pytest.mark.parametrize(("script", "api", "mode"), LOOPS)
def test_tool_loop(python, served, script, api, mode):
    speaks_first = (script, mode) != ("pydantic_ai_loop", "stream")  # its run_stream takes any text for the final answer
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    command = [str(python), str(SCRIPTS / f"{script}.py"), served[speaks_first].url, api, mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=quiet)
    assert done.returncode == 0, done.stderr[-2000:]
    story = json.loads(done.stdout.strip().splitlines()[-1])
    assert story["called"] == [[CALLED.get(mode, "get_weather"), {"city": "Oslo"}]]
    assert story["text"] == (None if mode in ("typed", "bind", "structured") else FINAL)

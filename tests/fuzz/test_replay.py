"""What the fuzzer starts from, and everything that ever broke a law under it, keeps all laws now."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TARGET = runpy.run_path(str(HERE / "target.py"))
INPUTS = sorted(path for folder in ("seeds", "crashers") for path in (HERE / folder).iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_keeps_the_laws(path):
    TARGET["check"](path.read_bytes())


def test_there_is_something_to_start_from():
    texts = [TARGET["text_of"](path.read_bytes()) for path in INPUTS]
    assert any("tool_calls" in text for text in texts)
    assert any("json action" in text for text in texts)

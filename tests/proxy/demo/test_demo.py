"""The demo with the scripted model, as a person runs it: to its end, every kind of step shown."""

from __future__ import annotations

import subprocess
import sys

from proxy.demo.scripted_model import REFUSAL, ScriptedModel


def test_the_scripted_demo_runs_to_its_end():
    ran = subprocess.run(
        [sys.executable, "-m", "proxy", "demo", "--scripted", "--full"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200"},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    out = ran.stdout
    assert "6 of 6 tasks answered, 6 calls run" in out
    for step in ("openai SDK sends", "anthropic SDK sends", "the model is shown", "the model writes, as plain text", "the agent runs"):
        assert step in out
    assert 'call: get_weather {"city":"Oslo"}' in out
    assert REFUSAL in out  # written by the model, and asked again before any client saw it
    assert f"text: {REFUSAL}" not in out
    assert 'cause="refusal"' in out
    assert 'cause="malformed"' in out


def test_the_scripted_model_is_a_text_model():
    model = ScriptedModel()
    assert "tool" not in model.reply([{"role": "user", "content": "What is the weather in Oslo?"}])
    assert "```" not in model.reply([{"role": "user", "content": "hi"}])

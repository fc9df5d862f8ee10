"""The commands `serve --print-config` and `check`, and how commands are found."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from proxy.__main__ import main
from proxy.config import loads
from tests.support.tools import ROOT

GOOD = '[upstreams.a]\nurl = "http://127.0.0.1:9/v1"\n[[routes]]\nmodel = "qwen*"\n[[routes]]\nmodel = "*"\ncontract = "dsml"\n'


@pytest.fixture
def run(monkeypatch):
    for name in ("TOOLGRAFT_CONFIG", "TOOLGRAFT_LISTEN__PORT"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, list(arguments))


@pytest.fixture
def config(tmp_path):
    def write(text):
        file = tmp_path / "toolgraft.toml"
        file.write_text(text)
        return str(file)

    return write


def test_every_module_is_a_command(run):
    listed = run("--help").output
    for name in ("serve", "check", "demo"):
        assert f"  {name} " in listed
    assert run("nonsense").exit_code == 2


def test_the_readme_lists_every_command():
    listed = re.findall(r"^\| `toolgraft ([\w-]+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == main.list_commands(None)


def test_a_command_is_imported_when_it_is_asked_for():
    code = "import sys, proxy.__main__ as m; m.main(['--version'], standalone_mode=False); print(sorted(n for n in sys.modules if n in ('aiohttp', 'structlog', 'prometheus_client')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_check_says_what_is_good(run, config):
    done = run("check", "--config", config(GOOD))
    assert (done.exit_code, done.stdout.startswith("good: 1 upstream(s), 2 route(s), stages normalize >")) == (0, True)
    assert run("check", "--upstream", "http://127.0.0.1:9").exit_code == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("stages = ['normalize', 'siev', 'upstream', 're_encode']\n" + GOOD, ["'siev'", "sieve"]),
        (GOOD + "dialects = ['jason']\n", ["routes[1].dialects", "'jason'", "dsml, json_action"]),
        (GOOD + "[sieve]\ntolerence = 'wide'\n", ["sieve.tolerence", "tolerance"]),
    ],
)
def test_check_names_the_key_and_the_known_ones(run, config, text, parts):
    done = run("check", "--config", config(text))
    assert done.exit_code == 1
    assert all(part in done.stderr for part in parts), done.stderr
    assert done.stdout == ""


def test_check_names_every_fault_on_a_line_of_its_own(run, config):
    done = run("check", "--config", config("a = 1\nb = 2\n" + GOOD))
    assert len(done.stderr.splitlines()) == 2


def test_check_needs_one_source(run, config):
    assert run("check").exit_code == 2
    assert run("check", "--config", config(GOOD), "--upstream", "http://x").exit_code == 2
    done = run("check", "--config", "/nowhere/at/all.toml")
    assert done.exit_code == 1
    assert "/nowhere/at/all.toml: cannot be read" in done.stderr


def test_printing_shows_every_effective_value_and_reads_back(run, config):
    file = config(GOOD)
    done = run("serve", "--config", file, "--port", "1234", "--print-config")
    assert done.exit_code == 0
    shown = loads(done.stdout, {})
    assert shown == loads(GOOD, {"TOOLGRAFT_LISTEN__PORT": "1234"})
    assert "max_retries = 2" in done.stdout


def test_printing_shows_no_secret(run, config, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sk-canary")
    done = run("serve", "--config", config('[upstreams.a]\nurl = "http://x"\nkey_env = "MODEL_KEY"\n'), "--print-config")
    assert 'key_env = "MODEL_KEY"' in done.stdout
    assert "canary" not in done.output


def test_printing_masks_what_a_url_may_hold_and_names_the_keys_without_a_value(run, config):
    text = '[upstreams.a]\nurl = "https://h/v1?api-version=1&sig=canary"\nproxy = "http://me:canary@p:1"\n[upstreams.b]\nurl = "http://x"\n'
    done = run("serve", "--config", config(text), "--print-config")
    assert "canary" not in done.output
    assert 'url = "https://h/v1?api-version=***&sig=***"' in done.stdout
    assert 'proxy = "http://***@p:1"' in done.stdout
    unset = {line for line in done.stdout.splitlines() if line.startswith("#")}
    assert {
        f"# {name} is not set" for name in ("key_env", "key_file", "proxy", "ca_file", "keys_env", "keys_file", "dir", "rewrite")
    } <= unset
    assert loads(done.stdout, {}).upstreams["b"] == loads(text, {}).upstreams["b"]


@pytest.mark.parametrize("command", [("check",), ("serve", "--print-config")])
def test_credentials_in_an_upstreams_url_are_refused_without_repeating_them(run, config, command):
    done = run(*command, "--config", config('[upstreams.a]\nurl = "http://user:canary@h/v1"\n'))
    assert done.exit_code == 1
    assert "upstreams.a.url: holds a user name or password" in done.output
    assert "key_env" in done.output
    assert "canary" not in done.output


def test_several_workers_get_a_supervisor_and_one_does_without(run, config, monkeypatch):
    import proxy.server
    import proxy.supervisor

    ran = []
    monkeypatch.setattr(proxy.supervisor, "supervise", lambda config, *_, **__: ran.append(("supervise", config.workers)) or 3)
    monkeypatch.setattr(proxy.server, "serve", lambda config, *_, **__: ran.append(("serve", config.workers)))
    assert run("serve", "--config", config(GOOD), "--workers", "4").exit_code == 3
    assert run("serve", "--config", config(GOOD)).exit_code == 0
    assert run("serve", "--config", config(GOOD), "--supervise").exit_code == 3  # a reload needs somebody who stays
    assert ran == [("supervise", 4), ("serve", 1), ("supervise", 1)]


def test_what_a_reload_reads_is_the_file_as_it_is_then_with_the_same_options(run, config, monkeypatch):
    import proxy.supervisor

    read = []

    def supervise(current, reload, environ, **_):
        read.append((current.workers, current.listen.port, current.settings.max_retries))
        config("[retry]\nmax_retries = 0\n" + GOOD)
        again = reload()
        read.append((again.workers, again.listen.port, again.settings.max_retries))
        assert environ["TOOLGRAFT_LISTEN__PORT"] == "1234"  # workers inherit it: they read what they are given to the same end
        return 0

    monkeypatch.setattr(proxy.supervisor, "supervise", supervise)
    assert run("serve", "--config", config(GOOD), "--workers", "2", "--port", "1234").exit_code == 0
    assert read == [(2, 1234, 2), (2, 1234, 0)]


def test_what_systemd_gives_and_cannot_be_used_is_said_in_one_line(run, config, monkeypatch):
    import os

    monkeypatch.setenv("LISTEN_FDS", "many")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    done = run("serve", "--config", config(GOOD))
    assert done.exit_code == 1
    assert "LISTEN_FDS = 'many'" in done.stderr

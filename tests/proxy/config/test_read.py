"""Reading a configuration: what is taken, what is refused, and what the message says."""

from __future__ import annotations

import pytest

from pipeline.chain import DEFAULT_STAGES
from pipeline.verdicts import Api, Mode
from proxy.config import ConfigError, from_upstream_url, load, loads
from proxy.config.secrets import SecretError, client_keys, upstream_config
from proxy.config.tree import Auth, Config

UPSTREAM = '[upstreams.a]\nurl = "http://127.0.0.1:9/v1"\n'


def problems(text, environ=None):
    with pytest.raises(ConfigError) as caught:
        loads(text, environ or {})
    return caught.value.problems


def test_zero_config_serves_every_model_on_loopback():
    config = from_upstream_url("http://127.0.0.1:11434", {})
    assert (config.listen.host, config.listen.port, config.admin.host, config.admin.port) == ("127.0.0.1", 8790, "127.0.0.1", 9790)
    assert [route.model for route in config.routes] == ["*"]
    assert config.stages == DEFAULT_STAGES
    assert upstream_config("default", config.upstreams["default"], {}).url == "http://127.0.0.1:11434"


def test_a_route_takes_defaults_from_every_table_and_its_own_keys_go_before():
    config = loads(
        UPSTREAM
        + '[retry]\nmax_retries = 5\n[sieve]\ntolerance = "wide"\n[defaults]\ntools = "rescue"\nidle_s = 7\n'
        + '[[routes]]\nmodel = "qwen*"\nmax_retries = 1\n[[routes]]\nmodel = "*"\nupstreams = ["a"]\nrewrite = "x"\n',
        {},
    )
    first, second = (route.settings for route in config.routes)
    assert (first.max_retries, first.tolerance, first.tools, first.idle_s) == (1, "wide", Mode.RESCUE, 7.0)
    assert (second.max_retries, second.tolerance) == (5, "wide")


def test_traits_stand_flat_in_the_upstreams_table():
    config = loads(UPSTREAM + 'protocol = "anthropic_messages"\nstream_options = false\n', {})
    traits = config.upstreams["a"].traits
    assert (traits.protocol, traits.stream_options) == (Api.ANTHROPIC_MESSAGES, False)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lisen = 1\n" + UPSTREAM, ["lisen", "unknown key", "listen"]),
        (UPSTREAM + "[listen]\nhosst = 'a'\n", ["listen.hosst", "unknown key", "host, port"]),
        (UPSTREAM + "[sieve]\ntolerance = 'loose'\n", ["sieve.tolerance", "'loose'", "narrow, wide"]),
        (UPSTREAM + "[retry]\ntolerance = 'wide'\n", ["retry.tolerance", "belongs into [sieve]", "max_retries"]),
        (UPSTREAM + "[retry]\nmax_retries = -1\n", ["retry.max_retries", "-1", "a whole number"]),
        (UPSTREAM + "[retry]\nturn_deadline_s = nan\n", ["retry.turn_deadline_s", "nan", "a number"]),
        (UPSTREAM + "[drain]\nlame_duck_s = inf\n", ["drain.lame_duck_s", "inf", "a number", "finite"]),
        (UPSTREAM + "[limits]\nqueue_s = inf\n", ["limits.queue_s", "inf", "finite"]),
        (UPSTREAM + "[retry]\nmax_retries = 1\n[defaults]\nmax_retries = 2\n", ["max_retries", "already"]),
        (UPSTREAM + "[listen]\nport = 70000\n", ["listen.port", "70000", "from 0 to 65535"]),
        (UPSTREAM + "[contract]\ncontract = 'dsmll'\n", ["contract", "'dsmll'", "dsml, json_action"]),
        (UPSTREAM + "[[routes]]\ndialects = ['jason']\n", ["routes[0].dialects", "'jason'", "dsml, json_action"]),
        (UPSTREAM + "[[routes]]\nexample_turns = 4\n", ["routes[0].example_turns", "4", "0 to 3"]),
        (UPSTREAM + "[[routes]]\nupstreams = ['b']\n", ["routes[0].upstreams", "'b'", "known: a"]),
        (UPSTREAM + "[[routes]]\ncontrct = 'dsml'\n", ["routes[0].contrct", "unknown key", "contract"]),
        ("stages = ['normalize', 'upstream', 're_encode', 'siev']\n" + UPSTREAM, ["stages", "'siev'", "sieve"]),
        ("stages = ['normalize', 'upstream']\n" + UPSTREAM, ["stages", "'re_encode'", "cannot be left out"]),
        ("stages = ['normalize', 'normalize', 'upstream', 're_encode']\n" + UPSTREAM, ["'normalize'", "twice"]),
        ("", ["upstreams", "at least one"]),
        ("[upstreams.a]\n", ["upstreams.a.url", "missing"]),
        ("[upstreams.a]\nurl = 'ftp://x'\n", ["upstreams.a.url", "http"]),
        (UPSTREAM + "protocol = 'openai_responses'\n", ["upstreams.a.protocol", "openai_chat, anthropic_messages"]),
        (UPSTREAM + "key_env = 'NOT_THERE'\n", ["upstreams.a.key_env", "NOT_THERE", "not set"]),
        (UPSTREAM + "key_file = '/nowhere/at/all'\n", ["upstreams.a.key_file", "/nowhere/at/all", "cannot be read"]),
        (UPSTREAM + "key_env = 'X'\nkey_file = 'y'\n", ["key_env and key_file", "only one"]),
        (UPSTREAM + "ca_file = '/nowhere/at/all'\n", ["upstreams.a.ca_file", "/nowhere/at/all"]),
        (UPSTREAM + "[auth]\nkeys_env = 'NOT_THERE'\n", ["auth.keys_env", "not set"]),
        (UPSTREAM + "[listen]\nbase_path = 'llm/'\n", ["listen.base_path", "'llm/'", "/llm"]),
        (UPSTREAM + "[admin]\nport = 8790\n", ["admin.port", "public port"]),
        ("workers = 3\n" + UPSTREAM + "[admin]\nport = 8789\n", ["admin.port = 8789", "8789 to 8791 of 3 workers", "8790"]),
        ("workers = 3\n" + UPSTREAM + "[listen]\nper_worker_ports = true\nport = 9788\n", ["9790 to 9792", "9788 to 9790"]),
        ("workers = 3\n" + UPSTREAM + "[listen]\nper_worker_ports = true\nport = 65534\n", ["listen.port = 65534", "65536"]),
        ("workers = 3\n" + UPSTREAM + "[admin]\nport = 65535\n", ["admin.port = 65535", "3 workers", "65536"]),
        ("workers = 0\n" + UPSTREAM, ["workers = 0", "1 to 512"]),
        ("routes = 3\n" + UPSTREAM, ["routes", "[[routes]]"]),
        ("listen = 3\n" + UPSTREAM, ["listen", "a table"]),
        ("a = [", ["not TOML"]),
    ],
)
def test_a_fault_is_named_with_key_value_and_what_is_allowed(text, parts):
    assert any(all(part in problem for part in parts) for problem in problems(text)), problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "[listen]\nper_worker_ports = true\n[admin]\nport = 8793\n",
        "[admin]\nport = 8791\n",  # without ports of their own the workers share 8790
        "[listen]\nper_worker_ports = true\n[admin]\nport = 8790\nhost = '::1'\n",
        "[listen]\nper_worker_ports = true\n[admin]\nport = 8790\nenabled = false\n",
        "[listen]\nper_worker_ports = true\nport = 0\n[admin]\nport = 0\n",
    ],
)
def test_ports_of_workers_that_do_not_meet_are_taken(text):
    assert loads("workers = 3\n" + UPSTREAM + text, {}).workers == 3


def test_a_key_in_the_file_is_refused_without_repeating_it():
    found = problems(UPSTREAM + 'key = "sk-canary"\n')
    assert "sk-canary" not in str(found)
    assert "key_env or key_file" in found[0]


def test_all_faults_come_at_once():
    assert len(problems("lisen = 1\n" + UPSTREAM + "[sieve]\ntolerance = 'x'\n[[routes]]\nmodel = 5\n")) == 3


def test_a_fault_in_the_defaults_is_said_once():
    assert len(problems(UPSTREAM + "[contract]\ncontract = 'x'\n[[routes]]\n[[routes]]\nmodel='b'\n")) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "box.example"])
def test_binding_elsewhere_without_client_keys_is_refused(host):
    text = UPSTREAM + f'[listen]\nhost = "{host}"\n'
    assert "allow_open" in problems(text)[0]
    assert loads(text + "[auth]\nallow_open = true\n", {}).listen.host == host
    assert loads(text + "[auth]\nkeys_env = 'KEYS'\n", {"KEYS": "k1, k2"}).listen.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_keys(host):
    assert loads(UPSTREAM + f'[listen]\nhost = "{host}"\n', {}).listen.host == host


def test_the_environment_goes_before_the_file():
    environ = {
        "TOOLGRAFT_LISTEN__PORT": "9000",
        "TOOLGRAFT_WORKERS": "3",
        "TOOLGRAFT_RETRY__MAX_RETRIES": "0",
        "TOOLGRAFT_SIEVE__STREAM_ARGUMENTS": "true",
        "TOOLGRAFT_SIEVE__DIALECTS": '["dsml"]',
        "TOOLGRAFT_UPSTREAMS__LOCAL__URL": "http://127.0.0.1:1",
        "TOOLGRAFT_ROUTES__0__CONTRACT": "dsml",
    }
    config = loads('[listen]\nport = 1\n[upstreams.Local]\nurl = "http://x"\n[[routes]]\nmodel = "m"\n', environ)
    assert (config.listen.port, config.workers, config.settings.max_retries) == (9000, 3, 0)
    assert config.settings.stream_arguments is True
    assert config.settings.dialects == ("dsml",)
    assert config.upstreams["Local"].url == "http://127.0.0.1:1"
    assert config.routes[0].settings.contract == "dsml"


def test_faults_of_the_environment_name_the_variable_or_the_key():
    assert "TOOLGRAFT_LISEN__PORT" in problems(UPSTREAM, {"TOOLGRAFT_LISEN__PORT": "1"})[0]
    assert "TOOLGRAFT_ROUTES__4__MODEL" in problems(UPSTREAM, {"TOOLGRAFT_ROUTES__4__MODEL": "x"})[0]
    assert "listen.port = 'x'" in problems(UPSTREAM, {"TOOLGRAFT_LISTEN__PORT": "x"})[0]


def test_what_kubernetes_sets_for_a_service_of_this_name_is_not_ours():
    config = loads(UPSTREAM, {"TOOLGRAFT_PORT": "tcp://10.0.0.1:8790", "TOOLGRAFT_SERVICE_HOST": "10.0.0.1"})
    assert config.listen.port == 8790


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.toml: cannot be read"):
        load(tmp_path / "nothing.toml", {})


def test_secrets_come_from_variables_and_files(tmp_path):
    file = tmp_path / "key"
    file.write_text("from-file\n")
    config = loads(f"[upstreams.a]\nurl='http://x'\nkey_env='K'\n[upstreams.b]\nurl='http://x'\nkey_file='{file}'\n", {"K": "from-env"})
    environ = {"K": "from-env"}
    assert [upstream_config(name, upstream, environ).key for name, upstream in config.upstreams.items()] == ["from-env", "from-file"]
    assert "from-" not in repr(config)


def test_client_keys_of_both_sources_are_joined(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# people\nk3\n\nk1\n")
    assert client_keys(Auth(keys_env="K", keys_file=str(file)), {"K": "k1 k2,k3"}) == ("k1", "k2", "k3")
    assert client_keys(Auth(), {}) == ()
    file.write_text("# nobody\n")
    with pytest.raises(SecretError, match="no key at all"):
        client_keys(Auth(keys_file=str(file)), {})


def test_config_defaults_are_a_valid_tree():
    assert Config().routes == ()

"""systemd, Kubernetes, Docker, compose, nginx and lnav: each file judged by the tool that reads it, or by the nearest that can be had.

No image is built and no cluster or compose project is started here: those files are only linted.
"""

from __future__ import annotations

import json
import re

import orjson
import pytest
import yaml

from pipeline.commands import TurnRecord
from pipeline.verdicts import Api, Verdict
from proxy.cli.explain import command
from proxy.config import loads
from proxy.telemetry.turn_line import Measured, turn_fields
from tests.support.tools import ROOT, run, tool

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")
SCHEMA = "1.37"


# --- systemd ------------------------------------------------------------------------------------------------------------------


def test_systemd_finds_nothing_in_the_units(tmp_path):
    """`verify` also looks for the program: the interpreter of these tests stands in for it."""
    analyze = tool("systemd-analyze")
    for name in ("toolgraft.service", "toolgraft.socket"):
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/toolgraft/bin/toolgraft", tool("python3")))
    done = run(analyze, "verify", "--man=no", tmp_path / "toolgraft.socket", tmp_path / "toolgraft.service")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_service_is_exposed_to_little():
    analyze = tool("systemd-analyze")
    done = run(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", DEPLOY / "systemd" / "toolgraft.service")
    assert done.returncode == 0, done.stdout[-400:] + done.stderr
    found = re.search(r"Overall exposure level for toolgraft.service: ([\d.]+)", done.stdout)
    assert found is not None
    assert float(found[1]) <= 2.0


def test_systemd_waits_longer_than_a_drain_takes():
    drain = loads('[upstreams.u]\nurl = "http://127.0.0.1:1"\n', {}).drain
    text = (DEPLOY / "systemd" / "toolgraft.service").read_text()
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1]) >= drain.lame_duck_s + drain.timeout_s + 10


# --- Kubernetes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", MANIFESTS, ids=[path.stem for path in MANIFESTS])
def test_a_manifest_fits_kubernetes_schema(manifest):
    done = run(tool("kubernetes-validate"), "--strict", "-k", SCHEMA, manifest)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kustomize_puts_all_of_it_together(tmp_path):
    kubectl = tool("kubectl", optional=True)
    done = run(kubectl, "kustomize", KUBERNETES)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "all.yaml"
    made.write_text(done.stdout)
    checked = run(tool("kubernetes-validate"), "--strict", "-k", SCHEMA, made)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Service"]


def test_the_list_of_resources_is_the_folder():
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert sorted(listed["resources"]) == [path.name for path in MANIFESTS]
    assert [path for generator in listed["configMapGenerator"] for path in generator["files"]] == ["toolgraft.toml"]


def deployment():
    return yaml.safe_load((KUBERNETES / "deployment.yaml").read_text())["spec"]["template"]["spec"]


def test_kubernetes_waits_longer_than_a_drain_takes(tmp_path):
    drain = configuration(KUBERNETES / "toolgraft.toml", tmp_path).drain
    pod = deployment()
    slept = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= slept + drain.lame_duck_s + drain.timeout_s + 10


def test_probes_ask_the_admin_listener(tmp_path):
    config = configuration(KUBERNETES / "toolgraft.toml", tmp_path)
    container = deployment()["containers"][0]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": config.listen.port, "admin": config.admin.port}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    assert {name: probe["path"] for name, probe in probes.items()} == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}


def test_the_autoscaler_asks_for_a_metric_that_is_exported():
    metrics = yaml.safe_load((KUBERNETES / "hpa.yaml").read_text())["spec"]["metrics"]
    assert [metric["pods"]["metric"]["name"] for metric in metrics if metric["type"] == "Pods"] == ["toolgraft_requests_in_flight"]


def configuration(path, tmp_path):
    """A shipped configuration with its secrets' paths put where this test may write."""
    text = path.read_text()
    for secret in re.findall(r'_file = "([^"]+)"', text):
        stand_in = tmp_path / secret.rpartition("/")[2]
        stand_in.write_text("a-key-of-some-length\n")
        text = text.replace(secret, str(stand_in))
    return loads(text, {})


# --- Docker and compose -------------------------------------------------------------------------------------------------------


def test_hadolint_finds_nothing_in_the_dockerfile():
    done = run(tool("hadolint"), DEPLOY / "docker" / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_recommends_no_scaling_that_its_ports_do_not_allow():
    folder = DEPLOY / "compose"
    services = yaml.safe_load((folder / "compose.yml").read_text())["services"]
    recommended = {name for file in folder.iterdir() for name in re.findall(r"--scale (\w+)=", file.read_text())}
    for name in recommended:
        assert all("-" in str(port).rsplit(":", 2)[-2] for port in services[name].get("ports", ())), name


def test_compose_mounts_and_builds_what_is_there(tmp_path):
    folder = DEPLOY / "compose"
    services = yaml.safe_load((folder / "compose.yml").read_text())["services"]
    build = services["toolgraft"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).is_file()
    sources = [mount.split(":")[0] for service in services.values() for mount in service["volumes"]]
    assert [source for source in sources if source.startswith(".") and not (folder / source).exists()] == []
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service["ports"])
    config = configuration(folder / "toolgraft.toml", tmp_path)
    assert services["toolgraft"]["ports"] == [f"127.0.0.1:{config.listen.port}:{config.listen.port}"]
    assert services["toolgraft"]["stop_grace_period"] == "60s"
    assert config.drain.lame_duck_s + config.drain.timeout_s + 10 <= 60


# --- nginx --------------------------------------------------------------------------------------------------------------------


def test_gixy_finds_nothing_in_the_nginx_block(tmp_path):
    main = tmp_path / "nginx.conf"
    shipped = DEPLOY / "nginx" / "toolgraft.conf"
    main.write_text(f"worker_rlimit_nofile 512;\nevents {{ worker_connections 256; }}\nhttp {{\n    include {shipped};\n}}\n")
    done = run(tool("gixy"), main)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Total issues" in done.stdout


# --- YAML and lnav ------------------------------------------------------------------------------------------------------------

YAMLLINT = (
    "{extends: default, rules: {line-length: disable, document-start: disable, braces: disable, brackets: disable, "
    "truthy: {check-keys: false}, octal-values: disable, comments: {min-spaces-from-content: 1}}}"
)


def test_yamllint_finds_nothing():
    done = run(tool("yamllint"), "--strict", "-d", YAMLLINT, DEPLOY, ROOT / "grafana")
    assert (done.returncode, done.stdout) == (0, "")


LNAV_FORMAT = DEPLOY / "lnav" / "toolgraft.json"


def test_lnav_answers_questions_about_the_log(tmp_path, monkeypatch):
    lnav = tool("lnav")
    formats = tmp_path / ".lnav" / "formats" / "installed"
    formats.mkdir(parents=True)
    (formats / "toolgraft.json").write_text(LNAV_FORMAT.read_text())
    base = {"level": "info", "event": "turn", "worker": 0, "build": "1"}
    log = tmp_path / "log.jsonl"
    with log.open("wb") as file:
        for at, (verdict, total) in enumerate([(Verdict.CALL, 0.5), (Verdict.REFUSED, 1.0), (Verdict.CALL, 1.5)]):
            fields = turn_fields(TurnRecord(api=Api.OPENAI_CHAT, verdict=verdict, attempts=1), Measured(ended=total))
            file.write(orjson.dumps({"ts": 1_790_000_000.0 + at, "rid": f"r{at}", "trace_id": "t", **base, **fields}) + b"\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    query = ";select verdict, count(*) as turns, avg(total_ms) as ms from toolgraft_log group by verdict order by verdict"
    done = run(lnav, "-n", "-c", query, "-c", ":write-csv-to -", log)
    assert "call,2,1000" in done.stdout, done.stdout + done.stderr
    assert "refused,1,1000" in done.stdout


def test_lnav_knows_the_fields_of_the_canonical_line():
    known = set(json.loads(LNAV_FORMAT.read_text())["toolgraft_log"]["value"])
    fields = turn_fields(TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.CALL, attempts=1, held_s=1.0), Measured(ended=1.0, upstream="u"))
    plain = {name for name, value in fields.items() if not isinstance(value, list | dict)}
    assert plain - known <= {"tools_offered", "tool_choice", "history", "text_chars"}


def test_the_manual_names_the_options_that_explain_has():
    text = (ROOT / "docs" / "operations.md").read_text()
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options - {option for option in options if option in text} == set()

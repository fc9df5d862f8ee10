"""The shipped Prometheus configuration: clean for promtool, true to the catalogue, and each alert with its case and its section in the runbook."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml

from proxy.explain.diagnosis import HELD_MS, SLOW_MS
from proxy.explain.summary import TIMES
from proxy.telemetry.catalogue import Names, domains
from proxy.telemetry.metrics import Metrics
from tests.support.promql import metrics_of
from tests.support.tools import ROOT, run, tool

FOLDER = ROOT / "deploy" / "prometheus"
COMPOSE = ROOT / "deploy" / "compose" / "prometheus.yml"
EXPECTED = {
    "TurnsFailing",
    "PromptTooWeak",
    "ParserFailing",
    "RetryNotRecovering",
    "RetrySkipped",
    "InvariantBroken",
    "TurnsLost",
    "OverheadHigh",
    "HeldTooLong",
    "LoopLag",
    "Saturated",
    "UpstreamDown",
    "LogLinesDropped",
    "TargetMissing",
    "FailedOpen",
}


def rules(name):
    return [rule for group in yaml.safe_load((FOLDER / name).read_text())["groups"] for rule in group["rules"]]


RECORDS = {rule["record"]: rule["expr"] for rule in rules("recording.yml")}
ALERTS = {rule["alert"]: rule for rule in rules("alerts.yml")}


def exported():
    text, _ = Metrics(Names()).render("")
    return {re.split(rb"[{ ]", line)[0].decode() for line in text.splitlines() if not line.startswith(b"#")}


@pytest.mark.parametrize("configuration", [FOLDER / "prometheus.yml", COMPOSE], ids=["alone", "compose"])
def test_promtool_takes_the_configuration_and_its_rules(tmp_path, configuration):
    promtool = tool("promtool")
    for name in ("recording.yml", "alerts.yml"):
        shutil.copy(FOLDER / name, tmp_path)
    shutil.copy(configuration, tmp_path / "prometheus.yml")
    done = run(promtool, "check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == 4


def test_promtool_finds_nothing_in_the_rules():
    done = run(tool("promtool"), "check", "rules", "--lint-fatal", FOLDER / "recording.yml", FOLDER / "alerts.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_and_stays_silent_as_its_cases_say():
    done = run(tool("promtool"), "test", "rules", FOLDER / "tests" / "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_are_those_that_are_promised():
    assert set(ALERTS) == EXPECTED


def test_every_alert_has_a_firing_case():
    text = (FOLDER / "tests" / "alerts_test.yml").read_text()
    assert {name for name in ALERTS if f'ALERTS{{alertname="{name}", alertstate="firing"' not in text} == set()


@pytest.mark.parametrize("name", [*RECORDS, *ALERTS])
def test_a_rule_reads_only_what_is_exported_or_recorded(name):
    expr = RECORDS.get(name) or ALERTS[name]["expr"]
    assert metrics_of(expr) <= exported() | set(RECORDS) | {"up"}


def test_every_label_value_in_a_rule_exists():
    known = {value for values in domains(Names()).values() for value in values}
    text = "\n".join([*RECORDS.values(), *(rule["expr"] for rule in ALERTS.values())])
    named = {word for label, words in re.findall(r'(\w+)[=!]~?"([^"]+)"', text) if label != "job" for word in words.split("|")}
    assert named - known == set()


def test_recorded_names_say_level_metric_and_operations():
    for name in RECORDS:
        level, metric, operations = name.split(":")
        assert re.fullmatch(r"job(_[a-z]+)*", level)
        assert metric.startswith("toolgraft_")
        assert not metric.endswith("_total")
        assert re.fullmatch(r"(rate|ratio_rate|p\d+_rate)\d+[mh]|sum", operations)


def test_a_ratio_never_divides_by_an_idle_model():
    for name, expr in RECORDS.items():
        if "ratio" in name:
            assert re.search(r"> 0\)$", expr), name


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_alert_leads_to_its_section_in_the_runbook(name):
    annotations = ALERTS[name]["annotations"]
    assert annotations["summary"] and annotations["description"]
    path, _, anchor = annotations["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
    assert ALERTS[name]["labels"]["severity"] in ("page", "ticket")


def test_explain_and_the_alerts_have_the_same_bounds():
    assert ALERTS["OverheadHigh"]["expr"] == f"job:toolgraft_overhead_excess_seconds:p99_rate5m > {SLOW_MS / 1000:g}"
    assert "excess_ms" in TIMES
    assert ALERTS["HeldTooLong"]["expr"].endswith(f"> {HELD_MS / 1000:g}")

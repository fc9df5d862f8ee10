"""The dashboard: what the code builds, clean by the rules of Grafana's own linter, and true to the catalogue. Whether its queries find anything is
shown on a live Prometheus, in tests/e2e/test_incidents.py."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re

import pytest
import yaml

from proxy.telemetry.catalogue import CATALOGUE, Names
from proxy.telemetry.metrics import Metrics
from tests.support.promql import filled, metrics_of
from tests.support.tools import ROOT

FOLDER = ROOT / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
ALERT_OF = {
    "Prompt too weak": ("PromptTooWeak", "> 0.3", 0.3),
    "Parser failure": ("ParserFailing", "> 0.1", 0.1),
    "Retry not triggered": ("RetrySkipped", "> 0.5", 0.5),
    "Upstream's fault": ("UpstreamDown", "> 0.5", 0.5),
    "Our slowness": ("OverheadHigh", "> 0.05", 0.05),
    "Turns that fail": ("TurnsFailing", "> 14.4 * 0.01", 0.144),
}


@pytest.fixture(scope="module")
def builder():
    pytest.importorskip("grafana_foundation_sdk")
    spec = importlib.util.spec_from_file_location("grafana_build", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_json_is_what_the_code_builds(builder):
    assert (FOLDER / "dashboard.json").read_text() == builder.render()


def test_grafanas_own_model_reads_it_back_without_loss(builder):
    dashboard = importlib.import_module("grafana_foundation_sdk.models.dashboard")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    plugins = importlib.import_module("grafana_foundation_sdk.cog.plugins")
    plugins.register_default_plugins()
    again = encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(DASHBOARD))
    assert json.loads(again) == DASHBOARD


def test_the_first_row_answers_the_four_questions():
    first = [panel["title"] for panel in DASHBOARD["panels"][:5]]
    assert first == ["Which fault is it", "Prompt too weak", "Parser failure", "Retry not triggered", "State machine broken"]
    assert {panel["gridPos"]["y"] for panel in DASHBOARD["panels"][1:5]} == {1}


@pytest.mark.parametrize(("title", "alert", "bound", "red"), [(title, *rest) for title, rest in ALERT_OF.items()])
def test_a_number_turns_red_where_its_alert_fires(title, alert, bound, red):
    (panel,) = [panel for panel in PANELS if panel["title"] == title]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == red
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    (expr,) = [rule["expr"] for group in groups for rule in group["rules"] if rule["alert"] == alert]
    assert bound in expr


# --- the rules of grafana/dashboard-linter ------------------------------------------------------------------------------------


def test_the_data_source_is_a_variable():
    sources = [panel["datasource"] for panel in PANELS] + [target["datasource"] for panel in PANELS for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job", "model"]


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_says_what_it_shows(panel):
    assert panel["title"]
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    assert all(target["legendFormat"] for target in panel["targets"])


def test_titles_and_numbers_are_unique():
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(titles) == len(set(titles))
    assert len(numbers) == len(set(numbers))


def test_panels_do_not_overlap_and_stay_on_the_page():
    taken = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize(("title", "expr"), QUERIES, ids=[f"{title} {at}" for at, (title, _) in enumerate(QUERIES)])
def test_a_query_reads_what_is_exported_and_takes_its_windows_and_jobs_from_variables(title, expr):
    text, _ = Metrics(Names()).render("")
    exported = {re.split(rb"[{ ]", line)[0].decode() for line in text.splitlines() if not line.startswith(b"#")}
    assert metrics_of(filled(expr)) <= exported | {"up"}
    assert set(re.findall(r"\[([^\]]+)\]", expr)) <= {"$__rate_interval", "$__range", "$__rate_interval:"}
    assert "instance=" not in expr
    assert expr.count("{") == expr.count('job=~"$job"')
    counted = re.findall(r"(?:rate|increase)\((\w+)", expr)
    assert all(name.endswith(("_total", "_bucket", "_sum", "_count")) for name in counted)


def test_the_dashboard_shows_every_metric_of_the_catalogue():
    shown = set().union(*(metrics_of(filled(expr)) for _, expr in QUERIES))
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in shown}
    assert {metric.name for metric in CATALOGUE} - families == set()


def test_what_is_provisioned_is_where_compose_puts_it():
    dashboards = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "toolgraft.yml").read_text())
    mounts = yaml.safe_load((ROOT / "deploy" / "compose" / "compose.yml").read_text())["services"]["grafana"]["volumes"]
    assert any(mount.split(":")[1] == f"{dashboards['providers'][0]['options']['path']}/dashboard.json" for mount in mounts)

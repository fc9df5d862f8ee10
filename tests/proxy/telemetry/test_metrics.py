"""The exposition: clean for promtool, bounded in series, and out of reach for clients."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chain import DEFAULT_STAGES
from pipeline.commands import TurnRecord
from pipeline.turn import Usage
from pipeline.verdicts import Api, Noted, Verdict
from proxy.telemetry.catalogue import CATALOGUE, Names, code_label
from proxy.telemetry.logs import make_logger
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.telemetry import Telemetry
from tests.support.tools import ROOT

NAMES = Names(models=("qwen*", "deepseek*", "llama"), upstreams=("local", "hosted"), stages=DEFAULT_STAGES)


def series(metrics):
    text, _ = metrics.render("")
    return {line.rsplit(b" ", 1)[0] for line in text.splitlines() if not line.startswith(b"#")}


def test_promtool_finds_nothing_to_say():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    text, _ = Metrics(NAMES).render("")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_worker_exports_less_than_1500_series():
    assert len(series(Metrics(NAMES))) < 1500


def test_series_grow_with_the_configuration_as_the_scaling_page_says():
    def count(models=0, upstreams=1, dialects=2, more_stages=0):
        names = (tuple(f"{word}{at}" for at in range(number)) for word, number in zip("mud", (models, upstreams, dialects), strict=True))
        return len(series(Metrics(Names(*names, stages=tuple(f"s{at}" for at in range(len(DEFAULT_STAGES) + more_stages))))))

    one = count()
    growth = [count(models=1) - one, count(upstreams=2) - one, count(dialects=3) - one, count(more_stages=1) - one]
    page = " ".join((ROOT / "docs" / "scaling.md").read_text().split())
    said = re.search(
        r"make ([\d,]+), .*? (\d+) more, .*?upstream (\d+), .*?dialect (\d+), .*?stage (\d+): .*?upstreams ([\d,]+), .*? one ([\d,]+)", page
    )
    assert said is not None
    assert [int(number.replace(",", "")) for number in said.groups()] == [one, *growth, count(3, 2), count(20)]


def test_every_metric_is_exported_from_the_start():
    exported = b"\n".join(series(Metrics(NAMES))).decode()
    assert [metric.name for metric in CATALOGUE if metric.sample not in exported] == []


def test_the_twins_have_the_labels_and_buckets_that_the_convention_asks_for():
    text = Metrics(NAMES).render("")[0].decode()
    twins = [line for line in text.splitlines() if line.startswith("gen_ai_")]
    assert twins
    for line in twins:
        assert 'gen_ai_operation_name="chat"' in line
        assert 'gen_ai_provider_name="toolgraft"' in line
        assert "gen_ai_token_type=" in line or not line.startswith("gen_ai_client_token_usage")
    bounds = [
        float(bound) for bound in re.findall(r'token_usage_bucket\{[^}]*gen_ai_request_model="llama"[^}]*"input"[^}]*le="([\d.e+]+)"', text)
    ]
    assert bounds == [4.0**power for power in range(14)]
    assert bounds[-1] == 67_108_864


def test_scrapers_get_the_format_they_ask_for():
    metrics = Metrics(NAMES)
    metrics["overhead_seconds"].observe(0.003, "openai_chat", trace_id="ab" * 16)
    plain, plain_type = metrics.render("text/plain")
    open_metrics, open_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert plain_type.startswith("text/plain")
    assert b"abab" not in plain
    assert open_type.startswith("application/openmetrics-text")
    assert b'# {trace_id="' + b"ab" * 16 in open_metrics
    assert open_metrics.endswith(b"# EOF\n")


@pytest.mark.parametrize(("status", "label"), [(200, "200"), (429, "429"), (418, "4xx"), (599, "5xx"), (0, "other"), (302, "other")])
def test_a_status_is_itself_or_its_class(status, label):
    assert code_label(status) == label


class Silence:
    def msg(self, line):
        pass

    debug = info = warning = error = msg


WORDS = st.text(max_size=20)


@settings(max_examples=60, deadline=None)
@given(model=WORDS, upstream=WORDS, dialect=WORDS, phrase=WORDS, parameter=WORDS, stage=WORDS, status=st.integers(0, 10_000), tool=WORDS)
def test_no_word_of_a_client_or_an_upstream_makes_a_series(model, upstream, dialect, phrase, parameter, stage, status, tool):
    telemetry = Telemetry(NAMES, make_logger(Silence()), stages="all")
    before = series(telemetry.metrics)
    ledger = telemetry.turn(Api.OPENAI_CHAT, "r", "t")
    ledger.measured.model = model
    note = ledger.bind(stage, 1)
    note(Noted.UPSTREAM_SENT, upstream=upstream, cause=tool, bytes=1)
    note(Noted.BLOCK, dialect=dialect, outcome=tool, repairs=(tool,), names=(tool,))
    note(Noted.REFUSAL_HIT, kind=tool, lang=phrase, phrase=phrase)
    note(Noted.PARAMETER_DROPPED, parameter=parameter)
    note(Noted.CONTRACT_INJECTED, dialect=dialect, tier=tool, bytes=status)
    note(Noted.STAGE_FAILED, stage=stage, mode=tool)
    note(Noted.ATTEMPT_ENDED, verdict=Verdict.TEXT, cause=tool, upstream=upstream, status=status)
    ledger.upstream_first_byte(upstream, 0.1)
    ledger.conclude(
        TurnRecord(api=Api.OPENAI_CHAT, verdict=Verdict.TEXT, status=status, emulated=True, dialect=dialect, attempts=1, usage=Usage(1, 1))
    )
    telemetry.answered(model, status)
    assert series(telemetry.metrics) == before

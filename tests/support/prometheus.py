"""A real Prometheus with the shipped rules, in a hurry.

In: jobs with the URLs to scrape. Out: queries and alerts, as Grafana and people on call get them. The rules are the shipped ones with one change, made
by `hurried`: hours are read as minutes and minutes as seconds; it scrapes and evaluates every second instead of every fifteen.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.running import free_port
from tests.support.tools import ROOT, tool

RULES = ROOT / "deploy" / "prometheus"
_HURRY = {"h": "m", "m": "s"}


def hurried(rules: str) -> str:
    """The same rules, sixty times as fast. Names such as `rate5m` stay: there the digits follow a letter."""
    return re.sub(r"(?<!\w)(\d+)([hm])\b", lambda found: found[1] + _HURRY[found[2]], rules)


class Prometheus:
    """A running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """An instant query's samples, NaN left out."""
        found = self._get("query", query=expr)["result"]
        values = [(one["metric"], float(one["value"][1])) for one in found]
        return [(labels, value) for labels, value in values if not math.isnan(value)]

    def alerts(self, state: str = "firing") -> list[dict[str, Any]]:
        """Alerts in this state."""
        return [one for one in self._get("alerts")["alerts"] if one["state"] == state]

    def firing(self) -> dict[str, set[str]]:
        """Names of firing alerts by job."""
        found: dict[str, set[str]] = {}
        for one in self.alerts():
            found.setdefault(one["labels"]["job"], set()).add(one["labels"]["alertname"])
        return found

    def targets_up(self) -> int:
        """How many targets answer."""
        return int(sum(value for _, value in self.query("up")))

    def _get(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]


@contextmanager
def prometheus(folder: Path, jobs: Mapping[str, Sequence[str]]) -> Iterator[Prometheus]:
    """Run Prometheus over these jobs; the URLs are base URLs of admin listeners."""
    binary = tool("prometheus")
    for name in ("recording.yml", "alerts.yml"):
        (folder / name).write_text(hurried((RULES / name).read_text()))
    scrapes = [
        {"job_name": job, "static_configs": [{"targets": [url.removeprefix("http://") for url in urls]}]} for job, urls in jobs.items()
    ]
    # JSON is YAML.
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["recording.yml", "alerts.yml"],
        "scrape_configs": scrapes,
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration))
    port = free_port()
    command = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (folder / "prometheus.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _until_ready(f"http://127.0.0.1:{port}", process, folder)
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if process.poll() is not None:
            raise AssertionError(f"prometheus ended: {(folder / 'prometheus.txt').read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise AssertionError("prometheus did not become ready")

"""Scripted incidents against the real service, scraped by a real Prometheus: one service for each fault, all at once, and a healthy one beside them.

Each has its own job, so that the shipped dashboard (its `job` variable), the shipped alerts and `toolgraft explain` can be asked about it alone. All three
must name the same fault, and nothing may be said against the healthy one. Rules run in a hurry (tests/support/prometheus.py); every query comes from
dashboard.json as it is shipped.

Whether the services get their share of the machine is told by a ticker here and by the load: on a busy machine what is said about slowness says
something about the machine, and only then is it left out of account (but for the service that is slow on purpose).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from proxy.explain.faults import Fault
from tests.support.prometheus import Prometheus, prometheus
from tests.support.promql import filled
from tests.support.running import Running, free_port, toolgraft
from tests.support.scripted_upstream import ScriptedUpstream, Seen
from tests.support.tools import ROOT, run, tool

DASHBOARD = json.loads((ROOT / "grafana" / "dashboard.json").read_text())
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
BROKEN_STAGES = ROOT / "tests" / "support" / "broken_stages"
PAUSE_S = 0.12
PATIENCE_S = 75.0
LAG_OF_A_BUSY_MACHINE_S = 0.02

CALL = '```json action\n{"tool": "lookup_tide", "parameters": {"port": "Vigo"}}\n```'
BROKEN_CALL = '```json action\n{"tool": "lookup_tide", "parameters": {"port": Vigo of course}\n```'
REFUSAL = "I'm sorry, but I don't have access to any tools, so I can't look up the tide for you."
TEXT = "High water at Vigo comes twice a day, about every twelve hours and twenty-five minutes."
LOOKUP = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}

CLASSES = {
    Fault.PROMPT_TOO_WEAK: ("Prompt too weak", {"PromptTooWeak"}),
    Fault.PARSER_FAILURE: ("Parser failure", {"ParserFailing"}),
    Fault.RETRY_NOT_TRIGGERED: ("Retry not triggered", {"RetrySkipped"}),
    Fault.STATE_MACHINE_BROKEN: ("State machine broken", {"InvariantBroken", "FailedOpen", "TurnsLost"}),
    Fault.UPSTREAM_FAULT: ("Upstream's fault", {"UpstreamDown"}),
    Fault.OWN_SLOWNESS: ("Our slowness", {"OverheadHigh", "LoopLag"}),
}
ABOUT_SPEED = {"OverheadHigh", "LoopLag", "HeldTooLong", "TargetMissing"}


@dataclass
class Incident:
    """One service, and what must be said about it. `alerts` must fire; of other classes none may."""

    job: str
    answer: Callable[[int, Seen], object]
    fault: Fault | None
    alerts: set[str]
    toml: str = ""
    stages: str = ""
    upstream_down: bool = False
    turns: int = 0
    running: Running | None = field(default=None, repr=False)


def _every(number: int, one: object, others: object) -> Callable[[int, Seen], object]:
    return lambda at, _: one if at % number == 1 else others


def _healthy(at: int, seen: Seen) -> object:
    """Calls and texts, and now and then a refusal that is asked again and a small slip that is repaired."""
    if at % 25 == 0 and "lookup_tide" in seen.text:
        return REFUSAL
    return TEXT if at % 3 == 0 else CALL.replace('"Vigo"}}', '"Vigo",}}') if at % 7 == 0 else CALL


def _stages(*extra: str) -> str:
    names = ["normalize", "history_guard", *extra, "prompt_contract", "upstream", "sieve"]
    return json.dumps([*names, "retry_on_refusal", "re_encode"])


INCIDENTS = [
    Incident("toolgraft-healthy", _healthy, None, set()),
    Incident("toolgraft-prompt", lambda *_: REFUSAL, Fault.PROMPT_TOO_WEAK, {"PromptTooWeak", "RetryNotRecovering", "TurnsFailing"}),
    Incident(
        "toolgraft-parser", lambda *_: BROKEN_CALL, Fault.PARSER_FAILURE, {"ParserFailing", "TurnsFailing"}, "[retry]\nmax_retries = 1\n"
    ),
    Incident(
        "toolgraft-retry",
        _every(5, REFUSAL, CALL),
        Fault.RETRY_NOT_TRIGGERED,
        {"RetrySkipped", "TurnsFailing"},
        "[retry]\nmax_retries = 0\n",
    ),
    Incident("toolgraft-open", lambda *_: CALL, Fault.STATE_MACHINE_BROKEN, {"FailedOpen"}, stages=_stages("careless")),
    Incident(
        "toolgraft-machine",
        lambda *_: CALL,
        Fault.STATE_MACHINE_BROKEN,
        {"InvariantBroken"},
        stages=_stages().replace('"retry_on', '"doubling", "retry_on'),
    ),
    Incident("toolgraft-upstream", lambda *_: TEXT, Fault.UPSTREAM_FAULT, {"UpstreamDown", "TurnsFailing"}, upstream_down=True),
    Incident(
        "toolgraft-slow",
        lambda *_: CALL,
        Fault.OWN_SLOWNESS,
        {"OverheadHigh"},
        "[defaults.stages.dawdling]\nseconds = 0.2\n",
        _stages("dawdling"),
    ),
]
BY_JOB = {incident.job: incident for incident in INCIDENTS}


class World:
    """Everything that runs, and what is known when the traffic is over."""

    def __init__(self, watch: Prometheus) -> None:
        self.prometheus = watch
        self.firing: dict[str, set[str]] = {}
        self.annotations: list[dict[str, str]] = []
        self.red: dict[str, set[str]] = {}
        self.data: dict[str, bool] = {}
        self.machine_is_quiet = True


@contextmanager
def incidents(tmp_path_factory) -> Iterator[World]:
    """Start everything, drive the traffic, ask the questions."""
    tool("prometheus")
    with ExitStack() as stack:
        upstream = stack.enter_context(ScriptedUpstream(_play()).in_thread())
        with ThreadPoolExecutor(len(INCIDENTS)) as starters:
            started = [starters.submit(_start, incident, upstream.url, tmp_path_factory) for incident in INCIDENTS]
        for incident, one in zip(INCIDENTS, started, strict=True):
            if one.exception() is None:
                context, incident.running = one.result()
                stack.push(context.__exit__)
        assert [one.exception() for one in started if one.exception() is not None] == []
        asyncio.run(_warm_up())
        jobs = {incident.job: [incident.running.admin] for incident in INCIDENTS}
        found = World(stack.enter_context(prometheus(tmp_path_factory.mktemp("prometheus"), jobs)))
        asyncio.run(_drive(found))
        yield found


def _start(incident: Incident, url: str, tmp_path_factory) -> tuple[object, Running]:
    environment = {"PYTHONPATH": str(BROKEN_STAGES)}
    if incident.stages:
        environment["TOOLGRAFT_STAGES"] = incident.stages
    target = f"http://127.0.0.1:{free_port()}/v1" if incident.upstream_down else url
    context = toolgraft(tmp_path_factory.mktemp(incident.job), target, incident.toml, environment)
    return context, context.__enter__()


def _play() -> Callable[[Seen], object]:
    """The upstream of all: the model's name is the incident's."""
    asked: Counter[str] = Counter()

    def answer(seen: Seen) -> object:
        job = seen.json["model"]
        asked[job] += 1
        return BY_JOB[job].answer(asked[job], seen)

    return answer


# --- traffic ------------------------------------------------------------------------------------------------------------------


async def _warm_up() -> None:
    """The first turns of a process are slower; they come before the first scrape, and so before every rate."""
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(_turn(session, incident) for incident in INCIDENTS for _ in range(6)))


async def _drive(world: World) -> None:
    """Send turns until every alert that must fire does, and then ask everything while the traffic still runs."""
    stop = asyncio.Event()
    lags: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        clients = [asyncio.create_task(_client(session, incident, stop)) for incident in INCIDENTS]
        ticker = asyncio.create_task(_ticker(lags, stop))
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            await asyncio.sleep(1.0)
            world.firing = await asyncio.to_thread(world.prometheus.firing)
            if all(incident.alerts <= world.firing.get(incident.job, set()) for incident in INCIDENTS):
                break
        await asyncio.to_thread(_ask, world)
        stop.set()
        await asyncio.gather(*clients, ticker)
    world.machine_is_quiet = max(lags) < LAG_OF_A_BUSY_MACHINE_S and os.getloadavg()[0] < (os.cpu_count() or 1)


async def _ticker(lags: list[float], stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        due = loop.time() + 0.05
        await asyncio.sleep(0.05)
        lags.append(loop.time() - due)


async def _client(session: aiohttp.ClientSession, incident: Incident, stop: asyncio.Event) -> None:
    """Turns in all three protocols, streamed and not, one after the other; every tenth without tools."""
    while not stop.is_set():
        await _turn(session, incident)
        await asyncio.sleep(PAUSE_S)


async def _turn(session: aiohttp.ClientSession, incident: Incident) -> None:
    incident.turns += 1
    path, body = _request(incident.job, incident.turns)
    async with session.post(f"{incident.running.url}{path}", json=body) as answer:
        await answer.read()


def _request(model: str, at: int) -> tuple[str, dict[str, object]]:
    question = "What is the tide at Vigo?"
    stream = at % 2 == 0
    head: dict[str, object] = {"model": model, "stream": stream}
    if at % 10 == 0:
        return "/v1/chat/completions", {**head, "messages": [{"role": "user", "content": question}]}
    if at % 3 == 0:
        tools = [{"name": "lookup_tide", "input_schema": LOOKUP}]
        return "/v1/messages", {**head, "max_tokens": 500, "messages": [{"role": "user", "content": question}], "tools": tools}
    if at % 3 == 1:
        return "/v1/responses", {**head, "input": question, "tools": [{"type": "function", "name": "lookup_tide", "parameters": LOOKUP}]}
    tools = [{"type": "function", "function": {"name": "lookup_tide", "parameters": LOOKUP}}]
    return "/v1/chat/completions", {**head, "messages": [{"role": "user", "content": question}], "tools": tools}


# --- questions ----------------------------------------------------------------------------------------------------------------


def _ask(world: World) -> None:
    world.annotations = [alert["annotations"] for alert in world.prometheus.alerts()]
    for incident in INCIDENTS:
        red = set()
        for title, _ in CLASSES.values():
            panel = PANELS[title]
            bound = panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
            expr = filled(panel["targets"][0]["expr"], job=incident.job, interval="5s", shown="20s")
            if any(value >= bound for _, value in world.prometheus.query(expr)):
                red.add(title)
        world.red[incident.job] = red
    for title, panel in PANELS.items():
        for target in panel["targets"]:
            found = world.prometheus.query(filled(target["expr"], interval="5s", shown="20s"))
            world.data[f"{title} {target['refId']}"] = bool(found)


def explained(incident: Incident) -> dict[str, int]:
    done = run(sys.executable, "-m", "proxy", "explain", "--json", incident.running.log_file)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["lines_skipped"] == 0
    return {one["fault"]: one["turns"] for one in document["faults"] if one["turns"]}


# --- judgement ----------------------------------------------------------------------------------------------------------------


def _alerts_are_right(world: World, incident: Incident) -> Iterator[str]:
    firing = world.firing.get(incident.job, set())
    others = set().union(*(alerts for fault, (_, alerts) in CLASSES.items() if fault is not incident.fault))
    if incident.fault is None:
        others |= {"TurnsFailing", "RetryNotRecovering", "TargetMissing", "LogLinesDropped", "Saturated", "HeldTooLong"}
    if not world.machine_is_quiet:
        others -= ABOUT_SPEED
    if missing := incident.alerts - firing:
        yield f"do not fire: {sorted(missing)}"
    if wrong := firing & others:
        yield f"fire and should not: {sorted(wrong)}"


def _first_row_is_right(world: World, incident: Incident) -> Iterator[str]:
    red = set(world.red[incident.job])
    if not world.machine_is_quiet and incident.fault is not Fault.OWN_SLOWNESS:
        red.discard(CLASSES[Fault.OWN_SLOWNESS][0])
    if red != ({CLASSES[incident.fault][0]} if incident.fault is not None else set()):
        yield f"red on the dashboard: {sorted(red)}"


def _explain_is_right(world: World, incident: Incident) -> Iterator[str]:
    named = explained(incident)
    healthy = named.pop(Fault.HEALTHY, 0)
    if incident.fault is not Fault.OWN_SLOWNESS:
        healthy += named.pop(Fault.OWN_SLOWNESS, 0)  # the first turn of a process, and whatever else the machine did
    if incident.fault is None:
        healthy += named.pop(Fault.PROMPT_TOO_WEAK, 0)  # the refusals that were recovered
        if named or healthy != incident.turns:
            yield f"explain: {named}, {healthy} of {incident.turns} turns healthy"
    elif set(named) != {incident.fault} or named[incident.fault] < incident.turns // 8:
        yield f"explain: {named} of {incident.turns} turns"


def _turns_are_conserved(_world: World, incident: Incident) -> Iterator[str]:
    """Now that nothing is in flight; from the service's own page, since a scrape is up to a second old."""
    assert incident.running is not None
    total = incident.running.total
    sums = {name: total(f"toolgraft_{name}") for name in ("turns_started_total", "turns_total", "requests_in_flight")}
    attempts = total("toolgraft_attempts_total"), total("toolgraft_attempt_verdicts_total")
    if list(sums.values()) != [incident.turns, incident.turns, 0] or attempts[0] != attempts[1]:
        yield f"of {incident.turns} turns: {sums}, attempts and verdicts {attempts}"
    if (lines := len(incident.running.turns(incident.turns))) != incident.turns:
        yield f"{lines} canonical lines for {incident.turns} turns"


@pytest.mark.timeout(240)
def test_dashboard_alerts_and_explain_name_the_same_fault(tmp_path_factory):
    """One test, so that all of it runs once however tests are spread over processes."""
    with incidents(tmp_path_factory) as world:
        checks = (_alerts_are_right, _first_row_is_right, _explain_is_right, _turns_are_conserved)
        problems = [f"{incident.job}: {problem}" for incident in INCIDENTS for check in checks for problem in check(world, incident)]
        problems += [f"no data: {name}" for name, has_data in world.data.items() if not has_data]
        assert world.annotations
        problems += [f"not filled in: {one}" for one in world.annotations if "<error" in json.dumps(one) or "<no value>" in json.dumps(one)]
        assert problems == []

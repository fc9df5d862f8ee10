"""`toolgraft explain` as it is used: files, pipes, containers' logs, growing files; for people and as JSON."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from rich.console import Console

from pipeline.verdicts import Noted
from proxy.cli.explain import command
from proxy.explain.diagnosis import diagnose
from proxy.explain.follow import growing
from proxy.explain.lines import LineReader
from proxy.explain.show import turn_view
from proxy.explain.timeline import SENTENCES, timeline
from proxy.explain.turn_log import Gatherer, TurnLog

STAMP = 1_790_000_000.0


def line(event, rid="r1", at=0.0, **fields):
    return {"ts": STAMP + at, "level": "info", "event": event, "worker": 0, "build": "1", "rid": rid, "trace_id": f"t-{rid}", **fields}


def turn(rid="r1", at=1.0, verdict="call", **fields):
    base = {
        "api": "openai_chat",
        "stream": True,
        "model": "m*",
        "verdict": verdict,
        "status": 200,
        "emulated": True,
        "attempts": 1,
        "causes": ["first"],
    }
    return line(
        "turn", rid, at, **{**base, "attempt_verdicts": [verdict], "total_ms": 1000.0, "ttfb_ms": 600.0, "overhead_ms": 2.0, **fields}
    )


REFUSED = [
    line("refusal_hit", "r2", 0.25, stage="retry_on_refusal", attempt=1, kind="hard", lang="en", phrase="en.no_tools"),
    line("retry_skipped", "r2", 0.5, stage="retry_on_refusal", attempt=1, cause="refusal", why="off", level="warning"),
    turn("r2", 1.0, "refused", retry_skipped="off", refusal="en.no_tools"),
]
LOG = [line("listening"), turn("r1"), *REFUSED, turn("r3", verdict="call", blocks={"parsed": 1})]
LOG[0].pop("rid")


def written(lines):
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(written(LOG))
    return path


def explain(*arguments, data=None):
    return CliRunner().invoke(command, [str(one) for one in arguments], input=data)


def test_the_sum_says_what_was_wrong_how_often_and_what_to_try(log_file):
    done = explain(log_file)
    assert done.exit_code == 0
    assert "3 turns" in done.output
    assert "Retry not triggered" in done.output
    assert "33.3%" in done.output
    assert "max_retries" in done.output


def test_the_sum_as_json(log_file):
    document = json.loads(explain(log_file, "--json").output)
    assert document["turns"] == 3
    assert [(one["fault"], one["turns"], one["also_in"]) for one in document["faults"]] == [
        ("retry_not_triggered", 1, 0),
        ("prompt_too_weak", 0, 1),
        ("healthy", 2, 0),
    ]
    assert document["faults"][0]["rids"] == ["r2"]
    assert document["verdicts"] == {"call": 2, "refused": 1}
    assert document["times"]["total_ms"] == {"p50": 1000.0, "p90": 1000.0, "p99": 1000.0}
    assert (document["from"], document["to"]) == (STAMP + 1, STAMP + 1)


def test_one_turn_is_a_timeline(log_file):
    done = explain(log_file, "--rid", "r2")
    assert done.exit_code == 0
    at = [
        done.output.index(text)
        for text in ("request arrives", "refusal recognised", "does not ask again", "first byte to the client", "end  ")
    ]
    assert at == sorted(at)
    assert "250.0 ms" in done.output
    assert "why=off" in done.output
    assert "r3" not in done.output


def test_one_turn_as_json(log_file):
    found = json.loads(explain(log_file, "--rid", "r2", "--json").output)
    assert (found["rid"], found["fault"], found["also"]) == ("r2", "retry_not_triggered", ["prompt_too_weak"])
    assert [(one["what"], one["at_ms"]) for one in found["timeline"]] == [
        ("request arrives", 0.0),
        ("refusal recognised", 250.0),
        ("does not ask again", 500.0),
        ("first byte to the client", 600.0),
        ("end", 1000.0),
    ]
    assert found["turn"]["retry_skipped"] == "off"


@pytest.mark.parametrize(
    ("filters", "rids"), [(("--verdict", "call"), ["r1", "r3"]), (("--fault", "retry_not_triggered"), ["r2"]), ((), ["r1", "r2", "r3"])]
)
def test_turns_are_chosen_by_verdict_and_by_fault(log_file, filters, rids):
    output = explain(log_file, "--each", "--json", *filters).output
    assert [json.loads(one)["rid"] for one in output.splitlines()] == rids


def test_a_pipe_is_read(log_file):
    assert json.loads(explain("--json", data=log_file.read_bytes()).output)["turns"] == 3


def test_following_a_pipe_prints_each_turn_and_then_the_sum():
    done = explain("--follow", data=written(LOG))
    assert [word in done.output for word in ("r1", "r2", "r3", "3 turns")] == [True] * 4


def test_nothing_found_is_an_exit_status(log_file):
    done = explain(log_file, "--rid", "nobody")
    assert done.exit_code == 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda raw: b"toolgraft-1  | " + raw,
        lambda raw: b"2026-10-01T08:00:00.000000000Z stdout F " + raw,
        lambda raw: json.dumps({"log": raw.decode() + "\n", "stream": "stdout"}).encode(),
        lambda raw: json.dumps({"MESSAGE": raw.decode(), "_PID": "1"}).encode(),
    ],
    ids=["compose", "cri", "json-file", "journal"],
)
def test_what_containers_and_journals_put_around_a_line_is_passed_over(wrap):
    reader = LineReader()
    assert reader.read(wrap(json.dumps(turn()).encode())) == turn()
    assert reader.skipped == 0


@pytest.mark.parametrize(
    "raw", [b"nginx: started\n", b"{", b"[1]\n", b'{"event": 5}\n', b'{"no": "event"}\n', b"\xff\xfe{}\n", b'{"event": "x", "a": 1e999}\n']
)
def test_a_line_that_is_none_of_ours_is_counted(raw):
    reader = LineReader()
    assert reader.read(raw) is None
    assert reader.skipped == 1


def test_turns_that_share_a_request_id_are_kept_apart_by_their_trace():
    gatherer = Gatherer()
    one, two = line("block") | {"trace_id": "a"}, line("retry") | {"trace_id": "b"}
    assert gatherer.feed(one) is None
    assert gatherer.feed(two) is None
    assert gatherer.feed(turn() | {"trace_id": "b"}).events == [two]
    assert [log.events for log in gatherer.close()] == [[one]]


def test_a_fault_of_a_request_that_is_no_turn_makes_no_turn():
    gatherer = Gatherer()
    assert gatherer.feed(line("unexpected", place="app", error="KeyError", level="error")) is None
    assert gatherer.feed(turn("r2")) is not None
    assert gatherer.feed(line("capture_failed", "r2", level="error")) is None
    assert list(gatherer.close()) == []
    assert {one["event"]: one["count"] for one in gatherer.process.document()} == {"unexpected": 1, "capture_failed": 1}


def test_a_fault_in_a_turn_is_its_evidence():
    gatherer = Gatherer()
    gatherer.feed(line("unexpected", place="driver", error="KeyError", level="error"))
    assert diagnose(gatherer.feed(turn())).fault == "state_machine_broken"


def process_line(event, level="info", **fields):
    return {"ts": STAMP, "level": level, "event": event, "worker": 1, "build": "1", **fields}


def test_the_sum_tells_what_the_processes_said_the_worst_first():
    trouble = [
        process_line("worker_ready"),
        process_line("worker_ended", "error", exit=-9),
        process_line("worker_waits", "warning", seconds=2.0),
    ]
    data = written([*trouble, trouble[1], *LOG])
    assert [(one["event"], one["count"]) for one in json.loads(explain("--json", data=data).output)["process"]] == [
        ("worker_ended", 2),
        ("worker_waits", 1),
        ("worker_ready", 1),
        ("listening", 1),
    ]
    shown = explain(data=data).output
    assert "worker_ended" in shown
    assert "exit=-9" in shown
    assert shown.index("worker_ended") < shown.index("worker_waits")


def test_a_log_of_processes_alone_is_told_too():
    done = explain(data=written([process_line("reload_failed", "error")]))
    assert done.exit_code == 1
    assert "reload_failed" in done.output


def test_a_growing_file_is_followed_through_rotation_and_truncation(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    lines = growing([path])

    def until_now():
        found = []
        while (raw := next(lines)) is not None:
            found.append(raw)
        return found

    assert until_now() == [b"one"]
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert until_now() == [b"two", b"three"]
    os.replace(path, tmp_path / "log.1")
    assert until_now() == []
    path.write_bytes(b"four\n")
    assert until_now() == [b"four"]
    path.write_bytes(b"5\n")
    assert until_now() == [b"5"]
    lines.close()


def test_what_a_log_holds_cannot_steer_the_terminal():
    log = TurnLog("r\x1b[2J", turn(verdict="refused", refusal="[bold]\x1b]0;x\x07"), [line("block", fault="[red]\x1b[31m")])
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(turn_view(log, diagnose(log)))
    assert "\x1b" not in captured.get()
    assert "[bold]" in captured.get()


def test_every_event_of_a_stage_has_words():
    assert set(SENTENCES) == set(Noted)


def test_a_turn_without_an_end_is_timed_from_its_first_line():
    moments = timeline(TurnLog("r", None, [line("block", at=2.0), line("retry", at=2.5)]))
    assert [moment.at_ms for moment in moments] == [0.0, 0.0, 500.0]


def test_one_body_goes_out_behind_what_was_said_before_it():
    log = TurnLog("r", turn(stream=False, ttfb_ms=400.0), [line("block", at=0.45)])
    assert [moment.what for moment in timeline(log)] == ["request arrives", "block", "first byte to the client", "end"]

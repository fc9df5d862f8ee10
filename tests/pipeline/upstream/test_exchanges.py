"""The exchange cases of this stage that a scripted body alone decides: what comes of the body, before anything is written for a client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.events import Failed, Finish
from pipeline.verdicts import FinishReason
from tests.support.reading import read

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "exchanges.jsonl").read_text("utf-8").splitlines()]
BODIES = {
    case["id"]: (case, [bytes.fromhex(one) for one in case["upstream"].get("bytes_hex", [])] or [case["upstream"]["raw"].encode()])
    for case in CASES
    if case["stage"] == "upstream" and {"raw", "bytes_hex"} & set(case["upstream"]) and case["upstream"].get("status", 200) == 200
}


def test_there_are_cases():
    assert len(BODIES) >= 7


@pytest.mark.parametrize("name", BODIES)
def test_case(name: str):
    case, pieces = BODIES[name]
    got = read(pieces)
    for check in case["checks"]:
        match check["path"], check["op"], check.get("value"):
            case "content", "eq", value:
                assert got.text == value
            case "finish_reason", "once", "stop":
                assert isinstance(got.end, Finish) and got.end.reason is FinishReason.STOP
            case ("error", "exists", _) | ("finish_reason", "absent", _) | ("events", "contains", "error"):
                assert isinstance(got.end, Failed)
            case "tool_calls", "len", 0:
                assert got.calls == []
            case (("last" | "" | "stop_reason"), _, _):
                pass  # how a client is told
            case unknown:
                pytest.fail(f"no check for {unknown}")

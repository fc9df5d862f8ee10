"""No words of anybody in logs or metrics: unique tokens wherever content can stand, every verdict driven, all stage events on."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import IncompleteRead

import pytest

from tests.support.running import toolgraft
from tests.support.scripted_upstream import ScriptedUpstream

CANARIES = {
    "client key": "sk-CANARY-clientkey",
    "upstream key": "sk-CANARY-upstreamkey",
    "system prompt": "CANARYsystem",
    "user text": "CANARYuser",
    "tool name": "CANARYtool",
    "tool description": "CANARYdescription",
    "argument": "CANARYargument",
    "broken argument": "CANARYbroken",
    "tool result": "CANARYresult",
    "model text": "CANARYsaid",
    "upstream error": "CANARYerror",
    "model name": "CANARYmodel",
    "header": "CANARYheader",
    "path": "CANARYpath",
    "field": "CANARYfield",
}
C = CANARIES

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": C["tool name"],
            "description": f"looks up {C['tool description']}",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }
]
HISTORY = [
    {"role": "system", "content": f"You are {C['system prompt']}."},
    {"role": "user", "content": f"tell me about {C['user text']}"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": C["tool name"], "arguments": json.dumps({"place": C["argument"]})}},
            {"id": "c2", "type": "function", "function": {"name": C["tool name"], "arguments": f'{{"place": "{C["broken argument"]}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": f"found {C['tool result']}"},
    {"role": "tool", "tool_call_id": "gone", "content": f"orphan {C['tool result']}"},
    {"role": "user", "content": f"and again {C['user text']}"},
]


def block(name, arguments):
    return f"```json action\n{json.dumps({'tool': name, 'parameters': arguments})}\n```"


SAID = C["model text"]
ANSWERS = {
    "call": [f"Sure {SAID}. " + block(C["tool name"], {"place": SAID})],
    "repaired call": [block(C["tool name"], {"place": SAID}).replace("}}", ",}}")],
    "unknown tool": [block(f"no_{SAID}", {"a": SAID})],
    "malformed": [block(C["tool name"], {"place": SAID}).replace('"}}', "")],
    "refusal, then a call": [f"I don't have access to any tools, {SAID}.", block(C["tool name"], {"place": SAID})],
    "refusal to the end": [f"I'm sorry, but I don't have access to tools, {SAID}."],
    "text": [f"The {SAID} is well."],
    "empty": [""],
    "native call": [
        {"deltas": [{"tool_calls": [{"index": 0, "id": "x", "function": {"name": SAID, "arguments": json.dumps({"a": SAID})}}]}]}
    ],
    "error status": [{"status": 500, "body": {"error": {"message": f"broke on {C['upstream error']}"}}}],
    "refused request": [{"status": 400, "body": {"error": {"message": f"bad {C['upstream error']}", "param": C["upstream error"]}}}],
    "limited": [{"status": 429, "headers": {"retry-after": "1"}, "body": {"error": {"message": C["upstream error"]}}}],
    "error in the stream": [{"raw": f'data: {{"error": {{"message": "{C["upstream error"]}", "code": "{C["upstream error"]}"}}}}\n\n'}],
    "no protocol at all": [{"raw": f"<html>{C['upstream error']}</html>"}],
    "torn frames": [{"raw": f'data: {{"choices": [{{"delta": {{"content": "{SAID}\n\ndata: {{"x {SAID}\n\n'}],
    "cut": [{"text": f"half {SAID}", "ending": "cut", "finish_reason": None, "done": False}],
    "reset": [{"text": f"half {SAID}", "ending": "reset", "finish_reason": None, "done": False}],
    "redirect": [{"status": 307, "headers": {"location": f"http://{C['upstream error']}/"}, "body": {}}],
}


def post(url, body, headers):
    """The answer's status; what it says is the client's business."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=20) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as exc:
        exc.read()
        return exc.code
    except (OSError, IncompleteRead):  # an answer that breaks off, as it should
        return 0


@pytest.mark.timeout(180)
def test_no_words_of_anybody_in_logs_or_metrics(tmp_path):
    key_file = tmp_path / "keys"
    key_file.write_text(C["client key"] + "\n")
    extra = f'key_env = "MODEL_KEY"\n\n[auth]\nkeys_file = "{key_file}"\n\n[log]\nstages = "all"\n\n[[routes]]\nmodel = "*"\n'
    headers = {"x-api-key": C["client key"], "x-client-request-id": C["header"], "user-agent": C["header"]}
    scripts = [script for answers in ANSWERS.values() for script in answers]
    said = iter(())

    def choose(_):
        return next(said)

    def forever(answers):
        yield from answers
        while True:
            yield answers[-1]

    assert scripts
    with (
        ScriptedUpstream(choose).in_thread() as upstream,
        toolgraft(tmp_path, upstream.url, extra, environment={"MODEL_KEY": C["upstream key"]}) as running,
    ):
        for answers in ANSWERS.values():
            for stream in (True, False):
                for choice in ("auto", "required"):
                    said = forever(answers)
                    body = {"model": C["model name"], "messages": HISTORY, "tools": TOOLS, "tool_choice": choice, "stream": stream}
                    post(f"{running.direct}/v1/chat/completions", {**body, C["field"]: C["field"]}, headers)
        said = forever(ANSWERS["text"])
        url = running.direct
        assert post(f"{url}/v1/messages", {"model": C["model name"], "max_tokens": 5, "messages": HISTORY[1:2]}, headers) == 200
        assert post(f"{url}/v1/messages", {"model": C["model name"], "messages": C["user text"]}, headers) == 400
        assert post(f"{url}/v1/responses", {"model": C["model name"], "input": C["user text"]}, headers) == 200
        assert post(f"{url}/v1/chat/completions", b'{"model": ' + C["user text"].encode(), headers) == 400
        assert post(f"{url}/v1/chat/completions", b"{}", {"x-api-key": C["user text"]}) == 401
        assert post(f"{url}/{C['path']}", {}, headers) == 404
        assert post(f"{url}/v1/messages/count_tokens", {"model": "m", "messages": HISTORY[1:2]}, headers) == 200
        turns = 4 * len(ANSWERS) + 5
        assert len(running.turns(turns, 20)) == turns
        metrics = running.metrics()
        verdicts = {turn["verdict"] for turn in running.turns(turns)}
    log = running.log_file.read_text()
    errors = (tmp_path / "stderr.txt").read_text()
    assert {what: token for what, token in CANARIES.items() if token in log or token in metrics or token in errors} == {}
    assert "CANARY" not in log + metrics + errors
    assert {"call", "text", "refused", "malformed", "empty", "upstream_failed", "rejected"} <= verdicts
    assert len({json.loads(line).get("key") for line in log.splitlines()} - {None}) == 1

"""schemathesis against a real Toolgraft: no 5xx, no status and no body that the published OpenAPI document does not know.

    python -m tests.conformance.fuzz_openapi OPENAPI.json [--seconds 60] [--schemathesis COMMAND] [--upstream-protocol P] [--seed N]

OPENAPI.json is the caller's: OpenAI's document (openai/openai-openapi), cut down to POST /chat/completions, POST /responses and GET /models.
It is large and not ours, so it is not kept here. schemathesis is not a dependency either: `pip install schemathesis` in an environment of
its own. What schemathesis cannot judge, streams among it, is judged from the wire (`tests/conformance/wire.py`). Exit status 1 on a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.running import toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream, Seen
from tests.support.tap import Exchange
from tests.support.text_model import TextModel

CHECKS = "not_a_server_error,status_code_conformance,response_schema_conformance,response_headers_conformance"
HOOKS = "schemathesis_hooks"


def upstream_of(model: TextModel):
    """The text model, with whole answers as complete as the document wants those of a chat API: some of them pass unchanged."""

    def choose(seen: Seen) -> Script:
        script = model(seen)
        try:
            asked = seen.json
        except ValueError:
            return script
        if not seen.path.endswith("/chat/completions") or not isinstance(asked, dict) or asked.get("stream"):
            return script
        message = {"role": "assistant", "content": script.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        head = {"id": "chatcmpl-script", "object": "chat.completion", "created": 1760000000, "model": str(asked.get("model"))}
        return Script(body={**head, "choices": [choice], "usage": usage})

    return choose


def _message(exchange: Exchange) -> str:
    """Why a request was refused, without the numbers that differ."""
    try:
        return re.sub(r"\d+", "N", json.loads(exchange.body)["error"]["message"])[:150]
    except (ValueError, KeyError, TypeError):
        return "?"


def main() -> int:
    """Run it; the exit status says whether anything was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("openapi", type=Path)
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--schemathesis", default=shutil.which("schemathesis"))
    options.add_argument("--upstream-protocol", default="openai_chat", choices=("openai_chat", "anthropic_messages"))
    options.add_argument("--seed", type=int)
    options.add_argument("--more", default="", help="further options for schemathesis, in one argument")
    given = options.parse_args()
    if given.schemathesis is None:
        print("schemathesis is not on the path; name it with --schemathesis", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, ScriptedUpstream(upstream_of(TextModel())).in_thread() as upstream:
        try:
            with toolgraft(Path(folder), upstream.url, traits=f'protocol = "{given.upstream_protocol}"') as running:
                environment = {**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(Path(__file__).parent)}
                command = [given.schemathesis, "run", str(given.openapi), "--url", f"{running.url}/v1", "--max-time", str(given.seconds)]
                command += [
                    "--phases",
                    "coverage,fuzzing",
                    "--checks",
                    CHECKS,
                    "--header",
                    "Authorization: Bearer k",
                    "--continue-on-failure",
                ]
                command += given.more.split()
                command += ["--request-timeout", "20", "--warnings", "off", "--workers", "1"]
                command += ["--seed", str(given.seed)] if given.seed is not None else []
                status = subprocess.run(command, check=False, cwd=folder, env=environment, timeout=given.seconds + 300).returncode
                faults = [line for line in running.lines() if line.get("level") in ("error", "critical")]
                refused = Counter(_message(exchange) for exchange in running.tap.exchanges() if exchange.status == 400)
                answers = Counter((exchange.path, exchange.status, exchange.streamed) for exchange in running.tap.exchanges())
        except AssertionError as exc:  # what the wire judge found
            print(f"on the wire: {exc}")
            return 1
    for (path, code, streamed), count in sorted(answers.items()):
        print(f"{path} {code}{' streamed' if streamed else ''}: {count}")
    for said, count in refused.most_common(25):
        print(f"{count} times 400: {said}")
    for fault in faults[:20]:
        print(f"logged as an error: {fault}")
    return 1 if status or faults else 0


if __name__ == "__main__":
    sys.exit(main())

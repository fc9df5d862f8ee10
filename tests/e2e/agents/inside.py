"""One run of one agent, in namespaces where nothing but loopback exists: `python -m tests.e2e.agents.inside AGENT DIALECT OUT [--deadline S]`.

Started by itself it enters fresh network, mount and process namespaces first (needs root, or a kernel that lets users do so). There a small
DNS server says "no such name" and writes down what was asked. A text-only model, a real `toolgraft serve` and the agent run; the agent does
one harmless task in a scratch repository. Prints one JSON row; everything is left in OUT, a transcript among it, which holds the agent's own
prompts: never commit it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.conformance import assemble, wire
from tests.e2e.agents.clients import AGENTS, TASK, Place
from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.text_model import TextModel

IN_NAMESPACES = "TOOLGRAFT_IN_NAMESPACES"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
_STREAMS = {wire.CHAT: assemble.chat_stream, wire.MESSAGES: assemble.messages_stream, wire.RESPONSES: assemble.responses_stream}
_BODIES = {wire.CHAT: assemble.chat_body, wire.MESSAGES: assemble.messages_body, wire.RESPONSES: assemble.responses_body}


def answer_no_name(asked: list[str]) -> None:
    """Serve DNS on loopback from a thread: every name is unknown, and is written down."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 53))

    def serve() -> None:
        while True:
            query, peer = listener.recvfrom(2048)
            labels, at = [], 12
            while at < len(query) and query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
                at += query[at] + 1
            asked.append(".".join(labels))
            listener.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + query[12:], peer)

    threading.Thread(target=serve, daemon=True).start()


def isolate(out: Path) -> list[str]:
    """Bring loopback up and put the DNS server in the resolver's place; the list of names that will be asked for."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    resolver = out / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", str(resolver), "/etc/resolv.conf"], check=True)
    asked: list[str] = []
    answer_no_name(asked)
    return asked


def bare_environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's but the path."""
    fixed = {"LANG": "C.UTF-8", "TERM": "dumb", "CI": "1", "NO_COLOR": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), **fixed}


def scratch_repository(folder: Path, environment: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    (folder / "README").write_text("scratch\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for step in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *step], cwd=folder, env=environment, check=True)


def run_to_end(command: list[str], folder: Path, environment: dict[str, str], out: Path, deadline_s: float) -> int | str:
    """Run a client in a process group of its own; its exit status, or "timeout"."""
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        client = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            return client.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(client.pid, signal.SIGKILL)
            client.wait()


def run(agent: str, dialect: str, out: Path, deadline_s: float) -> dict[str, Any]:
    """One run, inside the namespaces; the row."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    asked = isolate(out)
    folder, home = out / "work", out / "home"
    home.mkdir()
    environment = bare_environment(home)
    scratch_repository(folder, environment)
    model = TextModel(folder=str(folder))
    row: dict[str, Any] = {"agent": agent, "dialect": dialect}
    with ScriptedUpstream(model).in_thread() as upstream:
        with toolgraft(out, upstream.url, f'[defaults]\ncontract = "{dialect}"\n', judged=False) as running:
            place = Place(running.tap.port, folder, home, TASK)
            launch = AGENTS[agent](place)
            begun = time.monotonic()
            row["exit"] = run_to_end(launch.command, folder, {**environment, **launch.environment}, out, deadline_s)
            row["seconds"] = round(time.monotonic() - begun, 1)
        made = folder / "hello.txt"
        row["works"] = made.exists() and made.read_text().strip() == "hi"
        row["final_seen"] = model.final in (out / "stdout").read_text(errors="replace")
        row["calls"] = model.called
        row["upstream_requests"] = len(upstream.seen)
        row["violations"] = running.violations()
        row["turns"] = [_short(line) for line in running.lines() if line.get("event") == "turn"]
        row["exchanges"] = [f"{one.method} {one.path} {one.status}{' left' if one.client_left else ''}" for one in running.tap.exchanges()]
        row["names_asked"] = sorted(set(asked))
        (out / "transcript.md").write_text(transcript(running, upstream))
    (out / "row.json").write_text(json.dumps(row, indent=1))
    return row


def _short(line: dict[str, Any]) -> dict[str, Any]:
    kept = ("api", "stream", "verdict", "emulated", "emulation_reason", "dialect", "tier", "contract_bytes", "tools_offered", "state")
    kept += ("calls", "attempts", "causes", "status", "error_kind", "ttfb_ms", "total_ms", "overhead_ms", "in_bytes", "client_gone")
    return {key: line[key] for key in kept if key in line}


def transcript(running: Running, upstream: ScriptedUpstream) -> str:
    """What the agent asked and got, then what the model read last and wrote, in words."""
    parts: list[str] = []
    for number, one in enumerate(running.tap.exchanges(), 1):
        protocol = wire.protocol_of(one.path)
        request = one.request if isinstance(one.request, dict) else {}
        parts.append(
            f"## {number}. {one.method} {one.path} {one.status}: {len(one.request_body)} bytes, {len(request.get('tools') or [])} tools"
        )
        if protocol is None or one.status != 200 or not one.complete:
            parts.append(one.body[:500].decode(errors="replace"))
            continue
        answer = (_STREAMS if one.streamed else _BODIES)[protocol](one.body)
        parts += [f"- {' | '.join(part)[:600]}" for part in answer.parts]
        parts.append(f"- finish {answer.finish}, usage {answer.usage}")
    for number, seen in enumerate(upstream.seen, 1):
        messages = seen.json.get("messages", [])
        last = json.dumps(messages[-1].get("content") if messages else "", ensure_ascii=False)
        parts.append(f"## upstream {number}: {len(seen.body)} bytes, {len(messages)} messages, the last one: {last[-900:]}")
    return "\n".join(parts) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("agent", choices=sorted(AGENTS))
    options.add_argument("dialect", choices=("json_action", "dsml"))
    options.add_argument("out", type=Path)
    options.add_argument("--deadline", type=float, default=90.0)
    given = options.parse_args()
    if not os.environ.get(IN_NAMESPACES):
        os.environ[IN_NAMESPACES] = "1"
        again = [sys.executable, "-m", "tests.e2e.agents.inside", *sys.argv[1:]]
        os.execvp(UNSHARE[0], [*UNSHARE, *again])
    row = run(given.agent, given.dialect, given.out.resolve(), given.deadline)
    print(json.dumps(row))
    return 0 if row["works"] and not row["violations"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""The behaviour cases, one by one, against the real server with a scripted HTTP upstream.

A case says in a sentence what must happen; here each sentence is a function of what the client and the upstream saw, and of the turn's log
line. Every case is played, streamed and not, unless the case itself is about one of the two. A case without a function fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.events import CallDone
from pipeline.sieve.sieve import Sieve
from pipeline.turn import Arguments, Call
from pipeline.verdicts import FinishReason
from tests.support.case_checks import assemble
from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream, Seen
from tests.support.stepped_upstream import SteppedUpstream

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[1] / "cases" / "proxy_behaviours.jsonl").read_text("utf-8").splitlines())
}
PORT = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
EMPTY = {"type": "object", "properties": {}}
HARBOUR = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
    for name, schema in (("lookup_tide", PORT), ("list_berths", EMPTY), ("save_note", NOTE))
]
DIALECT = load(["json_action"])[0]
TRIGGERS = ("```json action", "json action", '"tool"', "DSML")
MALFORMED = 'First.\n\n```json action\n{"tool": "lookup_tide", "parameters": {"port": }}\n```\n\nLast.'
PROSE = "The tide turns at noon and the harbour fills. " * 670


def blocks(*calls: tuple[str, dict[str, Any]]) -> str:
    """What a model that learned the dialect writes."""
    return DIALECT.render_calls([Call("", name, Arguments(arguments)) for name, arguments in calls])


TIDE = blocks(("lookup_tide", {"port": "Vigo"}))


@dataclass
class Played:
    """One exchange seen from both ends. Calls are (name, arguments as JSON text)."""

    status: int
    content: str
    calls: list[tuple[str, str]]
    finish: str
    usage: dict[str, Any] | None
    upstream: list[Seen]
    turn: dict[str, Any]


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream("unused").in_thread() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, upstream: ScriptedUpstream) -> Iterator[Running]:
    with toolgraft(tmp_path_factory.mktemp("behaviours"), upstream.url) as running:
        yield running


@dataclass
class Play:
    """Sends one request and gathers what happened."""

    server: Running
    upstream: ScriptedUpstream
    stream: bool

    async def __call__(self, given: dict[str, Any], *answers: Script | str) -> Played:
        self.upstream.scripts = [Script.of(one) for one in answers or ("Fine.",)]
        self.upstream.seen.clear()
        request = {
            "model": "demo-chat",
            "messages": [{"role": "user", "content": "tide?"}],
            "tools": HARBOUR,
            "stream": self.stream,
            **given,
        }
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self.server.url}/v1/chat/completions", json={key: one for key, one in request.items() if one is not None}
            ) as answer,
        ):
            body, rid, status = await answer.read(), answer.headers["x-request-id"], answer.status
        content, calls, finish, usage = _chat(body, stream=self.stream) if status == 200 else ("", [], "", None)
        return Played(status, content, calls, finish, usage, list(self.upstream.seen), await self._line(rid))

    async def _line(self, rid: str) -> dict[str, Any]:
        for _ in range(200):
            for line in self.server.lines():
                if line.get("event") == "turn" and line["rid"] == rid:
                    return line
            await asyncio.sleep(0.02)
        raise AssertionError(f"no turn line for {rid}")


def _chat(body: bytes, *, stream: bool) -> tuple[str, list[tuple[str, str]], str, dict[str, Any] | None]:
    if stream:
        found = assemble("openai", body)
        calls = [(call["name"], call["arguments"]) for call in found["tool_calls"]]
        assert len(found["finish_reason"]) == 1
        return found["content"], calls, found["finish_reason"][0], found["usage"] if isinstance(found["usage"], dict) else None
    whole = json.loads(body)
    message = whole["choices"][0]["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return message["content"] or "", calls, whole["choices"][0]["finish_reason"], whole.get("usage")


def messages_of(seen: Seen) -> list[dict[str, Any]]:
    """What reached the upstream; it is a plain chat API, so nothing of tools may stand in the fields."""
    body = seen.json
    assert not {"tools", "tool_choice", "functions", "parallel_tool_calls"} & body.keys()
    assert all(message["role"] in ("system", "user", "assistant") and "tool_calls" not in message for message in body["messages"])
    found: list[dict[str, Any]] = body["messages"]
    return found


def result_of(played: Played, text: str) -> str:
    """The one user message of the last request that holds a result's text."""
    (found,) = (
        message["content"] for message in messages_of(played.upstream[-1]) if message["role"] == "user" and text in message["content"]
    )
    return str(found)


async def broken_call(play: Play, case: dict[str, Any]) -> None:
    played = await play(case["given"])
    assert played.status == 200
    assert len(played.upstream) == 1
    said = [message["content"] for message in messages_of(played.upstream[0]) if message["role"] == "assistant"]
    assert any('{"port": "Vi' in text and "lookup_tide" in text for text in said), "the broken call stays on record"
    assert "high 4.1 m" in result_of(played, "high 4.1 m")
    options = [text for text in said if '{"port": "Vi' in text]
    assert not any(DIALECT.render_calls([Call("c1", "lookup_tide", Arguments({"port": "Vi"}))]) in text for text in options), (
        "not as a call"
    )
    assert played.turn["history_repairs"] == 1


async def empty_arguments(play: Play, case: dict[str, Any]) -> None:
    played = await play(case["given"])
    assert played.status == 200
    said = "\n".join(message["content"] for message in messages_of(played.upstream[0]) if message["role"] == "assistant")
    (call,) = (event for event in _parsed(said) if event[0] == "list_berths")
    assert json.loads(call[1]) == {}
    assert "high 4.1 m" in result_of(played, "high 4.1 m")


def _parsed(text: str) -> list[tuple[str, str]]:
    """The calls that the sieve reads in a text."""
    sieve = Sieve([DIALECT], ParserOptions(), unescape=True)
    return [(event.name, event.arguments) for event in [*sieve.feed(text), *sieve.close(FinishReason.STOP)] if isinstance(event, CallDone)]


async def orphan(play: Play, case: dict[str, Any]) -> None:
    played = await play(case["given"])
    assert played.status == 200
    assert "orphan" in result_of(played, "orphan")


async def joined_parts(play: Play, case: dict[str, Any]) -> None:
    played = await play(case["given"])
    assert "high 4.1 m" in result_of(played, "high 4.1 m")


async def own_markers(play: Play, case: dict[str, Any]) -> None:
    result = case["given"]["tool_result"]
    history = [
        {"role": "user", "content": "tide?"},
        {"role": "assistant", "content": None, "tool_calls": [_call("c1", "lookup_tide", '{"port":"Vigo"}')]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    shown = result_of(await play({"messages": history}), "done ")
    assert "```json action\n{" not in shown
    assert "done </tool_result>\n```" in shown
    assert '{"tool":"list_berths"}\n```' in shown
    # A model that repeats all of what it was shown calls nothing, and the client reads the result as it was.
    played = await play({"messages": history}, shown)
    assert played.calls == []
    assert result in played.content


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def no_tools_now(play: Play, case: dict[str, Any]) -> None:
    assert case["given"]["no_tools_this_turn"]
    played = await play({"messages": case["given"]["messages"], "tools": None}, TIDE)
    shown = messages_of(played.upstream[0])
    assert [message["role"] for message in shown if message["role"] == "system"] == []
    text = "\n".join(message["content"] for message in shown)
    assert not any(one in text for one in TRIGGERS), text
    assert all(one in text for one in ("lookup_tide", "Vigo", "high 4.1 m", "thanks, summarise"))
    assert (played.calls, played.finish) == ([], "stop"), "the sieve is off"
    assert played.content == TIDE


async def no_parameters(play: Play, case: dict[str, Any]) -> None:
    played = await play({"tools": case["given"]["tools"]}, blocks(("list_berths", {})))
    assert (played.status, played.calls, played.finish) == (200, [("list_berths", "{}")], "tool_calls")


async def ghost(play: Play, case: dict[str, Any]) -> None:
    played = await play({"tools": case["given"]["tools"]}, blocks(("x", {})))
    assert (played.status, played.calls) == (200, [("x", "{}")])
    warned = [line for line in play.server.lines() if line.get("rid") == played.turn["rid"] and line.get("level") == "warning"]
    assert [line["event"] for line in warned] == ["tool_schema_odd"]


async def choice_none(play: Play, case: dict[str, Any]) -> None:
    played = await play({"tool_choice": case["given"]["tool_choice"]}, f"So:\n\n{TIDE}")
    text = "\n".join(message["content"] for message in messages_of(played.upstream[0]))
    assert not any(name in text for name in ("lookup_tide", "list_berths", "save_note", *TRIGGERS))
    assert (played.calls, played.finish, played.content) == ([], "stop", f"So:\n\n{TIDE}")


async def choice_required(play: Play, case: dict[str, Any]) -> None:
    played = await play({"tool_choice": case["given"]["tool_choice"]}, "Noon.", TIDE)
    assert (played.calls, played.finish, len(played.upstream)) == ([("lookup_tide", '{"port":"Vigo"}')], "tool_calls", 2)
    played = await play({"tool_choice": case["given"]["tool_choice"]}, "Noon.")
    assert 1 < len(played.upstream) <= 3, "asked again, but not for ever"
    assert (played.status, played.content, played.calls, played.finish) == (200, "Noon.", [], "stop")
    assert played.turn["verdict"] == "missing_call", "counted and on record"


async def choice_named(play: Play, case: dict[str, Any]) -> None:
    wrong = blocks(("save_note", {"text": "hello"}))
    played = await play({"tool_choice": case["given"]["tool_choice"]}, wrong, TIDE)
    assert (played.calls, played.finish, len(played.upstream)) == ([("lookup_tide", '{"port":"Vigo"}')], "tool_calls", 2)
    played = await play({"tool_choice": case["given"]["tool_choice"]}, wrong)
    assert played.calls == []
    assert played.content.strip() == wrong.strip(), "nothing is lost"
    assert played.turn["verdict"] == "missing_call"


async def one_call(play: Play, case: dict[str, Any]) -> None:
    two = blocks(("lookup_tide", {"port": "Vigo"}), ("list_berths", {}))
    played = await play({"parallel_tool_calls": case["given"]["parallel_tool_calls"]}, two)
    assert (played.calls, played.finish) == ([("lookup_tide", '{"port":"Vigo"}')], "tool_calls")
    played = await play({}, two)
    assert [name for name, _ in played.calls] == ["lookup_tide", "list_berths"], "both where nothing forbids it"


async def text_at_once(play: Play, case: dict[str, Any]) -> None:
    assert case["given"]["upstream_reply"] == "30 KB prose, then a call"
    played = await play({}, Script(f"{PROSE}\n\n{TIDE}", chunk=20))
    assert (played.content.strip(), played.calls) == (PROSE.strip(), [("lookup_tide", '{"port":"Vigo"}')])


async def same_text(play: Play, case: dict[str, Any]) -> None:
    assert case["given"]["upstream_reply"] == "malformed block"
    told = [await Play(play.server, play.upstream, stream)({}, Script(MALFORMED, chunk=3)) for stream in (True, False)]
    assert told[0].content == told[1].content
    assert told[0].content == MALFORMED, "what is no call comes out as the text it was"
    assert [one.calls for one in told] == [[], []]


async def one_request(play: Play, case: dict[str, Any]) -> None:
    assert case["given"]["upstream_reply"].startswith("plain answer")
    played = await play({"tool_choice": "auto"}, "High water is at noon.")
    assert (played.content, played.finish, len(played.upstream)) == ("High water is at noon.", "stop", 1)
    assert played.turn["attempts"] == 1


async def usage(play: Play, case: dict[str, Any]) -> None:
    options = {"stream_options": case["given"]["stream_options"]} if play.stream else {}
    silent = await play(options, Script("High water is at noon.", usage={}))
    assert silent.usage is not None
    assert silent.usage["completion_tokens"] > 0
    assert silent.usage["prompt_tokens"] > 0
    assert silent.turn["usage_estimated"] is True
    exact = await play(options, Script("High water is at noon.", usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}))
    assert exact.usage is not None
    assert exact.usage["completion_tokens"] == 7
    assert not exact.turn.get("usage_estimated")


PLAYS: dict[str, Callable[[Play, dict[str, Any]], Any]] = {
    "px-pr01": broken_call,
    "px-pr02": empty_arguments,
    "px-pr03": orphan,
    "px-pr04": joined_parts,
    "px-pr05": own_markers,
    "px-pr06": no_tools_now,
    "px-pr07": no_parameters,
    "px-pr08": ghost,
    "px-pr09": choice_none,
    "px-pr10": choice_required,
    "px-pr11": choice_named,
    "px-pr12": one_call,
    "px-pr13": text_at_once,
    "px-pr14": same_text,
    "px-pr15": one_request,
    "px-pr16": usage,
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("case", CASES)
async def test_behaviour(case: str, stream: bool, server: Running, upstream: ScriptedUpstream) -> None:
    await PLAYS[case](Play(server, upstream, stream), CASES[case])


async def test_text_of_a_long_answer_never_waits_for_its_end(tmp_path: Path) -> None:
    """px-pr13 by the order of events, with no clock: the upstream writes on only when what it wrote has arrived."""
    async with SteppedUpstream() as stepped:
        with toolgraft(tmp_path, stepped.url) as running:
            request = {"model": "m", "messages": [{"role": "user", "content": "tide?"}], "tools": HARBOUR, "stream": True}
            async with aiohttp.ClientSession() as session, session.post(f"{running.url}/v1/chat/completions", json=request) as answer:
                body, written = b"", ""
                for at in range(0, len(PROSE), 1000):
                    written += PROSE[at : at + 1000]
                    stepped.write(PROSE[at : at + 1000])
                    # The last word may be the start of a marker; no more than that may stay behind.
                    while len(_content(body)) < len(written) - 1:
                        body += await asyncio.wait_for(answer.content.readany(), 10)
                stepped.write(f"\n\n{TIDE}")
                stepped.end()
                body += await answer.read()
    found = assemble("openai", body)
    assert found["content"].strip() == PROSE.strip()
    assert [call["name"] for call in found["tool_calls"]] == ["lookup_tide"]


def _content(body: bytes) -> str:
    whole = body[: body.rfind(b"\n\n") + 2]
    return str(assemble("openai", whole)["content"]) if whole else ""

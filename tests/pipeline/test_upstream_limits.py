"""What an upstream does not take, in a whole turn: told in the header and the log, refused, or asked of the next upstream (U06, AR01, AR09, CR08)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.chain import DEFAULT_STAGES, build
from pipeline.commands import Emit, Ended, Head, Learn, Lost, Opened, Received, Send
from pipeline.exchange import Exchange
from pipeline.settings import Settings, UpstreamTraits
from pipeline.testing.playbook import Notes
from pipeline.turn import Turn
from pipeline.verdicts import Api, Cause, DroppedParameter, Noted, ReplacedContent, UpstreamOutcome, Verdict

CHAIN = build(DEFAULT_STAGES, Settings(example_turns=0))
CHAT = UpstreamTraits(name="chat")
BLIND = UpstreamTraits(name="blind", images=False)
MESSAGES = UpstreamTraits(name="messages", protocol=Api.ANTHROPIC_MESSAGES)
PATHS = {"/chat/completions": Api.OPENAI_CHAT, "/messages": Api.ANTHROPIC_MESSAGES}

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
USE = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
CALL = '```json action\n{"tool": "look", "parameters": {}}\n```'


def answer(api: Api, text: str = "done") -> bytes:
    """A whole answer of an upstream that speaks this protocol."""
    if api is Api.ANTHROPIC_MESSAGES:
        body: dict[str, Any] = {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": {}}
    else:
        body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    return json.dumps(body).encode()


class Played:
    """One turn; what each upstream answers is given by its attempts: a body (200), a (status, body) or a loss."""

    def __init__(self, api: Api, request: dict[str, Any], targets: list[UpstreamTraits], *answers: Any, text: str = "done") -> None:
        body = {"model": "m", **({"max_tokens": 50} if api is Api.ANTHROPIC_MESSAGES else {}), **request}
        self.notes = Notes()
        turn = Turn(api, body=body, raw=json.dumps(body).encode(), request_id="req_1")
        exchange = Exchange(CHAIN, turn, targets, lambda *_: self.notes, {}, 0.0)
        self.record = exchange.record
        self.sent: list[Send] = []
        self.learnt: list[str] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        given = list(answers)
        happenings: list[Any] = []
        waiting = exchange.start(0.0)
        while waiting or happenings:
            for command in waiting:
                if isinstance(command, Send):
                    self.sent.append(command)
                    said = given.pop(0) if given else answer(PATHS[command.request.path], text)
                    if isinstance(said, UpstreamOutcome):
                        happenings.append(Lost(command.attempt, said))
                        continue
                    status, data = said if isinstance(said, tuple) else (200, said)
                    data = data if isinstance(data, bytes) else json.dumps(data).encode()
                    kind = {"content-type": "application/json"}
                    happenings += [Opened(command.attempt, status, kind), Received(command.attempt, data), Ended(command.attempt)]
                elif isinstance(command, Head):
                    assert not self.status
                    self.status, self.headers = command.status, dict(command.headers)
                elif isinstance(command, Emit):
                    self.body += command.data
                elif isinstance(command, Learn):
                    self.learnt.append(command.parameter)
            waiting = exchange.receive(happenings.pop(0), 0.1) if happenings else []

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(send.request.body) for send in self.sent]

    @property
    def warnings(self) -> str:
        return self.headers.get("x-toolgraft-warnings", "")


def asked(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, *content]}], **fields}


# --- left out and told --------------------------------------------------------------------------------------------------------


def test_an_omitted_image_is_told_in_the_header_and_the_log():
    turn = Played(Api.OPENAI_CHAT, asked(PICTURE, PICTURE, tools=[TOOL]), [BLIND])
    assert (turn.status, turn.warnings, turn.record.warnings) == (200, "replaced image", 1)
    assert turn.notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.IMAGE, "count": 2}]
    assert "[image omitted]" in turn.bodies[0]["messages"][-1]["content"]


def test_fields_that_a_protocol_has_no_word_for_are_told():
    turn = Played(Api.OPENAI_CHAT, asked(tools=[TOOL], seed=1, logprobs=True, vendor=1), [MESSAGES])
    assert turn.warnings == "dropped logprobs, dropped seed, dropped other"
    here = [note for note in turn.notes.of(Noted.PARAMETER_DROPPED) if "upstream" in note]
    assert [(note["parameter"], note["upstream"]) for note in here] == [
        (DroppedParameter.SEED, "messages"),
        (DroppedParameter.OTHER, "messages"),
    ]


def test_one_refusal_after_another_is_learnt_and_told_once():
    def refused(name: str) -> tuple[int, Any]:
        return 400, {"error": {"message": f"Unsupported parameter: '{name}' is not supported with this model.", "param": name}}

    request = asked(tools=[TOOL], temperature=0.1, seed=1, top_p=0.5, max_tokens=9)
    turn = Played(Api.OPENAI_CHAT, request, [CHAT], refused("temperature"), refused("seed"), refused("max_tokens"))
    assert turn.status == 200 and turn.learnt == ["temperature", "seed", "max_tokens"]
    assert turn.record.causes == [Cause.FIRST] + [Cause.DROPPED_PARAMETER] * 3
    assert (turn.bodies[-1]["top_p"], turn.bodies[-1]["max_completion_tokens"]) == (0.5, 9)
    assert not {"temperature", "seed", "max_tokens"} & set(turn.bodies[-1])
    assert turn.warnings == "dropped temperature, dropped seed"


def test_what_passes_leaves_nothing_out_and_says_so():
    stored = {"type": "image_url", "file_id": "file-1"}
    turn = Played(Api.OPENAI_CHAT, asked(stored, store=True, logprobs=True, n=2), [BLIND])
    assert (turn.record.verdict, turn.warnings, turn.record.warnings) == (Verdict.PASSED, "", 0)


# --- refused, or asked elsewhere ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [{}, {"tools": [USE]}])
def test_a_document_goes_to_the_upstream_that_takes_it_or_is_refused(tools):
    alone = Played(Api.ANTHROPIC_MESSAGES, asked(PDF, **tools), [CHAT])
    assert (alone.status, alone.json["error"]["type"], alone.sent) == (400, "invalid_request_error", [])
    assert alone.json["error"]["message"].startswith("document blocks need")
    assert (alone.record.verdict, alone.headers["x-should-retry"]) == (Verdict.REJECTED, "false")
    for targets in ([CHAT, MESSAGES], [CHAT, BLIND, MESSAGES], [MESSAGES, CHAT]):
        turn = Played(Api.ANTHROPIC_MESSAGES, asked(PDF, **tools), targets)
        assert (turn.status, [send.target for send in turn.sent]) == (200, ["messages"])
    down = Played(
        Api.ANTHROPIC_MESSAGES, asked(PDF, **tools), [MESSAGES, CHAT], (529, {"error": {"type": "overloaded_error", "message": "x"}})
    )
    assert (down.status, down.json["error"]["type"]) == (529, "overloaded_error")  # not a fault of the request


def test_several_choices_pass_or_are_refused():
    passed = Played(Api.OPENAI_CHAT, asked(n=2), [CHAT])
    assert (passed.status, passed.bodies[0]["n"]) == (200, 2)
    refused = Played(Api.OPENAI_CHAT, asked(n=2), [MESSAGES])
    assert (refused.status, refused.json["error"]["param"], refused.json["error"]["code"]) == (400, "n", "unsupported_value")


# --- a limit of no tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [{}, {"tools": [USE]}])
@pytest.mark.parametrize("stream", [True, False])
def test_no_tokens_wanted_means_none_asked_for(tools, stream):
    turn = Played(Api.ANTHROPIC_MESSAGES, asked(**tools, max_tokens=0, stream=stream), [CHAT])
    assert (turn.status, turn.sent, turn.record.verdict, turn.record.attempts) == (200, [], Verdict.TRUNCATED, 0)
    if stream:
        assert b'"stop_reason":"max_tokens"' in turn.body and b"content_block" not in turn.body
        assert turn.body.count(b"event: message_stop") == 1
    else:
        assert (turn.json["content"], turn.json["stop_reason"], turn.json["usage"]["output_tokens"]) == ([], "max_tokens", 0)
        assert turn.json["usage"]["input_tokens"] > 0


def test_a_cache_is_warmed_where_the_request_passes():
    turn = Played(Api.ANTHROPIC_MESSAGES, asked(max_tokens=0), [MESSAGES])
    assert [body["max_tokens"] for body in turn.bodies] == [0]


def test_a_malformed_request_for_nothing_is_still_malformed():
    assert Played(Api.ANTHROPIC_MESSAGES, {"messages": "x", "max_tokens": 0}, [CHAT]).status == 400


# --- failover between protocols -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(Api))
@pytest.mark.parametrize("targets", [[CHAT, MESSAGES], [MESSAGES, CHAT]])
@pytest.mark.parametrize("failure", [(503, b"busy"), UpstreamOutcome.CONNECT, (200, b"<html>")])
@pytest.mark.parametrize("tools", [True, False])
def test_the_next_upstream_may_speak_another_protocol(api, targets, failure, tools):
    said: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    request: dict[str, Any] = {"input": said} if api is Api.OPENAI_RESPONSES else {"messages": said}
    if tools:
        request["tools"] = [{Api.OPENAI_CHAT: TOOL, Api.ANTHROPIC_MESSAGES: USE}.get(api, {"type": "function", **TOOL["function"]})]
    turn = Played(api, request, targets, failure, text=CALL if tools else "done")
    if failure == (200, b"<html>") and not tools and api is targets[0].protocol:
        assert turn.body == b"<html>"  # bytes that pass are nobody's business
        return
    assert turn.status == 200
    assert [PATHS[send.request.path] for send in turn.sent] == [target.protocol for target in targets]
    assert turn.record.causes == [Cause.FIRST, Cause.FAILOVER]
    assert (b"look" if tools else b"done") in turn.body
    assert turn.record.verdict in ((Verdict.CALL,) if tools else (Verdict.TEXT, Verdict.PASSED))

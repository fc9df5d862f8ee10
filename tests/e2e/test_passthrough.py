"""A turn with nothing to emulate leaves as it came: the bytes of both directions, compared by hash (line G of what must be shown).

Bodies are written so that any parsing and writing anew would show: odd white space, key order, escapes, big integers, doubled keys, unknown
fields; answers in framings that no writer of ours makes. Chat Completions and Messages upstreams, streamed and not.
"""

from __future__ import annotations

import hashlib
import http.client
import json
from contextlib import ExitStack

import pytest

from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream

PATHS = {"openai_chat": "/v1/chat/completions", "anthropic_messages": "/v1/messages"}
_MESSAGES = '[ {"content" :"Gr\\u00fc\\u00dfe \\ud83c\\udf31 \u2028 \\/","role":"user"}]'
_ODD = '"zeta":1,  "big": 12345678901234567890123, "float":1.0, "tiny":1e-7,\r\n\t"nested":{"b":[ ],"a":null}, "unknown_field": "kept"'
ANSWERS = {
    "sse-crlf": 'data: {"x": 1}\r\n\r\n: a comment\r\n\r\ndata:{"no":"space"}\r\n\r\nid: 7\r\ndata: [DONE]\r\n\r\n',
    "sse-bom": '\ufeffdata: {"u":"\u2028 \\u00e9 é 🌱"}\n\ndata: [DONE]\n\n',
    "sse-cut-event": 'data: {"choices":[]}\n\ndata: {"cho',
    "json": ' { "id" : "x",\n "choices":[ ], "usage":{"prompt_tokens": 3 , "completion_tokens":4}, "big":12345678901234567890123 }\n',
    "json-doubled-key": '{"a":1,"a":2}',
    "empty-object": "{}",
}  # fmt: skip


def body_of(api: str, *, stream: bool) -> bytes:
    limit = '"max_tokens" : 64,' if api == "anthropic_messages" else ""
    return f'{{ {limit}"stream":{json.dumps(stream)} ,"messages":{_MESSAGES},{_ODD}, "model":"m" , "model":"m" }}  \n'.encode()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def send(running: Running, path: str, body: bytes) -> tuple[int, bytes]:
    host, port = running.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("POST", path, body, {"content-type": "application/json", "authorization": "Bearer k"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture(params=list(PATHS))
def passing(request, tmp_path):
    """A server before an upstream of one protocol: the protocol, the server, the upstream, and its scripts."""
    scripts: list[Script] = []
    with ExitStack() as stack:
        upstream = stack.enter_context(ScriptedUpstream(lambda _: scripts.pop(0)).in_thread())
        running = stack.enter_context(toolgraft(tmp_path, upstream.url, traits=f'protocol = "{request.param}"'))
        yield request.param, running, upstream, scripts


def test_bytes_are_the_same_in_both_directions(passing):
    api, running, upstream, scripts = passing
    sent: list[bytes] = []
    for answer in ANSWERS.values():
        for stream in (True, False):
            for size in (0, 1, 7):
                scripts.append(Script(raw=answer, slice=size))
                sent.append(body_of(api, stream=stream))
                status, got = send(running, PATHS[api], sent[-1])
                assert (status, sha(got)) == (200, sha(answer.encode())), (stream, size, got)
    assert [sha(seen.body) for seen in upstream.seen] == [sha(body) for body in sent]
    turns = running.turns(len(sent))
    assert [turn["verdict"] for turn in turns] == ["passed"] * len(sent)
    assert not any(turn["emulated"] for turn in turns)


def test_what_the_scripted_model_says_is_the_same_with_and_without_us(passing):
    api, running, upstream, scripts = passing
    text = '```json action\n{"tool": "rm", "parameters": {}}\n``` and <|DSML|tool_calls> are only text here. ' * 20
    for stream in (True, False):
        body = body_of(api, stream=stream)
        straight = Running(f"http://127.0.0.1:{upstream.port}", "", "", running.process, running.log_file, running.tap)
        scripts += [Script(text, chunk=5), Script(text, chunk=5)]
        assert sha(send(straight, PATHS[api], body)[1]) == sha(send(running, PATHS[api], body)[1])


def test_compression_of_the_upstream_is_undone(passing):
    api, running, _, scripts = passing
    for encoding in ("gzip", "deflate"):
        scripts.append(Script(raw=ANSWERS["sse-bom"], content_encoding=encoding))
        assert sha(send(running, PATHS[api], body_of(api, stream=True))[1]) == sha(ANSWERS["sse-bom"].encode())


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_an_answer_that_breaks_off_is_not_made_whole(passing, ending):
    api, running, _, scripts = passing
    answer = ANSWERS["sse-cut-event"]
    scripts.append(Script(raw=answer, ending=ending))
    with pytest.raises(http.client.IncompleteRead) as caught:
        send(running, PATHS[api], body_of(api, stream=True))
    assert sha(caught.value.partial) == sha(answer.encode())


def test_what_does_not_pass_is_made_anew(passing):
    """The other protocol, tools, and tool history each take a turn off this path."""
    api, running, upstream, scripts = passing
    other = next(path for name, path in PATHS.items() if name != api)
    scripts.append(Script("Hello."))
    status, _ = send(running, other, body_of("anthropic_messages", stream=False))
    assert status == 200
    assert upstream.seen[-1].path == PATHS[api]
    assert running.turns(1)[-1]["verdict"] == "text"


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_an_upstream_that_dies_before_its_first_byte_is_asked_once_more(passing, ending):
    api, running, upstream, scripts = passing
    scripts += [Script(raw="", ending=ending), Script(raw=ANSWERS["sse-crlf"])]
    status, got = send(running, PATHS[api], body_of(api, stream=True))
    assert (status, sha(got)) == (200, sha(ANSWERS["sse-crlf"].encode()))
    assert len(upstream.seen) == 2


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_an_upstream_that_stays_dead_is_an_error_with_a_status(passing, ending):
    api, running, _, scripts = passing
    scripts += [Script(raw="", ending=ending)] * 4
    status, got = send(running, PATHS[api], body_of(api, stream=True))
    assert status == 502
    assert json.loads(got)["error"]["message"]

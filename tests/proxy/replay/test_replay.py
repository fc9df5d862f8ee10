"""What was captured a moment ago comes to the same again; what comes to something else is named."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from click.testing import CliRunner

from pipeline.verdicts import Api
from proxy.__main__ import main
from proxy.replay.captured import CaptureError, read_capture
from proxy.replay.compare import compare
from proxy.replay.plans import configured, defaults
from proxy.replay.run import replay
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.served import served

FUNCTION = {
    "name": "lookup",
    "description": "Looks a port up.",
    "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
}
TOOLS = {
    "chat/completions": [{"type": "function", "function": FUNCTION}],
    "messages": [{"name": "lookup", "description": "x", "input_schema": FUNCTION["parameters"]}],
    "responses": [{"type": "function", **FUNCTION}],
}
CALL = 'I look.\n```json action\n{"tool": "lookup", "parameters": {"port": "Vigo"}}\n```'
REFUSAL = "I'm sorry, but I don't have access to any tools, so I cannot look that up."
SCRIPTS = {
    "text": [Script(text="Twice a day, as everywhere on this coast. " * 20, chunk=15)],
    "call": [Script(text=CALL, chunk=9)],
    "reasoning": [Script(reasoning="Hm. " * 20, text="Twice a day.", chunk=7)],
    "recovered": [Script(text=REFUSAL, chunk=11), Script(text=CALL, chunk=11)],
    "never recovered": [Script(text=REFUSAL)],
    "malformed": [Script(text='```json action\n{"tool": "lookup", "parameters": {"port": \n```\nThere.'), Script(text=CALL)],
    "length": [Script(text='```json action\n{"tool": "lookup", "par', finish_reason="length")],
    "refused by the upstream": [Script(status=429, body={"error": {"message": "slow down", "type": "rate_limit"}})],
    "cut": [Script(text="Twice a day, as everywhere. " * 30, chunk=20, ending="cut", finish_reason=None, done=False)],
    "silent": [Script(text="Twice a day, as everywhere. " * 30, chunk=20, finish_reason=None, done=False, delay_before_end_s=100)],
    "never answered": [Script(delay_before_first_s=100)],
    "nothing": [Script(text="")],
    "no JSON": [Script(raw="<html>gateway</html>")],
}
TOML = '[defaults]\nfirst_byte_s = 0.4\nidle_s = 0.4\nkeep_alive_first_s = 0.1\nkeep_alive_s = 0.1\n[upstreams.u]\nurl = "{url}"\n'


def request_of(protocol, *, stream, tools):
    body = {"model": "m", "stream": stream, "input" if protocol == "responses" else "messages": [{"role": "user", "content": "when?"}]}
    if protocol == "messages":
        body["max_tokens"] = 100
    if tools:
        body["tools"] = TOOLS[protocol]
    return body


async def captured_turns(folder, scripts, requests, toml=TOML):
    """Run these requests, each against the scripts from their start, and return the captures in order with the configuration's file."""
    file = folder / "toolgraft.toml"
    for body, protocol in requests:
        async with ScriptedUpstream(list(scripts)) as upstream:
            text = toml.replace("{url}", upstream.url)
            file.write_text(text)
            before = set((folder / "captures").glob("*.json"))
            async with served(f'{text}\n[capture]\ndir = "{folder}/captures"\n') as service, aiohttp.ClientSession() as session:
                try:
                    async with session.post(f"{service.url}/v1/{protocol}", json=body) as answer:
                        await answer.read()
                except aiohttp.ClientPayloadError:
                    pass
                await service.settled()
                async with asyncio.timeout(5):
                    while set((folder / "captures").glob("*.json")) == before:
                        await asyncio.sleep(0.01)
    return sorted((folder / "captures").glob("*.json")), file


def replayed(path, config=None):
    captured = read_capture(path)
    today, plans = configured(config, {}) if config else defaults(captured)
    return compare(captured, replay(captured, plans, today.limits))


@pytest.mark.parametrize("name", list(SCRIPTS))
async def test_a_fresh_capture_comes_to_the_same(tmp_path, name):
    requests = [
        (request_of(protocol, stream=stream, tools=tools), protocol)
        for protocol in TOOLS
        for stream in (True, False)
        for tools in (True, False)
    ]
    files, config = await captured_turns(tmp_path, SCRIPTS[name], requests)
    assert len(files) == 12
    for path in files:
        found = replayed(path, config)
        assert found.same, (path.read_text()[:300], found)
        assert (found.prompts, found.unanswered, found.truncated) == ([], [], False)
        assert found.then.unread == found.now.unread == 0, found
    answers = [replayed(path, config).then for path in files]
    if name == "call":
        assert (
            sum(
                [one.name for one in answer.calls] == ["lookup"] and json.loads(answer.calls[0].arguments) == {"port": "Vigo"}
                for answer in answers
            )
            == 6
        )
    if name == "text":
        assert {answer.text.strip() for answer in answers} == {SCRIPTS["text"][0].text.strip()}
    if name in ("cut", "silent", "never answered", "refused by the upstream"):
        assert all(answer.error for answer in answers if answer.text == "")


async def test_a_failover_comes_to_the_same(tmp_path):
    toml = '[upstreams.gone]\nurl = "http://127.0.0.1:9"\n[upstreams.there]\nurl = "{url}"\n'
    files, config = await captured_turns(
        tmp_path, [Script(text=CALL)], [(request_of("messages", stream=True, tools=True), "messages")], toml
    )
    found = replayed(files[0], config)
    assert found.same, found
    captured = read_capture(files[0])
    assert [(one.cause, one.upstream, one.status) for one in captured.attempts] == [("first", "gone", 0), ("failover", "there", 200)]
    assert captured.attempts[0].ended == "connect"


@pytest.fixture
async def capture_of(tmp_path):
    async def make(script, protocol="chat/completions", *, stream=True, tools=True):
        files, _ = await captured_turns(tmp_path, script, [(request_of(protocol, stream=stream, tools=tools), protocol)])
        return files[-1]

    return make


async def test_what_comes_to_something_else_is_named(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["call"])
    config = tmp_path / "other.toml"
    config.write_text('[contract]\ncontract = "dsml"\n[sieve]\ndialects = ["dsml"]\n[upstreams.u]\nurl = "http://x"\n')
    found = replayed(path, config)
    facts = {change.what: (change.then, change.now) for change in found.facts}
    assert facts["verdict"] == ("call", "text")
    assert facts["dialect"] == ("json_action", "dsml")
    assert {change.what for change in found.answer} == {"text", "calls", "finish"}
    assert found.prompts == [1]
    assert not found.same


async def test_a_retry_that_was_not_made_then_finds_nobody(tmp_path, capture_of):
    toml = TOML.replace("[defaults]", "[retry]\nmax_retries = 0\n[defaults]")
    files, _ = await captured_turns(
        tmp_path, SCRIPTS["recovered"], [(request_of("chat/completions", stream=True, tools=True), "chat/completions")], toml
    )
    found = replayed(files[0])
    assert found.unanswered == [2]
    assert {change.what: (change.then, change.now) for change in found.facts}["attempts"] == (1, 2)
    assert found.now.text.strip() == found.then.text.strip() == REFUSAL  # R7: the first answer is delivered after all


async def test_a_retry_that_is_not_made_any_more_is_seen(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["recovered"])
    config = tmp_path / "other.toml"
    config.write_text('[retry]\nmax_retries = 0\n[upstreams.u]\nurl = "http://x"\n')
    found = replayed(path, config)
    facts = {change.what: (change.then, change.now) for change in found.facts}
    assert facts["attempts"] == (2, 1)
    assert facts["verdict"] == ("call", "refused")
    assert facts["retry_skipped"] == (None, "off")


async def test_a_request_that_would_be_refused_today_is_seen(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["text"])
    config = tmp_path / "other.toml"
    config.write_text('[limits]\nmax_tools = 0\n[upstreams.u]\nurl = "http://x"\n')
    found = replayed(path, config)
    assert {change.what: change.now for change in found.facts}["verdict"] == "rejected"
    assert "tools" in found.now.error


async def test_secrets_need_not_be_there(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["call"])
    config = tmp_path / "keyed.toml"
    config.write_text(
        "workers = 3\n[listen]\nhost = '0.0.0.0'\n[auth]\nkeys_env = 'NOT_THERE'\n[upstreams.u]\nurl = 'http://x'\nkey_file = '/nowhere'\n"
    )
    assert replayed(path, config).same
    _, plans = configured(config, {"TOOLGRAFT_UPSTREAMS__U__KEY_ENV": "NOT_THERE", "TOOLGRAFT_WORKERS": "7"})
    assert plans.plans[0].targets[0].own_key


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: b"{", "is no JSON"),
        (lambda _: b"[]", "is no capture"),
        (lambda kept: json.dumps({**kept, "format": 99}).encode(), "later version"),
        (lambda kept: json.dumps({**kept, "request": {}}).encode(), "holds no request"),
        (lambda kept: json.dumps({**kept, "attempts": 3}).encode(), "no whole capture"),
    ],
)
async def test_what_is_no_capture_is_said(tmp_path, capture_of, change, words):
    path = await capture_of(SCRIPTS["text"])
    broken = tmp_path / "broken.json"
    broken.write_bytes(change(json.loads(path.read_text())))
    with pytest.raises(CaptureError, match=words):
        read_capture(broken)


async def test_a_capture_without_times_is_read_too(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["recovered"])
    kept = json.loads(path.read_text())
    kept["format"] = 1
    for attempt in kept["attempts"]:
        for name in ("times_ms", "opened_ms", "ended_ms", "ended"):
            del attempt[name]
    path.write_text(json.dumps(kept))
    assert replayed(path).same


async def cut_short(tmp_path, end, toml=""):
    """A capture of a turn whose upstream never ends; `end` is given the service and the client's answer once it has begun."""
    async with ScriptedUpstream(Script(text="word " * 50, chunk=10, ending="open", finish_reason=None, done=False)) as upstream:
        async with served(f'{TOML.replace("{url}", upstream.url)}\n{toml}[capture]\ndir = "{tmp_path}/captures"\n') as service:
            async with aiohttp.ClientSession() as session:
                body = request_of("chat/completions", stream=True, tools=True)
                answer = await session.post(f"{service.url}/v1/chat/completions", json=body)
                await answer.content.readuntil(b"word word")
                await end(service, answer)
            await service.settled()
    return next((tmp_path / "captures").glob("*.json"))


async def test_a_turn_whose_client_left_is_not_compared(tmp_path):
    async def leave(_, answer):
        answer.close()

    path = await cut_short(tmp_path, leave)
    found = replayed(path)
    assert (found.same, found.not_compared, found.facts, found.answer) == (None, "client_gone", [], [])
    done = run(path)
    assert (done.exit_code, "not compared: its client left" in " ".join(done.output.split())) == (0, True)


async def test_a_turn_that_the_end_of_the_process_cut_is_not_compared(tmp_path):
    async def end(service, answer):
        await service.server.drain(at_once=True)
        answer.close()

    path = await cut_short(tmp_path, end)
    assert replayed(path).not_compared == "shutting_down"
    assert run(path).exit_code == 0


async def test_a_capture_that_was_cut_is_not_compared(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["text"])
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncated": True, "attempts": []}))
    found = replayed(path)
    assert (found.same, found.not_compared) == (None, "truncated")
    assert run(path, "--json").exit_code == 0


# --- the command -----------------------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


async def test_the_command_tells_by_its_status_what_it_found(tmp_path, capture_of):
    path = await capture_of(SCRIPTS["call"])
    other = tmp_path / "other.toml"
    other.write_text('[sieve]\ndialects = ["dsml"]\n[contract]\ncontract = "dsml"\n[upstreams.u]\nurl = "http://x"\n')
    done = run(path)
    assert (done.exit_code, "the same as then" in done.output) == (0, True)
    done = run(path.parent, "--config", other)
    assert done.exit_code == 1
    assert "changed" in done.output
    for words in ("verdict", "json_action", "dsml", "lookup", "The prompt of attempt 1 is another one today"):
        assert words in done.output
    (tmp_path / "broken.json").write_text("{")
    done = run(path, tmp_path / "broken.json")
    assert done.exit_code == 2
    assert "is no JSON" in done.stderr
    assert "the same as then" in done.stdout


async def test_the_command_speaks_json(tmp_path, capture_of):
    await capture_of(SCRIPTS["call"])
    path = await capture_of(SCRIPTS["recovered"], "messages")
    done = run(path.parent, "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["same"] for one in found] == [True, True]
    assert found[0]["now"]["calls"] == [{"name": "lookup", "arguments": '{"port":"Vigo"}'}]
    assert found[0]["rid"] == read_capture(min(path.parent.glob("*.json"))).rid


def test_a_faulty_configuration_is_said_and_nothing_is_replayed(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    (tmp_path / "bad.toml").write_text("[upstreams.u]\nurl = 'http://x'\n[sieve]\ntolerence = 1\n")
    done = run(tmp_path / "c.json", "--config", tmp_path / "bad.toml")
    assert done.exit_code == 2
    assert "sieve.tolerence" in done.stderr
    assert run().exit_code == 2


async def test_control_characters_of_a_capture_do_not_reach_the_terminal(tmp_path, capture_of):
    path = await capture_of([Script(text="red \x1b[31m\x07 [bold]text[/bold]")])
    kept = json.loads(path.read_text())
    kept["client"] = kept["client"].replace("red", "blue")
    path.write_text(json.dumps(kept))
    done = run(path)
    assert done.exit_code == 1
    assert "\x1b[31m" not in done.output
    assert "\x07" not in done.output
    assert "[bold]text[/bold]" in done.output


def test_a_protocol_has_a_reader_for_streams_and_for_bodies():
    from proxy.replay import answer

    assert set(answer._STREAMED) == set(answer._WHOLE) == set(Api)

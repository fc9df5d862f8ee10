"""The main job from outside: official SDKs, a real `toolgraft serve`, a text-only upstream over real HTTP.

The upstream is a script that knows plain text alone; what tools it may use it must have been told in words. Every stream is read whole
by the SDK's own accumulator, and no content delta may hold a piece of a block, at several chunkings of the upstream.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest

from pipeline.dialects.registry import load
from pipeline.turn import Arguments, Call
from tests.support.running import Running, toolgraft
from tests.support.scripted_upstream import Script, ScriptedUpstream, Seen, scripts_of

SCHEMAS = {
    "list_files": {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]},
    "read_file": {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}, "required": ["path"]},
}
OPENAI_TOOLS: list[Any] = [{"type": "function", "function": {"name": n, "description": n, "parameters": s}} for n, s in SCHEMAS.items()]
ANTHROPIC_TOOLS: list[Any] = [{"name": n, "description": n, "input_schema": s} for n, s in SCHEMAS.items()]
RESULTS = {"list_files": "a.txt\nb.txt", "read_file": "the content of a.txt"}
FINAL = "The folder holds a.txt and b.txt; a.txt says: the content of a.txt."
PIECES_OF_BLOCKS = ("```", "json action", "DSML", "tool_calls", "invoke", "CDATA", '"tool"', "parameters")


def block(dialect: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """What a model that learned the dialect writes."""
    return load([dialect])[0].render_calls([Call("", name, Arguments(arguments)) for name, arguments in calls])


def two_step_model(dialect: str):
    """A text-only model for the loop: list, then read, then answer, by the results that the conversation holds."""

    def choose(seen: Seen) -> Script:
        text = seen.text
        assert "tools" not in seen.json, "no tool field may reach a plain chat API"
        assert all("tool_calls" not in message and message["role"] != "tool" for message in seen.json["messages"])
        if "the content of a.txt" in text:
            return Script(FINAL)
        if "b.txt" in text:
            return Script("Now the file.\n" + block(dialect, ("read_file", {"path": "a.txt", "lines": 3})))
        return Script("I look first.\n" + block(dialect, ("list_files", {"folder": "."})))

    return choose


def assert_clean(deltas: list[str]) -> None:
    for delta in deltas:
        assert not any(piece in delta for piece in PIECES_OF_BLOCKS), delta


def chat_turn(client: openai.OpenAI, *, stream: bool, **request: Any) -> tuple[Any, str, list[str]]:
    """One turn: the assembled message, the finish reason, the content deltas."""
    if not stream:
        choice = client.chat.completions.create(**request).choices[0]
        return choice.message, choice.finish_reason, [choice.message.content or ""]
    deltas: list[str] = []
    with client.chat.completions.stream(**request) as events:
        chunks = [event.chunk for event in events if event.type == "chunk" and event.chunk.choices]
        deltas += [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
        choice = events.get_final_completion().choices[0]
    return choice.message, choice.finish_reason, deltas


def chat_loop(client: openai.OpenAI, *, stream: bool, tools_each_turn: bool = True) -> tuple[str, list[str], list[str]]:
    """Run the loop to its end: final text, names called, all content deltas."""
    messages: list[Any] = [{"role": "user", "content": "What is in this folder?"}]
    called: list[str] = []
    seen: list[str] = []
    for turn in range(6):
        request: dict[str, Any] = {"model": "m", "messages": messages}
        if turn == 0 or tools_each_turn:
            request["tools"] = OPENAI_TOOLS
        message, finish, deltas = chat_turn(client, stream=stream, **request)
        seen += deltas
        if not message.tool_calls:
            assert finish == "stop"
            return message.content or "", called, seen
        assert finish == "tool_calls"
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            called.append(call.function.name)
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})
    raise AssertionError("the loop did not end")


def messages_turn(client: anthropic.Anthropic, *, stream: bool, **request: Any) -> tuple[Any, list[str]]:
    if not stream:
        message = client.messages.create(**request)
        return message, [block.text for block in message.content if block.type == "text"]
    with client.messages.stream(**request) as events:
        deltas = [event.delta.text for event in events if event.type == "content_block_delta" and event.delta.type == "text_delta"]
        return events.get_final_message(), deltas


def messages_loop(client: anthropic.Anthropic, *, stream: bool, tools_each_turn: bool = True) -> tuple[str, list[str], list[str]]:
    messages: list[Any] = [{"role": "user", "content": "What is in this folder?"}]
    called: list[str] = []
    seen: list[str] = []
    for turn in range(6):
        request: dict[str, Any] = {"model": "m", "max_tokens": 500, "messages": messages}
        if turn == 0 or tools_each_turn:
            request["tools"] = ANTHROPIC_TOOLS
        message, deltas = messages_turn(client, stream=stream, **request)
        seen += deltas
        uses = [one for one in message.content if one.type == "tool_use"]
        if not uses:
            assert message.stop_reason == "end_turn"
            return "".join(one.text for one in message.content if one.type == "text"), called, seen
        assert message.stop_reason == "tool_use"
        messages.append({"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in message.content]})
        called += [use.name for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": RESULTS[use.name]} for use in uses]
        messages.append({"role": "user", "content": results})
    raise AssertionError("the loop did not end")


@pytest.fixture
def served(tmp_path):
    """Start an upstream and the proxy: (script, chunk, toml) -> running proxy, upstream."""
    with ExitStack() as stack:

        def start(script: Any, chunk: int = 0, toml: str = "") -> tuple[Any, ScriptedUpstream]:
            upstream = stack.enter_context(ScriptedUpstream(script, chunk=chunk).in_thread())
            return stack.enter_context(toolgraft(tmp_path, upstream.url, toml)), upstream

        yield start


class Since:
    """A running proxy whose turns are counted from now on."""

    def __init__(self, running: Running) -> None:
        self.url = running.url
        self._running = running
        self._before = len(running.turns(int(running.total("toolgraft_turns_started_total"))))  # a turn's line may come after its answer

    def turns(self, count: int) -> list[dict[str, Any]]:
        return self._running.turns(self._before + count)[self._before :]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The same, with one upstream and one proxy for each configuration, kept for the whole file."""
    with ExitStack() as stack:
        kept: dict[str, tuple[Running, ScriptedUpstream]] = {}

        def start(script: Any, chunk: int, toml: str) -> tuple[Since, ScriptedUpstream]:
            if toml not in kept:
                upstream = stack.enter_context(ScriptedUpstream("unused").in_thread())
                kept[toml] = stack.enter_context(toolgraft(tmp_path_factory.mktemp("shared"), upstream.url, toml)), upstream
            running, upstream = kept[toml]
            upstream.scripts, upstream.chunk = scripts_of(script), chunk
            upstream.seen.clear()
            return Since(running), upstream

        yield start


def openai_client(running: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{running.url}/v1", api_key="k", max_retries=0)


def anthropic_client(running: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=running.url, api_key="k", max_retries=0)


@pytest.mark.parametrize("chunk", [1, 3, 7, 0])
@pytest.mark.parametrize("dialect", ["json_action", "dsml"])
def test_two_tool_loops(served, dialect, chunk):
    running, _ = served(two_step_model(dialect), chunk, f'[defaults]\ncontract = "{dialect}"\n')
    for stream in (True, False):
        for each_turn in (True, False):
            with openai_client(running) as client:
                text, called, deltas = chat_loop(client, stream=stream, tools_each_turn=each_turn)
            assert (text, called) == (FINAL, ["list_files", "read_file"])
            assert_clean(deltas)
            with anthropic_client(running) as client:
                text, called, deltas = messages_loop(client, stream=stream, tools_each_turn=each_turn)
            assert (text, called) == (FINAL, ["list_files", "read_file"])
            assert_clean(deltas)
    turns = running.turns(24)
    assert [turn["verdict"] for turn in turns] == ["call", "call", "text"] * 8
    assert running.total("toolgraft_turns_started_total") == running.total("toolgraft_turns_total") == 24


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", ["json_action", "dsml"])
class TestSingleTurns:
    def settings(self, dialect: str) -> str:
        return f'[defaults]\ncontract = "{dialect}"\n'

    def ask(self, running: Any, *, stream: bool, **request: Any) -> tuple[Any, str, list[str]]:
        with openai_client(running) as client:
            request = {"model": "m", "messages": [{"role": "user", "content": "Look into the folder"}], "tools": OPENAI_TOOLS, **request}
            return chat_turn(client, stream=stream, **request)

    def test_two_parallel_calls(self, shared, dialect, stream):
        text = block(dialect, ("list_files", {"folder": "a"}), ("read_file", {"path": "b"}))
        running, _ = shared(text, 3, self.settings(dialect))
        message, finish, deltas = self.ask(running, stream=stream)
        assert [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls] == [
            ("list_files", {"folder": "a"}),
            ("read_file", {"path": "b"}),
        ]
        assert finish == "tool_calls"
        assert_clean(deltas)

    def test_choice_none_shows_the_block_as_text(self, shared, dialect, stream):
        text = block(dialect, ("list_files", {"folder": "a"}))
        running, upstream = shared(text, 3, self.settings(dialect))
        message, finish, _ = self.ask(running, stream=stream, tool_choice="none")
        assert not message.tool_calls
        assert finish == "stop"
        assert message.content.strip() == text.strip()
        assert "list_files" not in upstream.seen[0].text

    def test_choice_required_asks_again(self, shared, dialect, stream):
        running, upstream = shared(["It is a nice day.", block(dialect, ("list_files", {"folder": "a"}))], 3, self.settings(dialect))
        message, finish, deltas = self.ask(running, stream=stream, tool_choice="required")
        assert [c.function.name for c in message.tool_calls] == ["list_files"]
        assert finish == "tool_calls"
        assert "nice day" not in "".join(deltas)
        assert len(upstream.seen) == 2

    def test_choice_named_does_not_take_another_tool(self, shared, dialect, stream):
        scripts = [block(dialect, ("list_files", {"folder": "a"})), block(dialect, ("read_file", {"path": "b"}))]
        running, _ = shared(scripts, 3, self.settings(dialect))
        message, _, _ = self.ask(running, stream=stream, tool_choice={"type": "function", "function": {"name": "read_file"}})
        assert [c.function.name for c in message.tool_calls] == ["read_file"]

    def test_a_refusal_is_replaced(self, shared, dialect, stream):
        refusal = "I'm sorry, but I don't have access to any tools, so I can't look into folders."
        running, upstream = shared([refusal, block(dialect, ("list_files", {"folder": "a"}))], 3, self.settings(dialect))
        message, _, deltas = self.ask(running, stream=stream)
        assert [c.function.name for c in message.tool_calls] == ["list_files"]
        assert "sorry" not in "".join(deltas)
        assert len(upstream.seen) == 2
        (turn,) = running.turns(1)
        assert turn["attempts"] == 2
        assert turn["verdict"] == "call"

    def test_broken_arguments_in_the_history_do_not_kill_the_session(self, shared, dialect, stream):
        running, upstream = shared("All fine.", 3, self.settings(dialect))
        broken = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a'}}
        history = [
            {"role": "user", "content": "read it"},
            {"role": "assistant", "content": None, "tool_calls": [broken]},
            {"role": "tool", "tool_call_id": "c1", "content": "error: bad arguments"},
            {"role": "user", "content": "and now?"},
        ]
        message, finish, _ = self.ask(running, stream=stream, messages=history)
        assert (message.content, finish) == ("All fine.", "stop")
        shown = upstream.seen[0].text
        assert "read_file" in shown
        assert '{"path": "a' in shown
        assert "error: bad arguments" in shown

    def test_plain_text_ends_the_turn_with_one_request(self, shared, dialect, stream):
        running, upstream = shared("Nothing to look up here: 4.", 3, self.settings(dialect))
        message, finish, _ = self.ask(running, stream=stream)
        assert (message.content, finish) == ("Nothing to look up here: 4.", "stop")
        assert len(upstream.seen) == 1


def test_messages_api_choices(served):
    running, upstream = served(["No call here.", block("json_action", ("read_file", {"path": "b"}))], 3)
    with anthropic_client(running) as client:
        message = client.messages.create(
            model="m",
            max_tokens=100,
            tools=ANTHROPIC_TOOLS,
            tool_choice={"type": "tool", "name": "read_file"},
            messages=[{"role": "user", "content": "read b"}],
        )
    assert [(use.name, use.input) for use in message.content if use.type == "tool_use"] == [("read_file", {"path": "b"})]
    assert len(upstream.seen) == 2


def test_a_tool_that_the_choice_forbids_is_never_called(shared):
    running, upstream = shared(block("json_action", ("read_file", {"path": "b"})), 3, "")
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "list_files"}}]},
    }
    with openai_client(running) as client:
        request = {"model": "m", "messages": [{"role": "user", "content": "read b"}], "tools": OPENAI_TOOLS, "tool_choice": allowed}
        message, finish, _ = chat_turn(client, stream=True, **request)
    assert not message.tool_calls
    assert finish == "stop"
    assert len(upstream.seen) == 3


def test_what_stands_behind_a_stop_sequence_never_was(shared):
    running, _ = shared("hello STOP " + block("json_action", ("read_file", {"path": "b"})), 0, "")
    with openai_client(running) as client:
        request = {"model": "m", "messages": [{"role": "user", "content": "read b"}], "tools": OPENAI_TOOLS, "stop": ["STOP"]}
        for stream in (True, False):
            message, finish, _ = chat_turn(client, stream=stream, **request)
            assert (message.content, message.tool_calls or None, finish) == ("hello ", None, "stop")
    assert [turn["verdict"] for turn in running.turns(2)] == ["text", "text"]

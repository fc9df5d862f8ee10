"""Laws of request reading, over arbitrary JSON: a turn or a named failure, nothing lost, nothing told (N1 to N5)."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import json_values
from pipeline.history_state import state_of
from pipeline.protocols.count_tokens import count
from pipeline.protocols.json_body import parse_body, too_deep
from pipeline.settings import Settings
from pipeline.stage import StageError
from pipeline.stages.normalize import Normalize
from pipeline.text.tokens import estimate
from pipeline.tools_from_history import rebuild
from pipeline.turn import Call, Media, Result, Text, Turn
from pipeline.verdicts import Api, ErrorKind, HistoryState
from tests.support.requests_read import Notes, read, shown

MARK = "s3cr3t"

TOOL_LIST = {
    Api.OPENAI_CHAT: [
        {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}, "strict": True}},
        {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}},
        {"type": "web_search"},
    ],
    Api.ANTHROPIC_MESSAGES: [
        {"name": "look", "description": "d", "input_schema": {"type": "object"}, "defer_loading": True, "strict": True},
        {"type": "text_editor_20250728", "name": "edit", "max_characters": 9},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    Api.OPENAI_RESPONSES: [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": None},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "regex", "definition": "x"}},
        {"type": "namespace", "name": "ns", "description": "d", "tools": [{"type": "function", "name": "run"}]},
        {"type": "mcp", "server_label": "x"},
    ],
}
# One request each that uses as many field forms as fit into a legal one.
RICH = {
    Api.OPENAI_CHAT: {
        "model": "m",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "s"}], "name": "n"},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}, {"type": "file", "file": {"file_id": "f"}}],
            },
            {
                "role": "assistant",
                "content": "a",
                "refusal": None,
                "audio": {"id": "x"},
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "d", "type": "custom", "custom": {"name": "patch", "input": "x"}},
                ],
                "function_call": {"name": "old", "arguments": "{}"},
            },
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}, {"type": "input_audio", "input_audio": {}}]},
            {"role": "function", "name": "old", "content": "r"},
            {"role": "developer", "content": "d"},
        ],
        "tools": TOOL_LIST[Api.OPENAI_CHAT],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]},
        },
        "parallel_tool_calls": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "stop": ["x"],
        "max_tokens": 5,
        "n": 1,
        "temperature": 1,
        "modalities": ["text"],
        "logprobs": True,
        "store": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}},
    },
    Api.ANTHROPIC_MESSAGES: {
        "model": "m",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "u"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {
                        "type": "document",
                        "title": "t",
                        "context": "c",
                        "source": {"type": "content", "content": [{"type": "text", "text": "x"}]},
                    },
                    {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "AA=="}},
                    {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "x", "signature": "y"},
                    {"type": "server_tool_use", "name": "web_search", "input": {"query": "q"}},
                    {"type": "web_search_tool_result", "content": [{"url": "u"}]},
                    {"type": "tool_use", "id": "t", "name": "edit", "input": {"a": 1}},
                    {"type": "compaction", "content": "x"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "tool_reference", "tool_name": "look"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "v"},
                ],
            },
            {"role": "system", "content": "s"},
        ],
        "tools": TOOL_LIST[Api.ANTHROPIC_MESSAGES],
        "tool_choice": {"type": "tool", "name": "edit", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "stop_sequences": ["x"],
        "mcp_servers": [{"url": "u"}],
        "stream": True,
        "top_k": 3,
    },
    Api.OPENAI_RESPONSES: {
        "model": "m",
        "instructions": "i",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "u"}, {"type": "input_image", "image_url": "u"}],
            },
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "c", "name": "run", "namespace": "ns", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "d", "name": "patch", "input": "x"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_url": "u"}], "status": "incomplete"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": {"a": 1}},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "late"}]},
            {"type": "item_reference", "id": "m"},
            {"type": "local_shell_call", "action": {"command": ["ls"]}},
            {"type": "shell_call_output", "output": [{"stdout": "x"}]},
        ],
        "tools": TOOL_LIST[Api.OPENAI_RESPONSES],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "namespace", "name": "ns"}, {"type": "custom", "name": "patch"}],
        },
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        "max_output_tokens": 50,
        "metadata": {"a": "b"},
        "temperature": 1,
        "service_tier": "auto",
        "stream": True,
        "store": True,
        "truncation": "auto",
    },
}

words = st.text(max_size=8) | st.sampled_from(
    ["text", "function", "custom", "user", "assistant", "tool_result", "name", "look", "\ud800", MARK]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
keys = (
    st.sampled_from(["type", "text", "content", "name", "role", "id", "function", "custom", "source", "input", "tools", "output", "format"])
    | words
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=8)
apis = st.sampled_from(list(Api))


def _places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in inner:
        yield from _places(below, (*path, step))


PLACES = {api: [path for path in _places(body) if path] for api, body in RICH.items()}


@st.composite
def damaged(draw, api, replacement=values):
    """A rich request in which up to three values are replaced or taken out."""
    body = copy.deepcopy(RICH[api])
    for path in draw(st.lists(st.sampled_from(PLACES[api]), min_size=1, max_size=3)):
        holder = body
        try:
            for step in path[:-1]:
                holder = holder[step]
            if isinstance(holder, dict) and draw(st.booleans()):
                holder.pop(path[-1], None)
            else:
                holder[path[-1]] = draw(replacement)
        except (KeyError, IndexError, TypeError):
            pass  # An earlier replacement took this place away.
    return body


def turn_or_failure(api, body, *, strict=False, note=None):
    turn = Turn(api=api, body=body, headers={"anthropic-version": "2026-10-21"})
    try:
        return Normalize(Settings(strict_params=strict)).prepare(turn, note or Notes())
    except StageError as error:
        return error.failed


def check(api, body, *, strict):
    read_turn = turn_or_failure(api, body, strict=strict)
    if isinstance(read_turn, Turn):
        assert read_turn.messages
        assert read_turn.model
        assert all(message.parts for message in read_turn.messages)
        assert len({tool.name for tool in read_turn.tools}) == len(read_turn.tools)
        assert read_turn.state in HistoryState
        assert count(read_turn) > 0
        json_values.dumps(read_turn.echo)
        for tool in read_turn.tools:
            assert tool.native["function" if "function" in tool.native else "custom"]["name"]
    else:
        assert read_turn.message
        assert read_turn.kind in (ErrorKind.INVALID_REQUEST, ErrorKind.UNSUPPORTED_VALUE, ErrorKind.UNSUPPORTED_PARAMETER)
    assert turn_or_failure(api, body, strict=strict) == read_turn


def test_the_rich_requests_are_legal():
    for api, body in RICH.items():
        assert isinstance(turn_or_failure(api, body), Turn)


@given(apis.flatmap(lambda api: st.tuples(st.just(api), damaged(api))), st.sampled_from([False, False, False, True]))
@settings(max_examples=600, deadline=None)
def test_a_damaged_request_is_a_turn_or_a_named_failure(case, strict):
    check(*case, strict=strict)


@given(
    apis.flatmap(lambda api: st.tuples(st.just(api), st.dictionaries(st.sampled_from(sorted(RICH[api])), values))),
    st.sampled_from([False, False, False, True]),
)
@settings(max_examples=300, deadline=None)
def test_arbitrary_values_under_known_fields_are_a_turn_or_a_named_failure(case, strict):
    api, body = case
    check(api, {**body, "never heard of": 1}, strict=strict)


@given(st.binary() | values.map(json_values.dumps_bytes))
def test_bytes_are_an_object_or_a_named_failure(raw):
    try:
        body = parse_body(raw)
    except StageError as error:
        body = error.failed.kind
    if isinstance(body, dict):
        assert json_values.loads(json_values.dumps(body)) == body
    else:
        assert body is ErrorKind.INVALID_REQUEST


secrets = st.recursive(
    st.just(MARK), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just(MARK), inner, max_size=1), max_leaves=3
)


@given(apis.flatmap(lambda api: st.tuples(st.just(api), damaged(api, secrets))))
@settings(max_examples=300, deadline=None)
def test_no_word_of_the_clients_gets_into_notes_warnings_or_errors(case):
    notes = Notes()
    result = turn_or_failure(*case, note=notes)
    told = repr(notes) + (repr(result.warnings) if isinstance(result, Turn) else f"{result.message} {result.parameter}")
    assert MARK not in told


def _texts(turn):
    for message in turn.messages:
        for part in message.parts:
            match part:
                case Text():
                    yield part.text
                case Call():
                    yield from (part.id, part.name)
                case Result():
                    yield part.call_id
                    yield from (inner.text for inner in part.content if isinstance(inner, Text))
                case Media():
                    yield part.kind


@given(apis.flatmap(lambda api: st.tuples(st.just(api), damaged(api, st.just("a\ud800b")))))
@settings(max_examples=200, deadline=None)
def test_no_lone_surrogate_gets_into_a_turn(case):
    result = turn_or_failure(*case)
    if isinstance(result, Turn):
        assert "\ud800" not in "".join(_texts(result)) + "".join(tool.name + tool.description for tool in result.tools)


said = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12).filter(str.strip)
chat_messages = st.lists(
    st.one_of(
        said.map(lambda text: {"role": "user", "content": text}),
        said.map(lambda text: {"role": "assistant", "content": text}),
        said.map(lambda text: {"role": "system", "content": [{"type": "text", "text": text}]}),
        st.tuples(said, said).map(
            lambda pair: {"role": "assistant", "content": pair[0], "tool_calls": [{"id": pair[1], "function": {"name": pair[1]}}]}
        ),
        st.tuples(said, said).map(lambda pair: {"role": "tool", "tool_call_id": pair[1], "content": pair[0]}),
    ),
    min_size=1,
    max_size=8,
)


@given(chat_messages)
def test_every_text_of_a_conversation_arrives_in_its_place(messages):
    turn = read(Api.OPENAI_CHAT, {"model": "m", "messages": messages})
    expected = []
    for message in messages:
        content = message["content"] if isinstance(message["content"], str) else message["content"][0]["text"]
        if message["role"] == "tool":
            expected.append(("user", [("result", message["tool_call_id"], [content])]))
        else:
            calls = [("call", call["id"], call["function"]["name"], {}) for call in message.get("tool_calls", ())]
            expected.append((message["role"], [content, *calls]))
    assert shown(turn) == expected
    assert state_of(turn.messages) in HistoryState
    assert {tool.name for tool in rebuild(turn.messages)} == {
        part.name for m in turn.messages for part in m.parts if isinstance(part, Call)
    }


@given(st.text(), st.text())
def test_an_estimate_of_a_whole_is_that_of_its_parts_but_for_rounding(left, right):
    assert estimate(left) + estimate(right) - 1 <= estimate(left + right) <= estimate(left) + estimate(right)


@given(values)
def test_depth_is_that_of_the_deepest_branch(value):
    def depth(inner):
        below = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else None
        return 0 if below is None else 1 + max(map(depth, below), default=0)

    assert not too_deep(value, depth(value))
    assert depth(value) == 0 or too_deep(value, depth(value) - 1)

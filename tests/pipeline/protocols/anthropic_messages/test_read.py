"""Anthropic Messages requests, rule by rule (AR01 to AR15)."""

import base64
import itertools

import jsonschema_rs
import pytest

from pipeline.protocols.anthropic_messages.builtin_tools import builtin_tool
from pipeline.settings import Settings
from pipeline.stages.history_guard import HistoryGuard
from pipeline.stages.normalize import Normalize
from pipeline.turn import ChoiceMode, Role, ToolChoice, Turn
from pipeline.verdicts import Api, DroppedParameter, ErrorKind, HistoryState, Noted, ReplacedContent
from tests.support import requests_read as reading
from tests.support.requests_read import Notes, shown

API = Api.ANTHROPIC_MESSAGES
HELLO = [{"role": "user", "content": "hello"}]
PING = {"name": "ping", "description": "Pings.", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ping", "input": {"n": 1}}]}


def read(note=None, *, strict=False, headers=None, **body):
    base = {"model": "m", "max_tokens": 9, "messages": HELLO}
    return reading.read(API, base | body, note, strict=strict, headers=headers or {})


def failure(*, strict=False, headers=None, **body):
    base = {"model": "m", "max_tokens": 9, "messages": HELLO}
    return reading.failure(API, base | body, strict=strict, headers=headers or {})


def history(*messages, note=None):
    return shown(read(note, messages=list(messages)))


def result(content=..., **more):
    block = {"type": "tool_result", "tool_use_id": "t1", **more}
    if content is not ...:
        block["content"] = content
    return {"role": "user", "content": [block]}


# Required fields


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"max_tokens": 9, "messages": HELLO}, "model"),
        ({"model": "m", "messages": HELLO}, "max_tokens"),
        ({"model": "m", "max_tokens": 9}, "messages"),
        ({"model": "m", "max_tokens": 9, "messages": []}, "messages"),
        ({"model": "m", "max_tokens": 9, "messages": ["x"]}, "messages.0"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "user"}]}, "messages.0.content"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"model": "m", "max_tokens": 9, "messages": [result("x", tool_use_id=None)]}, "messages.0.content.0.tool_use_id"),
        ({"model": "m", "max_tokens": 9, "messages": [result({"a": 1})]}, "messages.0.content.0.content"),
        ({"model": "m", "max_tokens": 9, "messages": [result("x", is_error="yes")]}, "messages.0.content.0.is_error"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": CALL["content"]}]}, "messages.0.content.0.type"),
        ({"model": "m", "max_tokens": 9, "messages": [{**result("x"), "role": "assistant"}]}, "messages.0.content.0.type"),
        ({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0.source"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_its_field(body, parameter):
    failed = reading.failure(API, body)
    assert failed.parameter == parameter
    assert failed.message.startswith(f"{parameter}: ")
    assert failed.kind is ErrorKind.INVALID_REQUEST


@pytest.mark.parametrize(
    ("field", "value", "parameter"),
    [
        ("max_tokens", -1, "max_tokens"),
        ("max_tokens", "9", "max_tokens"),
        ("system", 7, "system"),
        ("system", [7], "system.0"),
        ("tools", "x", "tools"),
        ("tools", [{"input_schema": {}}], "tools.0.name"),
        ("tools", [{"name": "a", "input_schema": []}], "tools.0.input_schema"),
        ("tools", [PING, PING], "tools"),
        ("tool_choice", "auto", "tool_choice"),
        ("tool_choice", {}, "tool_choice.type"),
        ("tool_choice", {"type": "some"}, "tool_choice.type"),
        ("tool_choice", {"type": "tool"}, "tool_choice.name"),
        ("stop_sequences", "x", "stop_sequences"),
        ("thinking", {"budget_tokens": 9}, "thinking.type"),
        ("temperature", "hot", "temperature"),
        ("stream", 1, "stream"),
        ("output_config", {"format": {"type": "yaml"}}, "output_config.format.type"),
    ],
)
def test_a_field_of_the_wrong_type_or_value_is_refused_by_its_name(field, value, parameter):
    assert failure(**{field: value}).parameter == parameter


def test_the_wording_is_the_protocols_own():
    assert reading.failure(API, {"model": "m", "messages": HELLO}).message == "max_tokens: Field required"
    assert failure(tools=[PING, PING]).message == "tools: Tool names must be unique."


def test_zero_tokens_are_legal_and_a_count_needs_none():
    assert read(max_tokens=0).max_tokens == 0
    assert reading.read(API, {"model": "m", "messages": HELLO}, count_only=True).max_tokens is None


def test_fields_that_mean_nothing_here_are_taken_in_silence():
    turn = read(
        metadata={"user_id": "{}"},
        service_tier="auto",
        speed="fast",
        container={"id": "x"},
        context_management={"edits": []},
        cache_control={"type": "ephemeral"},
        diagnostics={},
        inference_geo="eu",
        never_heard_of={"a": 1},
    )
    assert (turn.sampling, turn.warnings) == ({}, ())


# System


def test_system_blocks_become_one_text_in_order():
    blocks = [
        {"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "Dutch."},
    ]
    assert shown(read(system=blocks)) == [("system", ["Be terse.\n\nDutch."]), ("user", ["hello"])]
    assert shown(read(system="s"))[0] == ("system", ["s"])
    assert shown(read(system=[]))[0] == ("user", ["hello"])


@pytest.mark.parametrize("form", [str, lambda text: [{"type": "text", "text": text}]])
def test_the_billing_line_of_a_client_is_stripped(form):
    header = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;"
    assert shown(read(system=form(header))) == [("user", ["hello"])]
    assert shown(read(system=form(f"{header}\nBe kind.")))[0] == ("system", ["Be kind."])
    assert shown(read(system=form(f"See {header}")))[0] == ("system", [f"See {header}"])


def test_system_messages_may_stand_anywhere():
    messages = [
        *HELLO,
        {"role": "system", "content": "s1"},
        CALL,
        result("x"),
        {"role": "system", "content": [{"type": "text", "text": "s2"}]},
    ]
    assert [role for role, _ in history(*messages)] == ["user", "system", "assistant", "user", "system"]


# Tools and choice


def test_a_tool_keeps_its_schema_and_ignores_what_is_for_the_vendor():
    extra = {"cache_control": {"scope": "x"}, "input_examples": [{}], "allowed_callers": ["direct"], "eager_input_streaming": True}
    (tool,) = read(tools=[{**PING, **extra, "type": "custom", "strict": True}]).tools
    assert (tool.name, tool.description, tool.parameters, tool.strict) == ("ping", "Pings.", PING["input_schema"], True)
    assert tool.native == {
        "type": "function",
        "function": {"name": "ping", "description": "Pings.", "parameters": PING["input_schema"], "strict": True},
    }


@pytest.mark.parametrize(
    ("type_name", "name", "example"),
    [
        ("bash_20250124", "bash", {"command": "ls"}),
        ("bash_20241022", "bash", {"restart": True}),
        ("text_editor_20241022", "str_replace_editor", {"command": "undo_edit", "path": "/a"}),
        ("text_editor_20250124", "str_replace_editor", {"command": "insert", "path": "/a", "insert_line": 1, "new_str": "x"}),
        ("text_editor_20250429", "str_replace_based_edit_tool", {"command": "view", "path": "/a", "view_range": [1, -1]}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"command": "insert", "path": "/a", "insert_line": 1, "insert_text": "x"}),
        ("memory_20250818", "memory", {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
        ("bash_20300101", "bash", {"command": "ls"}),
    ],
)
def test_the_vendors_client_tools_get_their_schemas(type_name, name, example):
    (tool,) = read(tools=[{"type": type_name, "name": name, "cache_control": None}]).tools
    assert (tool.name, bool(tool.description)) == (name, True)
    check = jsonschema_rs.validator_for({**tool.parameters, "additionalProperties": False})
    assert check.is_valid(example)
    assert not check.is_valid({"command": "explode"} if name != "bash" else {"explode": 1})


def test_an_editor_without_undo_does_not_offer_it():
    commands = builtin_tool("text_editor_20250728").parameters["properties"]["command"]["enum"]
    assert commands == ["view", "create", "str_replace", "insert"]


def test_tools_that_run_elsewhere_are_left_out_with_a_warning():
    notes = Notes()
    tools = [
        SEARCH,
        {"type": "web_fetch_20250910", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "computer_toolset_20260801"},
        {"type": "computer_20250124", "name": "computer"},
        {"type": "browser_toolset_20260801"},
        PING,
    ]
    turn = read(notes, tools=tools, mcp_servers=[{"url": "https://x"}])
    assert [tool.name for tool in turn.tools] == ["ping"]
    assert [note["parameter"] for note in notes.of(Noted.PARAMETER_DROPPED)] == [
        DroppedParameter.TOOL_WEB_SEARCH,
        DroppedParameter.TOOL_WEB_FETCH,
        DroppedParameter.TOOL_CODE_EXECUTION,
        DroppedParameter.TOOL_COMPUTER,
        DroppedParameter.TOOL_BROWSER,
        DroppedParameter.MCP_SERVERS,
    ]


@pytest.mark.parametrize(("tools", "choice"), [([SEARCH, PING], {"type": "tool", "name": "web_search"}), ([SEARCH], {"type": "any"})])
def test_a_choice_that_forces_a_tool_run_elsewhere_is_refused(tools, choice):
    failed = failure(tools=tools, tool_choice=choice)
    assert (failed.kind, failed.parameter) == (ErrorKind.UNSUPPORTED_VALUE, "tool_choice")


@pytest.mark.parametrize(
    ("value", "choice", "parallel"),
    [
        (None, ToolChoice(), True),
        ({"type": "auto"}, ToolChoice(), True),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(), False),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice(ChoiceMode.REQUIRED), True),
        ({"type": "tool", "name": "ping", "disable_parallel_tool_use": True}, ToolChoice(ChoiceMode.NAMED, "ping"), False),
        ({"type": "none"}, ToolChoice(ChoiceMode.NONE), True),
    ],
)
def test_every_form_of_choice(value, choice, parallel):
    turn = read(tools=[PING], tool_choice=value)
    assert (turn.tool_choice, turn.parallel_calls) == (choice, parallel)


@pytest.mark.parametrize(("tools", "choice"), [([], {"type": "any"}), ([PING], {"type": "tool", "name": "pong"})])
def test_a_choice_that_the_tools_cannot_meet_is_refused(tools, choice):
    assert failure(tools=tools, tool_choice=choice).parameter == "tool_choice"


def test_deferred_tools_stay_out_until_something_names_them():
    late, later = {**PING, "name": "late", "defer_loading": True}, {**PING, "name": "later", "defer_loading": True}
    find = {**PING, "name": "find"}

    def offered(**body):
        return [tool.name for tool in read(tools=[find, late, later], **body).tools]

    assert offered() == ["find"]
    assert offered(tool_choice={"type": "tool", "name": "later"}) == ["find", "later"]
    named = [{"type": "tool_reference", "tool_name": "late"}]
    assert offered(messages=[*HELLO, CALL, result(named)]) == ["find", "late"]
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "later", "input": {}}]}
    assert offered(messages=[*HELLO, used, result("x")]) == ["find", "later"]


def test_deferred_tools_are_shown_where_nobody_can_search_for_them():
    late = {**PING, "name": "late", "defer_loading": True}
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert [tool.name for tool in read(tools=[search, PING, late]).tools] == ["ping", "late"]
    assert [tool.name for tool in read(tools=[late]).tools] == ["late"]


# Messages and blocks


def test_text_calls_and_results_keep_their_order():
    talk = {"role": "assistant", "content": [*CALL["content"], {"type": "text", "text": "Waiting."}]}
    answer = {"role": "user", "content": [*result("7 C")["content"], {"type": "text", "text": "so?"}]}
    assert history(*HELLO, talk, answer) == [
        ("user", ["hello"]),
        ("assistant", [("call", "t1", "ping", {"n": 1}), "Waiting."]),
        ("user", [("result", "t1", ["7 C"]), "so?"]),
    ]


def test_results_stand_before_the_text_of_their_message():
    mixed = [
        {"type": "text", "text": "first"},
        *result("a")["content"],
        {"type": "text", "text": "last"},
        *result("b", tool_use_id="t2")["content"],
    ]
    assert history({"role": "user", "content": mixed}) == [("user", [("result", "t1", ["a"]), ("result", "t2", ["b"]), "first", "last"])]


WHOLE = [
    {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image", "source": {"type": "url", "url": "https://x/y"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "text", "text": "Both."},
            *({"type": "tool_use", "id": name, "name": "ping", "input": {"n": 1}} for name in "ab"),
        ],
    },
    {
        "role": "user",
        "content": [
            *({"type": "tool_result", "tool_use_id": name, "content": "7 C"} for name in "ab"),
            {"type": "text", "text": "<system-reminder>x</system-reminder>"},
        ],
    },
]


def split(message, cuts):
    borders = [0, *sorted(cuts), len(message["content"])]
    return [{**message, "content": message["content"][start:end]} for start, end in itertools.pairwise(borders)]


@pytest.mark.parametrize("at", range(len(WHOLE)))
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_neighbours_of_one_role_are_one_turn_wherever_it_was_cut(at, count):
    """AR03: what several messages of one role say, one says as well; pieces without a block among them."""
    for cuts in itertools.combinations_with_replacement(range(len(WHOLE[at]["content"]) + 1), count):
        pieces = split(WHOLE[at], cuts)
        turn = Normalize(Settings()).prepare(
            Turn(API, body={"model": "m", "max_tokens": 9, "messages": [*WHOLE[:at], *pieces, *WHOLE[at + 1 :]]}), Notes()
        )
        assert shown(turn) == history(*WHOLE)
        assert turn.state is HistoryState.RESULTS_RECEIVED
        notes = Notes()
        assert HistoryGuard(Settings()).prepare(turn, notes) is turn
        assert notes == [(Noted.HISTORY_CLEAN, {})]


def test_texts_of_neighbours_stay_apart_and_results_go_first():
    say = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in ("<tool", "_calls>")]
    assert history(*say) == [("user", ["<tool", "\n\n", "_calls>"])]
    assert history(HELLO[0], CALL, say[0], result("7 C"), say[1]) == [
        ("user", ["hello"]),
        ("assistant", [("call", "t1", "ping", {"n": 1})]),
        ("user", [("result", "t1", ["7 C"]), "<tool", "_calls>"]),
    ]


def test_system_messages_part_neighbours_and_stay_messages_of_their_own():
    note = {"role": "system", "content": "s"}
    assert history(HELLO[0], note, note, HELLO[0]) == [("user", ["hello"]), ("system", ["s"]), ("system", ["s"]), ("user", ["hello"])]


def test_thoughts_are_dropped_and_nothing_of_them_stays():
    notes = Notes()
    blocks = [{"type": "thinking", "thinking": "secret plan", "signature": "AbC"}, {"type": "redacted_thinking", "data": "zzz"}]
    messages = [*HELLO, {"role": "assistant", "content": [*blocks, *CALL["content"]]}, {"role": "assistant", "content": blocks}]
    assert history(*messages, note=notes)[1:] == [("assistant", [("call", "t1", "ping", {"n": 1})])]
    assert notes == []


@pytest.mark.parametrize("blank", ["", "  \n", [], [{"type": "text", "text": " "}]])
def test_blank_texts_are_dropped(blank):
    assert history(*HELLO, {"role": "assistant", "content": blank}, {"role": "user", "content": "b"}) == [
        ("user", ["hello"]),
        ("user", ["b"]),
    ]


@pytest.mark.parametrize("raw", [{"n": 1}, "", None, '{"n": ', [1]])
def test_an_input_is_kept_raw_for_the_guard_to_judge(raw):
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ping", "input": raw}]}
    assert read(messages=[*HELLO, message]).messages[1].parts[0].arguments.raw == raw


def test_a_call_without_a_name_becomes_a_record():
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "input": {"n": 1}}]}
    assert history(*HELLO, message)[1] == ("assistant", ['[call without a tool name: {"n":1}]'])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (..., []),
        (None, []),
        ("", []),
        ([], []),
        (" ", [" "]),
        ("7 C", ["7 C"]),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "\n"}, {"type": "text", "text": "b"}], ["a", "\n", "b"]),
        ([{"type": "image", "source": {"type": "url", "url": "https://x"}}], [("image", "https://x")]),
        ([{"type": "tool_reference", "tool_name": "late"}], ["Tool now available: late"]),
        ([{"type": "browser_state", "tabs": []}], ["[content of type browser_state omitted]"]),
        (
            [{"type": "search_result", "title": "T", "source": "https://x", "content": [{"type": "text", "text": "found"}]}],
            ["T\nhttps://x\nfound"],
        ),
    ],
)
def test_every_content_of_a_result(content, parts):
    assert history(*HELLO, CALL, result(content))[2] == ("user", [("result", "t1", parts)])


def test_an_error_result_says_so():
    turn = read(messages=[*HELLO, CALL, result("boom", is_error=True)])
    assert turn.messages[2].parts[0].is_error
    assert not read(messages=[*HELLO, CALL, result("fine", is_error=None)]).messages[2].parts[0].is_error


def test_images_in_their_three_forms():
    def image(**source):
        return {"role": "user", "content": [{"type": "image", "source": source}]}

    assert history(image(type="base64", media_type="image/png", data="AA==")) == [("user", [("image", "data:image/png;base64,AA==")])]
    assert history(image(type="url", url="https://x")) == [("user", [("image", "https://x")])]
    assert history(image(type="file", file_id="f")) == [("user", ["[image omitted]"])]


def test_documents_become_text_or_a_file():
    def document(title=None, context=None, **source):
        return {"role": "user", "content": [{"type": "document", "title": title, "context": context, "source": source}]}

    inner = [{"type": "text", "text": "b"}, {"type": "image", "source": {"type": "url", "url": "https://x"}}, {"type": "document"}]
    encoded = base64.b64encode("naïve".encode()).decode()
    assert history(document(type="text", media_type="text/plain", data="body", title="T", context="C")) == [("user", ["T\nC", "body"])]
    assert history(document(type="content", content="a")) == [("user", ["a"])]
    assert history(document(type="content", content=inner))[0][1][:2] == ["b", ("image", "https://x")]
    assert history(document(type="base64", media_type="text/plain", data=encoded)) == [("user", ["naïve"])]
    assert history(document(type="url", url="https://x/y.pdf")) == [("user", ["[document at https://x/y.pdf]"])]
    assert history(document(type="file", file_id="f")) == [("user", ["[document omitted]"])]
    pdf = read(messages=[document(type="base64", media_type="application/pdf", data="AA==", title="a.pdf")]).messages[0].parts[1]
    assert pdf.part == {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}


def test_what_a_server_ran_becomes_a_short_record():
    notes = Notes()
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "tide"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "title": "Tides", "url": "https://x", "encrypted_content": "ZZZ" * 9}],
        },
    ]
    ((_, (call, answer)),) = history({"role": "assistant", "content": blocks}, note=notes)
    assert "web_search" in call
    assert "tide" in call
    assert "Tides" in answer
    assert "ZZZ" not in answer
    assert notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.SERVER_TOOL, "count": 2}]


def test_records_are_bounded():
    block = {"type": "code_execution_tool_result", "content": {"stdout": "x" * 9000}}
    ((_, (record,)),) = history({"role": "assistant", "content": [block]})
    assert len(record) < 2200


def test_a_compaction_block_is_the_summary_that_it_holds():
    assert history({"role": "assistant", "content": [{"type": "compaction", "content": "So far: x."}]}) == [("assistant", ["So far: x."])]


def test_unknown_blocks_are_named_in_their_place_and_counted():
    notes = Notes()
    blocks = [{"type": "container_upload", "file_id": "f"}, {"type": "holo<gram>"}, {"type": "text", "text": "a"}]
    assert history({"role": "user", "content": blocks}, note=notes) == [
        ("user", ["[uploaded file omitted]", "[content of type hologram omitted]", "a"])
    ]
    assert "holo" not in repr(notes)


def test_a_prefill_stays_the_last_message():
    assert read(messages=[*HELLO, {"role": "assistant", "content": "{"}]).messages[-1].role is Role.ASSISTANT


# Scalars


def test_scalars_land_in_their_places():
    turn = read(
        stream=True,
        stop_sequences=["", "END"],
        temperature=0.5,
        top_p=1,
        top_k=4,
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    )
    assert (turn.stream, turn.stop) == (True, ("END",))
    assert turn.sampling == {"temperature": 0.5, "top_p": 1, "top_k": 4, "reasoning_effort": "high"}
    assert turn.response_format.native == {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("thinking", "wanted"),
    [
        (None, False),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 31999}, True),
        ({"type": "adaptive"}, True),
        ({"type": "between_tools"}, True),
        ({"type": "adaptive", "display": "omitted"}, False),
    ],
)
def test_reasoning_is_shown_only_to_those_who_asked(thinking, wanted):
    assert read(thinking=thinking).reasoning_wanted is wanted


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": 0.5},
        {"top_k": 4},
        {"messages": [{"role": "assistant", "content": [{"type": "document", "source": {"type": "text", "data": "x"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "citations": [{}]}]}]},
    ],
)
def test_a_newer_version_retires_fields_only_when_strict(body):
    newer = {"anthropic-version": "2026-10-21"}
    assert read(headers=newer, **body)
    assert read(headers={"anthropic-version": "2023-06-01"}, strict=True, **body)
    assert failure(headers=newer, strict=True, **body).parameter

"""OpenAI Responses requests, rule by rule (RQ01 to RQ05), and what the response object repeats (RN01, RN02)."""

import pytest

from pipeline import json_values
from pipeline.turn import ChoiceMode, ToolChoice, ToolKind
from pipeline.verdicts import Api, DroppedParameter, ErrorKind, Noted, ReplacedContent
from tests.support import requests_read as reading
from tests.support.requests_read import Notes, shown

API = Api.OPENAI_RESPONSES
PING = {"type": "function", "name": "ping", "description": "Pings.", "parameters": {"type": "object", "properties": {}}, "strict": False}
PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Patches.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Runs agents.",
    "tools": [{**PING, "name": "spawn"}, {**PATCH, "name": "edit"}],
}
CALL = {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "ping", "arguments": "{}", "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "pong"}


def read(note=None, *, strict=False, **body):
    return reading.read(API, {"model": "m", "input": "hello", **body}, note, strict=strict)


def failure(*, strict=False, **body):
    return reading.failure(API, {"model": "m", "input": "hello", **body}, strict=strict)


def history(*items, note=None):
    return shown(read(note, input=list(items)))


def user(text):
    return {"role": "user", "content": text}


# Required fields and state


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": 7}, "input"),
        ({"model": "m", "input": []}, "input"),
        ({"model": "m", "input": ["x"]}, "input[0]"),
        ({"model": "m", "input": [{"type": 7}]}, "input[0].type"),
        ({"model": "m", "input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"model": "m", "input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"model": "m", "input": [{**CALL, "name": 7}]}, "input[0].name"),
        ({"model": "m", "input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].image_url"),
        ({"model": "m", "input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].file_data"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_its_field(body, parameter):
    failed = reading.failure(API, body)
    assert failed.parameter == parameter
    assert parameter in failed.message


@pytest.mark.parametrize(
    ("field", "value", "parameter"),
    [
        ("instructions", 7, "instructions"),
        ("tools", "x", "tools"),
        ("tools", [{"type": "function"}], "tools[0].name"),
        ("tools", [{"type": "function", "name": "a", "parameters": 7}], "tools[0].parameters"),
        ("tools", [PING, PING], "tools"),
        ("tools", [{"type": "namespace", "tools": []}], "tools[0].name"),
        ("tools", [{"type": "namespace", "name": "a", "tools": [{"type": "function"}]}], "tools[0].tools[0].name"),
        ("tool_choice", 7, "tool_choice"),
        ("tool_choice", "maybe", "tool_choice"),
        ("max_output_tokens", 0, "max_output_tokens"),
        ("temperature", 3, "temperature"),
        ("metadata", {"a": 1}, "metadata"),
        ("metadata", {"a": "v" * 513}, "metadata"),
        ("metadata", {"k" * 65: "v"}, "metadata"),
        ("metadata", {str(number): "v" for number in range(17)}, "metadata"),
        ("safety_identifier", "x" * 65, "safety_identifier"),
        ("parallel_tool_calls", 1, "parallel_tool_calls"),
        ("text", {"format": {"type": "yaml"}}, "text.format.type"),
        ("reasoning", {"effort": 3}, "reasoning.effort"),
        ("store", "yes", "store"),
    ],
)
def test_a_field_of_the_wrong_type_or_value_is_refused_by_its_name(field, value, parameter):
    assert failure(**{field: value}).parameter == parameter


def test_a_small_token_limit_is_refused_only_when_strict():
    assert read(max_output_tokens=5).max_tokens == 5
    assert failure(max_output_tokens=5, strict=True).parameter == "max_output_tokens"


def test_what_needs_a_stored_response_is_refused():
    failed = failure(previous_response_id="resp_1")
    assert (failed.kind, failed.code) == (ErrorKind.INVALID_REQUEST, "previous_response_not_found")
    for field, value in (("conversation", "conv_1"), ("background", True), ("prompt", {"id": "p"})):
        failed = failure(**{field: value})
        assert (failed.kind, failed.parameter) == (ErrorKind.UNSUPPORTED_PARAMETER, field)
    assert read(previous_response_id=None, conversation=None, background=False, prompt=None, store=True).warnings == ()


# Input


def test_a_text_and_instructions():
    assert shown(read(instructions="Be terse.")) == [("system", ["Be terse."]), ("user", ["hello"])]
    assert shown(read(input="")) == [("user", [""])]


def test_messages_with_and_without_type():
    assert history(
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}], "id": "msg_1"},
        {"role": "system", "content": "s"},
        user("u"),
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        },
        {"role": "assistant", "phase": "final", "content": [{"type": "refusal", "refusal": "No."}]},
    ) == [("developer", ["d"]), ("system", ["s"]), ("user", ["u"]), ("assistant", ["a", "\n\n", "No."])]


def test_parts_of_a_user_message():
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://x", "detail": "high"},
        {"type": "input_image", "file_id": "f"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        {"type": "input_file", "file_id": "f"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "input_hologram"},
    ]
    turn = read(input=[{"role": "user", "content": parts}])
    assert shown(turn) == [
        (
            "user",
            [
                "look",
                ("image", "https://x"),
                "[image omitted]",
                ("media", "file"),
                ("media", "file"),
                "[file at https://x/a.pdf]",
                ("media", "input_audio"),
                "[content of type input_hologram omitted]",
            ],
        )
    ]
    assert turn.messages[0].parts[3].part == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
    }


def test_neighbouring_items_of_one_side_are_one_message():
    second = {**CALL, "call_id": "c2"}
    assert history(
        user("u"),
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZZZ"},
        {"role": "assistant", "content": "I look."},
        CALL,
        second,
        OUTPUT,
        {**OUTPUT, "call_id": "c2"},
        user("go on"),
    ) == [
        ("user", ["u"]),
        ("assistant", ["I look.", ("call", "c1", "ping", {}), ("call", "c2", "ping", {})]),
        ("user", [("result", "c1", ["pong"]), ("result", "c2", ["pong"])]),
        ("user", ["go on"]),
    ]


def test_namespaced_and_custom_calls_and_their_outputs():
    turn = read(
        input=[
            user("u"),
            {**CALL, "name": "spawn", "namespace": "agents"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
            {**OUTPUT, "name": "spawn", "namespace": "agents", "status": "incomplete"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
        ]
    )
    spawn, patch = turn.messages[1].parts
    assert (spawn.name, spawn.namespace, spawn.kind) == ("agents.spawn", "agents", ToolKind.FUNCTION)
    assert (patch.name, patch.kind, patch.arguments.value()) == ("patch", ToolKind.CUSTOM, {"input": "*** Begin"})
    spawned, patched = turn.messages[2].parts
    assert (spawned.name, spawned.is_partial, patched.is_partial) == ("agents.spawn", True, False)


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        ("pong", ["pong"]),
        ("", []),
        (None, []),
        ([{"type": "input_image", "image_url": "https://x"}], [("image", "https://x")]),
        ({"ok": True, "n": 12345678901234567890123}, ['{"ok":true,"n":12345678901234567890123}']),
        (7, ["7"]),
    ],
)
def test_every_form_of_output(output, parts):
    assert history(user("u"), CALL, {**OUTPUT, "output": output})[2] == ("user", [("result", "c1", parts)])


def test_ids_that_are_missing():
    assert history(user("u"), {"type": "function_call", "id": "fc_1", "name": "ping"})[1] == ("assistant", [("call", "fc_1", "ping", {})])
    assert history(user("u"), {"type": "function_call_output", "output": "x"})[1] == ("user", [("result", "", ["x"])])


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}, {"type": None, "id": "rs_1"}])
def test_a_reference_to_an_earlier_item_is_ignored(reference):
    notes = Notes()
    assert history(user("u"), reference, user("v"), note=notes) == [("user", ["u"]), ("user", ["v"])]
    assert notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.ITEM_REFERENCE, "count": 1}]


def test_an_input_of_nothing_but_references_still_makes_a_turn():
    assert history({"type": "item_reference", "id": "msg_1"}) == [("user", [""])]


@pytest.mark.parametrize(
    ("item", "role", "words"),
    [
        (
            {"type": "local_shell_call", "call_id": "s", "action": {"type": "exec", "command": ["ls", "-l"]}},
            "assistant",
            ["local_shell_call", "ls"],
        ),
        ({"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}}, "assistant", ["shell_call", "ls"]),
        ({"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "a.txt"}]}, "user", ["shell_call_output", "a.txt"]),
        ({"type": "apply_patch_call", "call_id": "s", "operation": {"path": "a"}}, "assistant", ["apply_patch_call"]),
        ({"type": "web_search_call", "id": "w", "action": {"query": "tide"}}, "assistant", ["web_search_call", "tide"]),
        ({"type": "mcp_call", "name": "x", "arguments": "{}", "output": "42"}, "assistant", ["mcp_call", "42"]),
        ({"type": "computer_call_output", "output": {"image_url": "data:AAAA"}}, "user", ["computer_call_output"]),
        ({"type": "image_generation_call", "result": "AAAA"}, "assistant", ["[generated image omitted]"]),
        ({"type": "compaction", "encrypted_content": "ZZZZ"}, "user", ["compacted"]),
        ({"type": "never_seen", "value": "hm"}, "user", ["never_seen", "hm"]),
        ({}, "user", ["unknown"]),
    ],
)
def test_foreign_items_become_records_and_never_an_error(item, role, words):
    ((found_role, (text,)),) = history(item)
    assert found_role == role
    assert all(word in text for word in words)
    assert "AAAA" not in text
    assert "ZZZZ" not in text


@pytest.mark.parametrize("item", [{"type": "reasoning"}, {"type": "mcp_list_tools", "tools": []}, {"type": "compaction_trigger"}])
def test_items_without_content_go_in_silence(item):
    notes = Notes()
    assert history(user("u"), item, note=notes) == [("user", ["u"])]
    assert notes == []


def test_an_unknown_item_behind_results_does_not_pass_for_a_question():
    assert history(user("u"), CALL, OUTPUT, {"type": "never_seen"})[2][1][0] == ("result", "c1", ["pong"])
    assert len(history(user("u"), CALL, OUTPUT, {"type": "never_seen"})) == 3


# Tools and choice


def test_function_custom_and_namespaced_tools():
    ping, spawn, edit, patch = read(tools=[PING, AGENTS, PATCH]).tools
    assert (ping.name, ping.namespace, ping.strict) == ("ping", None, False)
    assert (spawn.name, spawn.namespace, spawn.description) == ("agents.spawn", "agents", "Runs agents.\nPings.")
    assert spawn.native["function"]["name"] == "agents.spawn"
    assert (edit.name, edit.kind) == ("agents.edit", ToolKind.CUSTOM)
    assert not edit.description.startswith("Runs agents.")
    assert (patch.kind, patch.format["syntax"]) == (ToolKind.CUSTOM, "lark")
    assert patch.description == "Patches."
    assert "start: x" in patch.native["function"]["description"]
    assert "start: x" in edit.native["function"]["description"]


def test_null_fields_and_nested_functions_are_taken():
    (tool,) = read(tools=[{"type": "function", "name": "ping", "parameters": None, "strict": None, "description": None}]).tools
    assert tool.parameters == {"type": "object", "properties": {}}
    (nested,) = read(tools=[{"type": "function", "function": {"name": "pong"}}]).tools
    assert nested.name == "pong"


def test_a_mixed_list_keeps_what_can_be_called():
    notes = Notes()
    hosted = [
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "image_generation",
        "computer_use_preview",
        "mcp",
        "tool_search",
    ]
    hosted += ["local_shell", "shell", "apply_patch", "programmatic_tool_calling", "brand_new"]
    deferred = {**PING, "name": "late", "defer_loading": True}
    turn = read(notes, tools=[PING, *({"type": kind} for kind in hosted), deferred], tool_choice="auto")
    assert [tool.name for tool in turn.tools] == ["ping", "late"]
    dropped = [note["parameter"] for note in notes.of(Noted.PARAMETER_DROPPED)]
    assert len(dropped) == len(set(dropped)) == 11
    assert dropped[-1] is DroppedParameter.TOOL_OTHER
    assert "brand_new" not in repr(notes)


@pytest.mark.parametrize(
    "choice", ["required", {"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {"type": "shell"}, {"type": "apply_patch"}]
)
def test_a_choice_that_forces_a_hosted_tool_is_refused(choice):
    failed = failure(tools=[{"type": "web_search"}], tool_choice=choice)
    assert (failed.kind, failed.parameter) == (ErrorKind.UNSUPPORTED_VALUE, "tool_choice")


@pytest.mark.parametrize(
    ("value", "choice", "echoed"),
    [
        (None, ToolChoice(), "auto"),
        ("none", ToolChoice(ChoiceMode.NONE), "none"),
        ("required", ToolChoice(ChoiceMode.REQUIRED), "required"),
        ({"type": "function", "name": "ping"}, ToolChoice(ChoiceMode.NAMED, "ping"), {"type": "function", "name": "ping"}),
        ({"type": "custom", "name": "patch"}, ToolChoice(ChoiceMode.NAMED, "patch"), {"type": "custom", "name": "patch"}),
        (
            {"type": "function", "name": "spawn", "namespace": "agents"},
            ToolChoice(ChoiceMode.NAMED, "agents.spawn"),
            {"type": "function", "name": "spawn", "namespace": "agents"},
        ),
        (
            {"type": "function", "name": "spawn"},
            ToolChoice(ChoiceMode.NAMED, "agents.spawn"),
            {"type": "function", "name": "spawn", "namespace": "agents"},
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "ping"}, {"type": "web_search"}]},
            ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset({"ping"})),
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "ping"}, {"type": "web_search"}]},
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "namespace", "name": "agents"}]},
            ToolChoice(ChoiceMode.AUTO, allowed=frozenset({"agents.spawn", "agents.edit"})),
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "namespace", "name": "agents"}]},
        ),
    ],
)
def test_every_form_of_choice_and_its_echo(value, choice, echoed):
    turn = read(tools=[PING, PATCH, AGENTS], tool_choice=value)
    assert (turn.tool_choice, turn.echo["tool_choice"]) == (choice, echoed)


@pytest.mark.parametrize(
    "choice", [{"type": "function", "name": "pong"}, {"type": "function", "name": "ping", "namespace": "agents"}, "required"]
)
def test_a_choice_that_the_tools_cannot_meet_is_refused(choice):
    assert failure(tools=[] if choice == "required" else [PING, AGENTS], tool_choice=choice).parameter == "tool_choice"


def test_items_may_bring_tools_along():
    late = {**PING, "name": "late"}
    items = [
        user("u"),
        {"type": "additional_tools", "role": "developer", "tools": [late, PING]},
        {"type": "tool_search_output", "tools": [AGENTS]},
    ]
    turn = read(input=items, tools=[PING])
    assert [tool.name for tool in turn.tools] == ["ping", "late", "agents.spawn", "agents.edit"]
    assert [tool["name"] for tool in turn.echo["tools"]] == ["ping"]


# Scalars and echo


def test_scalars_land_in_their_places():
    turn = read(
        stream=True,
        max_output_tokens=99,
        temperature=0.5,
        top_p=1,
        presence_penalty=1,
        user="u",
        metadata={"a": "b"},
        prompt_cache_key="k",
        service_tier="flex",
        reasoning={"effort": "high", "summary": "auto"},
        text={"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        parallel_tool_calls=False,
        include=["reasoning.encrypted_content"],
        client_metadata={"x": 1},
        top_logprobs=3,
    )
    assert (turn.stream, turn.max_tokens, turn.parallel_calls, turn.reasoning_wanted) == (True, 99, False, True)
    assert turn.sampling == {
        "temperature": 0.5,
        "top_p": 1,
        "presence_penalty": 1,
        "user": "u",
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "service_tier": "flex",
        "reasoning_effort": "high",
        "verbosity": "low",
    }
    schema = {"name": "n", "schema": {"type": "object"}, "strict": True}
    assert turn.response_format.native == {"type": "json_schema", "json_schema": schema}
    assert turn.echo["text"] == {"format": {"type": "json_schema", **schema}, "verbosity": "low"}
    assert turn.warnings == ("dropped top_logprobs",)


@pytest.mark.parametrize(
    ("reasoning", "wanted"),
    [
        (None, False),
        ({}, False),
        ({"effort": None}, False),
        ({"effort": "none"}, False),
        ({"effort": "low"}, True),
        ({"summary": "auto"}, True),
    ],
)
def test_reasoning_is_shown_only_to_those_who_asked(reasoning, wanted):
    assert read(reasoning=reasoning).reasoning_wanted is wanted


ECHO_KEYS = {
    "previous_response_id", "instructions", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty",
    "frequency_penalty", "top_logprobs", "temperature", "reasoning", "max_output_tokens", "max_tool_calls", "store", "background",
    "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}  # fmt: skip


def test_the_echo_is_complete_and_has_no_raw_nulls():
    defaults = read().echo
    assert defaults.keys() == ECHO_KEYS
    assert read(**dict.fromkeys(ECHO_KEYS - {"previous_response_id"})).echo == defaults
    legal_nulls = {"previous_response_id", "instructions", "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key"}
    assert {key for key, value in defaults.items() if value is None} == legal_nulls
    assert defaults["text"] == {"format": {"type": "text"}}
    assert (defaults["store"], defaults["metadata"], defaults["service_tier"]) == (False, {}, "default")


def test_the_echo_never_repeats_words_that_its_schema_does_not_know():
    echo = read(truncation="later", service_tier="gold", reasoning={"effort": "ultra", "summary": "epic"}, text={"verbosity": "mute"}).echo
    assert (echo["truncation"], echo["service_tier"], echo["text"]) == ("disabled", "default", {"format": {"type": "text"}})
    assert echo["reasoning"] == {"effort": None, "summary": None}


def test_the_echo_shows_the_tools_that_are_in_force():
    echo = read(tools=[PING, {"type": "web_search"}, AGENTS], store=True).echo
    assert [tool["name"] for tool in echo["tools"]] == ["ping", "agents"]
    assert echo["tools"][0] == PING
    assert [tool["type"] for tool in echo["tools"][1]["tools"]] == ["function", "custom"]
    assert echo["store"] is False
    assert json_values.loads(json_values.dumps(echo)) == echo


def test_the_user_is_repeated_only_where_there_is_one():
    assert read(user="u").echo["user"] == "u"


# Limits of the original API


def test_more_items_than_the_api_takes_are_refused():
    assert failure(input=[user("x")] * 100_001).parameter == "input"


def test_a_long_output_of_a_tool_is_refused_only_when_strict():
    long = {**OUTPUT, "output": "x" * 10_485_761}
    assert len(read(input=[CALL, long]).messages[1].parts[0].content[0].text) == 10_485_761
    assert failure(input=[CALL, long], strict=True).parameter == "input[1].output"
    assert read(input=[CALL, {**OUTPUT, "output": "x" * 10_485_760}], strict=True).messages


def test_a_result_is_kept_where_its_call_is_only_referred_to():
    """Nothing is stored here, so the call itself is unknown; what it returned is not lost, and the client is told."""
    notes = Notes()
    turn = read(notes, input=[user("q"), {"type": "item_reference", "id": "fc_1"}, OUTPUT], tools=[PING])
    assert shown(turn)[-1] == ("user", [("result", "c1", ["pong"])])
    assert turn.warnings == ("replaced item_reference",)
    assert [note["kind"] for note in notes.of(Noted.CONTENT_REPLACED)] == [ReplacedContent.ITEM_REFERENCE]

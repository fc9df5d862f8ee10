"""OpenAI Chat Completions requests, rule by rule (CR01 to CR13, CM01 to CM07)."""

import pytest

from pipeline.turn import ChoiceMode, ResponseFormat, Role, ToolChoice, ToolKind
from pipeline.verdicts import Api, DroppedParameter, ErrorKind, Noted, ReplacedContent
from tests.support import requests_read as reading
from tests.support.requests_read import Notes, shown

API = Api.OPENAI_CHAT
HELLO = [{"role": "user", "content": "hello"}]
PING = {"type": "function", "function": {"name": "ping", "description": "Pings.", "parameters": {"type": "object", "properties": {}}}}
LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}, "strict": True},
}
PATCH = {"type": "custom", "custom": {"name": "patch", "description": "Patches."}}
USED = [
    *HELLO,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "pong"},
]


def read(note=None, *, strict=False, **body):
    return reading.read(API, {"model": "m", "messages": HELLO, **body}, note, strict=strict)


def failure(*, strict=False, **body):
    return reading.failure(API, {"model": "m", "messages": HELLO, **body}, strict=strict)


def history(*messages):
    return shown(read(messages=list(messages)))


# Required fields


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"messages": HELLO}, "model"),
        ({"model": None, "messages": HELLO}, "model"),
        ({"model": " ", "messages": HELLO}, "model"),
        ({"model": 7, "messages": HELLO}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": "hi"}, "messages"),
        ({"model": "m", "messages": ["hi"]}, "messages[0]"),
        ({"model": "m", "messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "wizard", "content": "hi"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "user", "content": [7]}]}, "messages[0].content[0]"),
        ({"model": "m", "messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"model": "m", "messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"model": "m", "messages": [{"role": "tool", "tool_call_id": "c", "content": {"weird": 1}}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[0].tool_calls[0].function"),
        ({"model": "m", "messages": [{"role": "assistant", "tool_calls": {"id": "c"}}]}, "messages[0].tool_calls"),
        ({"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": 7, "function": None}]}]}, "messages[0].tool_calls[0].id"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_its_field(body, parameter):
    failed = reading.failure(API, body)
    assert failed.parameter == parameter
    assert parameter in failed.message
    assert failed.kind in (ErrorKind.INVALID_REQUEST, ErrorKind.UNSUPPORTED_VALUE)


@pytest.mark.parametrize(
    ("field", "value", "parameter"),
    [
        ("tools", {}, "tools"),
        ("tools", ["ping"], "tools[0]"),
        ("tools", [{"type": "function", "function": "ping"}], "tools[0].function"),
        ("tools", [{"type": "function"}], "tools[0].function"),
        ("tools", [{"type": "function", "function": {}}], "tools[0].function.name"),
        ("tools", [{"type": "function", "function": {"name": "a", "parameters": []}}], "tools[0].function.parameters"),
        ("tools", [{"type": "function", "function": {"name": "a\nb"}}], "tools[0].function.name"),
        ("tools", [{"type": "function", "function": {"name": "a" * 257}}], "tools[0].function.name"),
        ("tools", [{"type": 7}], "tools[0].type"),
        ("tools", [PING, PING], "tools"),
        ("parallel_tool_calls", None, "parallel_tool_calls"),
        ("parallel_tool_calls", "no", "parallel_tool_calls"),
        ("stream", "yes", "stream"),
        ("stream_options", [], "stream_options"),
        ("max_tokens", "many", "max_tokens"),
        ("max_tokens", True, "max_tokens"),
        ("max_tokens", 0, "max_tokens"),
        ("stop", 7, "stop"),
        ("stop", [7], "stop[0]"),
        ("temperature", "hot", "temperature"),
        ("seed", 1.5, "seed"),
        ("logit_bias", [], "logit_bias"),
        ("user", 7, "user"),
        ("n", 0, "n"),
        ("n", 129, "n"),
        ("response_format", "json", "response_format"),
        ("response_format", {"type": "yaml"}, "response_format.type"),
        ("tool_choice", 7, "tool_choice"),
        ("tool_choice", "maybe", "tool_choice"),
    ],
)
def test_a_field_of_the_wrong_type_or_value_is_refused_by_its_name(field, value, parameter):
    assert failure(**{field: value}).parameter == parameter


def test_errors_say_what_was_expected_and_what_came():
    assert failure(stream="yes").message == "Invalid type for 'stream': expected a boolean, but got a string instead."
    assert reading.failure(API, {"model": "m"}).message == "Missing required parameter: 'messages'."


def test_nulls_stand_for_absent_fields():
    optional = ("tools", "tool_choice", "stream", "stream_options", "stop", "max_tokens", "temperature", "response_format", "user", "n")
    assert read(**dict.fromkeys(optional)) == reading.read(API, {"model": "m", "messages": HELLO, **dict.fromkeys(optional)})
    turn = read(**dict.fromkeys(optional))
    assert (turn.tools, turn.stop, turn.max_tokens, turn.sampling) == ((), (), None, {})


# Tools and choice


def test_a_function_tool_keeps_its_name_schema_and_native_form():
    turn = read(tools=[PING, LOOK])
    ping, look = turn.tools
    assert (ping.name, ping.description, ping.kind, ping.strict) == ("ping", "Pings.", ToolKind.FUNCTION, False)
    assert look.parameters == LOOK["function"]["parameters"]
    assert look.strict
    assert ping.native is PING


def test_a_tool_without_description_and_parameters_is_offered_with_an_empty_schema():
    (tool,) = read(tools=[{"type": "function", "function": {"name": "ping"}}]).tools
    assert tool.parameters == {"type": "object", "properties": {}}
    assert tool.description == ""


def test_a_flat_tool_is_read_and_sent_on_in_the_nested_form():
    (tool,) = read(tools=[{"type": "function", "name": "ping", "description": "d"}]).tools
    assert tool.native["function"]["name"] == "ping"


def test_any_visible_name_is_taken_and_the_official_ones_alone_when_strict():
    odd = {"type": "function", "function": {"name": "fs.read/all 猫"}}
    assert read(tools=[odd]).tools[0].name == "fs.read/all 猫"
    assert failure(tools=[odd], strict=True).parameter == "tools[0].function.name"
    assert failure(tools=[{"type": "function", "function": {"name": "a" * 65}}], strict=True).parameter == "tools[0].function.name"


def test_a_custom_tool_takes_one_raw_text():
    (tool,) = read(tools=[PATCH]).tools
    assert (tool.name, tool.kind, tool.format) == ("patch", ToolKind.CUSTOM, {"type": "text"})
    assert tool.parameters["required"] == ["input"]
    assert tool.native["function"]["parameters"] == tool.parameters


def test_the_grammar_of_a_custom_tool_goes_into_its_format_and_native_description():
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a+/"}}
    (tool,) = read(tools=[{"type": "custom", "custom": {"name": "patch", "description": "Patches.", "format": grammar}}]).tools
    assert tool.format == {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}
    assert tool.description == "Patches."
    assert tool.native["function"]["description"] == "Patches.\n\nThe input must match this lark grammar:\nstart: /a+/"


@pytest.mark.parametrize(
    ("form", "parameter"),
    [
        ({"type": "yaml"}, "tools[0].custom.format.type"),
        ({"type": "grammar", "grammar": {"syntax": "ebnf", "definition": "x"}}, "tools[0].custom.format.grammar.syntax"),
        ({"type": "grammar", "grammar": {"syntax": "regex"}}, "tools[0].custom.format.grammar.definition"),
    ],
)
def test_a_custom_format_that_cannot_be_read_is_refused(form, parameter):
    assert failure(tools=[{"type": "custom", "custom": {"name": "patch", "format": form}}]).parameter == parameter


def test_hosted_tools_are_left_out_with_a_warning_and_the_rest_stays():
    notes = Notes()
    turn = read(notes, tools=[{"type": "web_search"}, PING, {"type": "secret_thing"}])
    assert [tool.name for tool in turn.tools] == ["ping"]
    assert notes.of(Noted.PARAMETER_DROPPED) == [
        {"parameter": DroppedParameter.TOOL_WEB_SEARCH},
        {"parameter": DroppedParameter.TOOL_OTHER},
    ]
    assert turn.warnings == ("dropped tools.web_search", "dropped tools.other")
    assert "secret_thing" not in repr(notes)


@pytest.mark.parametrize("choice", ["required", {"type": "web_search"}, {"type": "mcp", "server_label": "x"}])
def test_a_choice_that_forces_a_hosted_tool_is_refused(choice):
    failed = failure(tools=[{"type": "web_search"}], tool_choice=choice)
    assert (failed.kind, failed.parameter) == (ErrorKind.UNSUPPORTED_VALUE, "tool_choice")


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(ChoiceMode.NONE)),
        ("required", ToolChoice(ChoiceMode.REQUIRED)),
        ("any", ToolChoice(ChoiceMode.REQUIRED)),
        ({"type": "required"}, ToolChoice(ChoiceMode.REQUIRED)),
        ({"type": "function", "function": {"name": "ping"}}, ToolChoice(ChoiceMode.NAMED, "ping")),
        ({"type": "function", "name": "ping"}, ToolChoice(ChoiceMode.NAMED, "ping")),
        ({"type": "custom", "custom": {"name": "patch"}}, ToolChoice(ChoiceMode.NAMED, "patch")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "ping"}}]}},
            ToolChoice(ChoiceMode.AUTO, allowed=frozenset({"ping"})),
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "patch"}}, {"type": "web_search"}]},
            },
            ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset({"patch"})),
        ),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, ToolChoice(ChoiceMode.NONE)),
    ],
)
def test_every_form_of_choice(value, choice):
    assert read(tools=[PING, PATCH], tool_choice=value).tool_choice == choice


@pytest.mark.parametrize(
    ("tools", "choice", "parameter"),
    [
        ([], "required", "tool_choice"),
        ([], {"type": "function", "function": {"name": "ping"}}, "tool_choice"),
        ([PING], {"type": "function", "function": {"name": "pong"}}, "tool_choice"),
        ([PING], {"type": "function", "function": {}}, "tool_choice.function.name"),
        ([PING], {"type": "allowed_tools", "allowed_tools": {"tools": [{"function": {"name": "pong"}}]}}, "tool_choice"),
        ([PING], {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}, "tool_choice.allowed_tools"),
    ],
)
def test_a_choice_that_the_tools_cannot_meet_is_refused(tools, choice, parameter):
    assert failure(tools=tools, tool_choice=choice).parameter == parameter


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_harmless_choice_without_tools_is_ignored(choice):
    assert read(tools=[], tool_choice=choice).tools == ()


def test_a_demand_without_tools_waits_where_the_history_has_calls():
    assert read(messages=USED, tool_choice="required").tool_choice.mandatory


def test_parallel_calls_are_on_unless_switched_off():
    assert read(tools=[PING]).parallel_calls
    assert not read(tools=[PING], parallel_tool_calls=False).parallel_calls


# Legacy functions


def test_legacy_functions_are_tools_with_one_call_at_a_time():
    turn = read(functions=[{"name": "ping", "parameters": {"type": "object"}}], function_call={"name": "ping"})
    assert turn.legacy_functions
    assert not turn.parallel_calls
    assert turn.tool_choice == ToolChoice(ChoiceMode.NAMED, "ping")
    assert turn.tools[0].native["type"] == "function"


@pytest.mark.parametrize(("word", "mode"), [("none", ChoiceMode.NONE), ("auto", ChoiceMode.AUTO)])
def test_legacy_choice_words(word, mode):
    assert read(functions=[{"name": "ping"}], function_call=word).tool_choice.mode is mode


def test_errors_in_a_legacy_choice_name_its_own_field():
    assert failure(functions=[{"name": "ping"}], function_call={"name": "pong"}).parameter == "function_call"


def test_tools_and_functions_together_are_refused():
    assert failure(functions=[{"name": "a"}], tools=[PING]).parameter == "functions"


def test_legacy_history_pairs_by_name_and_order():
    turn = read(
        messages=[
            *HELLO,
            {"role": "assistant", "content": None, "function_call": {"name": "ping", "arguments": "{}"}},
            {"role": "function", "name": "ping", "content": "pong"},
            {"role": "assistant", "content": None, "function_call": {"name": "ping", "arguments": '{"n":2}'}},
            {"role": "function", "name": "ping", "content": None},
            {"role": "function", "name": "stray", "content": "x"},
        ]
    )
    calls = [part[1] for _, parts in shown(turn) for part in parts if part[0] == "call"]
    results = [part[1] for _, parts in shown(turn) for part in parts if part[0] == "result"]
    assert results[:2] == calls
    assert results[2] not in calls
    assert turn.legacy_functions


def test_a_history_with_ids_does_not_make_a_request_legacy():
    assert not read(messages=USED).legacy_functions
    assert not read(messages=HELLO, tools=[PING]).legacy_functions


# Messages


def test_every_role_and_its_name():
    turn = read(
        messages=[
            {"role": "system", "content": "s", "name": "boss"},
            {"role": "developer", "content": [{"type": "text", "text": "d"}]},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a"},
            {"role": "tool", "tool_call_id": "c9", "content": "t", "name": "ping"},
        ]
    )
    assert [message.role for message in turn.messages] == [Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT, Role.USER]
    assert turn.messages[0].name == "boss"
    assert turn.messages[4].parts[0].name == "ping"


def test_calls_keep_id_name_and_raw_arguments():
    turn = read(messages=USED)
    call = turn.messages[1].parts[0]
    assert (call.id, call.name, call.arguments.raw) == ("c1", "ping", "{}")


@pytest.mark.parametrize("raw", [None, "", {"a": 1}, '{"a": ', "[1]", 7])
def test_arguments_are_kept_raw_for_the_guard_to_judge(raw):
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "ping", "arguments": raw}}]}
    assert read(messages=[*HELLO, message]).messages[1].parts[0].arguments.raw == raw


def test_an_id_may_be_empty_or_absent():
    calls = [{"id": "", "function": {"name": "a"}}, {"function": {"name": "b"}}]
    assert history(*HELLO, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "", "content": "x"})[1:] == [
        ("assistant", [("call", "", "a", {}), ("call", "", "b", {})]),
        ("user", [("result", "", ["x"])]),
    ]


def test_a_custom_call_carries_its_raw_text():
    message = {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}]}
    call = read(messages=[*HELLO, message]).messages[1].parts[0]
    assert (call.kind, call.arguments.value()) == (ToolKind.CUSTOM, {"input": "*** Begin"})


def test_a_call_without_a_name_becomes_a_record():
    notes = Notes()
    message = {"role": "assistant", "content": "x", "tool_calls": [{"id": "c", "function": {"name": "", "arguments": '{"a":1}'}}]}
    turn = read(notes, messages=[*HELLO, message])
    assert shown(turn)[1] == ("assistant", ["x", '[call without a tool name: "{\\"a\\":1}"]'])
    assert notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.NAMELESS_CALL, "count": 1}]


def test_text_refusal_and_calls_stand_in_order():
    message = {"role": "assistant", "content": "I look.", "refusal": "No.", "tool_calls": USED[1]["tool_calls"]}
    assert history(*HELLO, message)[1] == ("assistant", ["I look.", "No.", ("call", "c1", "ping", {})])


def test_a_refusal_part_is_text():
    assert history(*HELLO, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})[1] == ("assistant", ["No."])


def test_reasoning_in_the_history_is_dropped():
    message = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}],
        "reasoning_content": "hmm",
    }
    assert history(*HELLO, message)[1] == ("assistant", ["a"])


def test_parts_of_a_user_message():
    parts = [
        {"type": "text", "text": "look "},
        {"type": "text", "text": ""},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}, "prompt_cache_breakpoint": {}},
        {"type": "image_url", "image_url": "data:image/png;base64,AA=="},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
        {"type": "hologram", "cube": 1},
    ]
    notes = Notes()
    turn = read(notes, messages=[{"role": "user", "content": parts}])
    assert shown(turn) == [
        (
            "user",
            [
                "look ",
                ("image", "https://x/y.png"),
                ("image", "data:image/png;base64,AA=="),
                ("media", "input_audio"),
                ("media", "file"),
                "[content of type hologram omitted]",
            ],
        )
    ]
    assert turn.messages[0].parts[1].detail == "low"
    assert notes.of(Noted.CONTENT_REPLACED) == [{"kind": ReplacedContent.UNKNOWN_PART, "count": 1}]


def test_results_may_hold_parts_and_images():
    content = [
        {"type": "text", "text": "high "},
        {"type": "text", "text": "4.1 m"},
        {"type": "image_url", "image_url": {"url": "https://x"}},
    ]
    assert history(*USED[:2], {"role": "tool", "tool_call_id": "c1", "content": content})[2] == (
        "user",
        [("result", "c1", ["high ", "4.1 m", ("image", "https://x")])],
    )


def test_system_and_assistant_hold_text_alone():
    image = [{"type": "image_url", "image_url": {"url": "https://x"}}]
    assert history({"role": "system", "content": image}, *HELLO)[0] == ("system", ["[image omitted]"])
    assert history(*HELLO, {"role": "assistant", "content": None, "audio": {"id": "a"}})[1] == ("assistant", ["[audio omitted]"])


@pytest.mark.parametrize("empty", ["", None, [], [{"type": "text", "text": ""}]])
def test_an_empty_assistant_message_is_left_out(empty):
    assert history(*HELLO, {"role": "assistant", "content": empty}, {"role": "user", "content": "b"}) == [
        ("user", ["hello"]),
        ("user", ["b"]),
    ]


def test_an_empty_last_user_message_keeps_the_turn_with_the_user():
    assert history(*HELLO, {"role": "assistant", "content": "a"}, {"role": "user", "content": ""})[-1] == ("user", [""])
    assert history({"role": "assistant", "content": ""}) == [("user", [""])]


def test_a_prefill_stays_the_last_message_with_a_warning_where_tools_are_offered():
    prefill = {"role": "assistant", "content": "Once"}
    assert history(*HELLO, prefill)[-1] == ("assistant", ["Once"])
    assert read(messages=[*HELLO, prefill]).warnings == ()
    assert read(messages=[*HELLO, prefill], tools=[PING]).warnings == ("assistant prefill",)
    assert read(messages=USED[:2], tools=[PING]).warnings == ()


def test_more_tools_than_the_api_takes_are_refused_only_when_strict():
    many = [{"type": "function", "function": {"name": f"t{number}"}} for number in range(129)]
    assert len(read(tools=many).tools) == 129
    assert failure(tools=many, strict=True).parameter == "tools"


def test_lone_surrogates_become_replacement_characters():
    turn = read(messages=[{"role": "user", "content": "a\ud83d"}, {"role": "user", "content": [{"type": "text", "text": "\udc00b"}]}])
    assert shown(turn) == [("user", ["a\ufffd"]), ("user", ["\ufffdb"])]


# Scalars


def test_scalars_land_in_their_places():
    turn = read(stream=True, stream_options={"include_usage": True, "include_obfuscation": True}, max_tokens=5, stop="x", temperature=0)
    assert (turn.stream, turn.include_usage, turn.max_tokens, turn.stop, turn.sampling) == (True, True, 5, ("x",), {"temperature": 0})


def test_usage_is_only_asked_of_a_stream():
    assert not read(stream_options={"include_usage": True}).include_usage


def test_token_limits_in_their_forms():
    assert read(max_tokens=5, max_completion_tokens=9).max_tokens == 9
    assert read(max_tokens=5.0).max_tokens == 5
    assert read(max_tokens=-1).max_tokens is None
    assert failure(max_tokens=-1, strict=True).parameter == "max_tokens"


def test_stop_lists_drop_empty_entries_and_are_short_when_strict():
    assert read(stop=["a", "", "b"]).stop == ("a", "b")
    assert read(stop=list("abcde")).stop == tuple("abcde")
    assert failure(stop=list("abcde"), strict=True).parameter == "stop"


def test_response_formats():
    schema = {"type": "object"}
    native = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    assert read(response_format={"type": "text"}).response_format is None
    assert read(response_format={"type": "json_object"}).response_format == ResponseFormat(None, {"type": "json_object"})
    assert read(response_format=native).response_format == ResponseFormat(schema, native)
    assert read(response_format={"type": "json_object", "schema": schema}).response_format.schema == schema


def test_unknown_fields_travel_with_the_sampling():
    extra = {"top_k": 4, "user": "u", "metadata": {"a": "b"}, "reasoning_effort": "low", "chat_template_kwargs": {"x": 1}, "seed": -3}
    assert read(**extra).sampling == extra


def test_choices_logprobs_and_the_like_pass_without_tools():
    extra = {
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "prediction": {"type": "content"},
        "modalities": ["text", "audio"],
        "audio": {"v": 1},
    }
    assert read(**extra).sampling == extra


@pytest.mark.parametrize("in_play", [{"tools": [PING]}, {"messages": USED}])
def test_they_are_dropped_or_refused_when_tools_are_in_play(in_play):
    notes = Notes()
    turn = read(notes, logprobs=True, top_logprobs=3, web_search_options={}, modalities=["text"], moderation={"a": 1}, **in_play)
    assert turn.sampling == {}
    dropped = [DroppedParameter.LOGPROBS, DroppedParameter.TOP_LOGPROBS, DroppedParameter.WEB_SEARCH_OPTIONS, DroppedParameter.MODERATION]
    assert [note["parameter"] for note in notes.of(Noted.PARAMETER_DROPPED)] == dropped
    assert failure(n=2, **in_play).kind is ErrorKind.UNSUPPORTED_VALUE
    assert failure(modalities=["audio"], **in_play).parameter == "modalities"
    assert read(n=1, logprobs=False, **in_play).warnings == ()


def test_storing_is_dropped_with_tools_and_passes_without():
    assert read(store=True, tools=[PING]).warnings == ("dropped store",)
    assert "store" not in read(store=True, tools=[PING]).sampling
    assert read(store=False, tools=[PING]).warnings == () == read(store=True).warnings
    assert read(store=True).sampling == {"store": True}


def test_what_an_upstream_hung_on_its_call_is_kept_with_it():
    extra = {"google": {"thought_signature": "c2ln"}}

    def kept(value):
        call = {**USED[1]["tool_calls"][0], "extra_content": value}
        return read(messages=[*HELLO, {**USED[1], "tool_calls": [call]}, USED[2]]).messages[1].parts[0].extra

    assert kept(extra) == extra
    assert [kept(odd) for odd in (None, {}, "text", [1])] == [None] * 4


@pytest.mark.parametrize(
    "metadata",
    [{str(number): "v" for number in range(17)}, {"k" * 65: "v"}, {"k": "v" * 513}, {"k": 1}],
)
def test_metadata_is_bounded_only_when_strict(metadata):
    assert read(metadata=metadata).sampling == {"metadata": metadata}
    assert failure(metadata=metadata, strict=True).parameter == "metadata"
    assert read(metadata={"k" * 64: "v" * 512}, strict=True).sampling


def test_more_messages_than_the_api_takes_are_refused():
    assert failure(messages=HELLO * 100_001).parameter == "messages"

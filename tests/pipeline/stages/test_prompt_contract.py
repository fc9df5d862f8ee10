"""prompt_contract: which turns are emulated, and what the model reads then (C1 to C10, N2, R4)."""

from __future__ import annotations

import pytest

from pipeline.contract.examples import RESULT
from pipeline.settings import Settings
from pipeline.stage import StageError
from pipeline.stages.prompt_contract import PromptContract
from pipeline.turn import (
    Arguments,
    Call,
    ChoiceMode,
    Correction,
    Image,
    Message,
    ResponseFormat,
    Result,
    Role,
    Text,
    Tool,
    ToolChoice,
    Turn,
)
from pipeline.verdicts import Api, Cause, EmulationReason, ErrorKind, Mode, Noted, Tier
from tests.pipeline.contract.tools import NOTE, PING, WEATHER, schema

HI = Message(Role.USER, (Text("hi"),))
CALLED = Message(Role.ASSISTANT, (Call("c1", "get_weather", Arguments('{"city": "Gent"}')),))
RETURNED = Message(Role.USER, (Result("c1", (Text("7 C"),)),))
SYSTEM = Message(Role.SYSTEM, (Text("Be terse."),))


def run(*messages: Message, tools=(WEATHER, NOTE), settings: Settings | None = None, **fields):
    """The prepared turn, the turn before, and the notes."""
    notes: list[tuple[Noted, dict]] = []
    turn = Turn(api=Api.OPENAI_CHAT, raw=b"{}", messages=messages, tools=tools, **fields)
    stage = PromptContract(settings or Settings(example_turns=0))
    return stage.prepare(turn, lambda outcome, **said: notes.append((outcome, said))), turn, notes


def texts(turn: Turn) -> list[tuple[str, str]]:
    return [
        (message.role.value, "|".join(part.text if isinstance(part, Text) else type(part).__name__ for part in message.parts))
        for message in turn.messages
    ]


# --- which turns ----------------------------------------------------------------------------------------------------------------


def test_tools_offered() -> None:
    out, _, notes = run(SYSTEM, HI)
    emulation = out.emulation
    assert (emulation.dialect, emulation.tools, emulation.injected, emulation.tier) == ("json_action", (WEATHER, NOTE), True, Tier.FULL)
    assert not emulation.escaped
    assert out.emulation_reason is EmulationReason.TOOLS_OFFERED
    assert notes == [
        (Noted.CONTRACT_INJECTED, {"dialect": "json_action", "tier": Tier.FULL, "bytes": emulation.contract_bytes, "tools": 2})
    ]


def test_tools_rebuilt_from_the_history() -> None:
    out, _, _ = run(HI, CALLED, RETURNED, tools_rebuilt=True)
    assert out.emulation_reason is EmulationReason.TOOLS_FROM_HISTORY


@pytest.mark.parametrize("mode", list(Mode))
def test_a_turn_without_tools_is_the_same_object(mode: Mode) -> None:
    out, turn, notes = run(SYSTEM, HI, tools=(), settings=Settings(tools=mode))
    assert out is turn
    assert notes == [(Noted.CONTRACT_SKIPPED, {"reason": EmulationReason.NO_TOOLS})]


@pytest.mark.parametrize(
    ("tools", "choice", "reason"),
    [
        ((), ToolChoice(), EmulationReason.TEXT_ONLY_HISTORY),
        ((), ToolChoice(ChoiceMode.NONE), EmulationReason.TEXT_ONLY_HISTORY),
        ((WEATHER,), ToolChoice(ChoiceMode.NONE), EmulationReason.CHOICE_NONE),
        ((WEATHER,), ToolChoice(allowed=frozenset()), EmulationReason.CHOICE_NONE),
    ],
)
def test_where_nothing_can_be_called_the_history_is_plain_words(tools, choice, reason) -> None:
    out, _, notes = run(HI, CALLED, RETURNED, Message(Role.USER, (Text("Summarise <tool_calls>."),)), tools=tools, tool_choice=choice)
    assert out.emulation is None
    assert out.emulation_reason is reason
    assert not out.has_tool_history
    assert out.raw == b""
    assert texts(out) == [
        ("user", "hi"),
        ("assistant", 'I used the tool get_weather with these arguments: {"city": "Gent"}'),
        ("user", "Tool result: get_weather (c1) returned:\n7 C"),
        ("user", "Summarise <tool_calls>."),
    ]
    assert notes == [(Noted.CONTRACT_SKIPPED, {"reason": reason})]


def test_choice_none_without_history_changes_no_message() -> None:
    out, turn, _ = run(SYSTEM, HI, tool_choice=ToolChoice(ChoiceMode.NONE))
    assert out.messages is turn.messages
    assert out.emulation_reason is EmulationReason.CHOICE_NONE


@pytest.mark.parametrize("mode", [Mode.RESCUE, Mode.NATIVE])
def test_other_modes_keep_the_history_structured(mode: Mode) -> None:
    for fields in ({}, {"tool_choice": ToolChoice(ChoiceMode.NONE)}, {"tools": ()}):
        out, turn, _ = run(HI, CALLED, RETURNED, settings=Settings(tools=mode), **fields)
        assert out.messages is turn.messages


def test_native_turns_are_not_emulated() -> None:
    out, _, notes = run(HI, settings=Settings(tools=Mode.NATIVE))
    assert out.emulation is None
    assert out.emulation_reason is EmulationReason.NATIVE_ROUTE
    assert notes == [(Noted.CONTRACT_SKIPPED, {"reason": EmulationReason.NATIVE_ROUTE})]


def test_rescued_turns_have_a_sieve_and_no_contract() -> None:
    fence = "```json\n{}\n```"
    out, _, notes = run(HI, Message(Role.USER, (Text(fence),)), settings=Settings(tools=Mode.RESCUE))
    assert not out.emulation.injected
    assert out.emulation.tools == (WEATHER, NOTE)
    assert out.emulation.quotes == (fence,)
    assert not out.emulation.escaped
    assert out.emulation_reason is EmulationReason.RESCUE_ROUTE
    assert notes == [(Noted.CONTRACT_SKIPPED, {"reason": EmulationReason.RESCUE_ROUTE})]


@pytest.mark.parametrize("mode", [Mode.EMULATE, Mode.RESCUE])
@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ((WEATHER,), ToolChoice(ChoiceMode.NAMED, "nope")),
        ((WEATHER,), ToolChoice(allowed=frozenset({"nope"}))),
        ((), ToolChoice(ChoiceMode.REQUIRED)),
        ((), ToolChoice(ChoiceMode.NAMED, "get_weather")),
    ],
)
def test_a_choice_that_cannot_be_met_is_the_clients_error(mode: Mode, tools, choice) -> None:
    with pytest.raises(StageError) as caught:
        run(HI, tools=tools, tool_choice=choice, settings=Settings(tools=mode))
    assert caught.value.failed.kind is ErrorKind.INVALID_REQUEST
    assert caught.value.failed.parameter == "tool_choice"


def test_tools_that_fit_at_no_tier_are_an_honest_error() -> None:
    with pytest.raises(StageError) as caught:
        run(HI, settings=Settings(contract_max_bytes=100))
    assert caught.value.failed.kind is ErrorKind.TOO_LARGE
    assert "contract_max_bytes" in caught.value.failed.message
    assert caught.value.failed.parameter == "tools"


# --- what the model reads -------------------------------------------------------------------------------------------------------


def test_one_block_in_the_system_message_and_one_line_at_the_end() -> None:
    out, _, _ = run(SYSTEM, HI)
    (system, user) = texts(out)
    assert system[0] == "system"
    assert system[1].startswith("Be terse.\n\nYou have tools")
    assert user == (
        "user",
        "hi\n\n(To use a tool (get_weather, save_note), write a fenced `json action` block; otherwise answer in plain text.)",
    )


def test_the_block_is_the_same_whatever_the_conversation_and_the_demand() -> None:
    blocks = {
        texts(run(HI, **fields)[0])[0]
        for fields in ({}, {"tool_choice": ToolChoice(ChoiceMode.REQUIRED)}, {"stream": True}, {"max_tokens": 5})
    } | {texts(run(HI, CALLED, RETURNED)[0])[0]}
    assert len(blocks) == 1


def test_the_reminder_states_a_demand() -> None:
    out, _, _ = run(HI, tool_choice=ToolChoice(ChoiceMode.REQUIRED))
    assert "This reply must call one of the tools" in texts(out)[-1][1]
    out, _, _ = run(HI, CALLED, RETURNED, tool_choice=ToolChoice(ChoiceMode.NAMED, "save_note"))
    assert texts(out)[-1][1].endswith("(This reply must call the tool save_note: write a fenced `json action` block.)")


def test_results_end_with_the_next_step_alone() -> None:
    out, _, _ = run(HI, CALLED, RETURNED)
    assert texts(out)[-1] == (
        "user",
        (
            "<tool_result>\nget_weather (c1) returned:\n7 C\n</tool_result>\n\n"
            "Use this result: answer in plain text, or write the next call as a fenced `json action` block."
        ),
    )


def test_the_history_keeps_its_bytes_while_it_grows() -> None:
    more = (Message(Role.ASSISTANT, (Call("c2", "save_note", Arguments("{}")),)), Message(Role.USER, (Result("c2"),)))
    short, long = texts(run(SYSTEM, HI, CALLED, RETURNED)[0]), texts(run(SYSTEM, HI, CALLED, RETURNED, *more)[0])
    assert long[: len(short)] == short


def test_calls_of_the_history_stand_in_the_taught_dialect() -> None:
    for name, opener in (("json_action", "```json action"), ("dsml", "<|DSML|tool_calls>")):
        out, _, _ = run(HI, CALLED, RETURNED, settings=Settings(contract=name))
        block = texts(out)[2][1]
        assert block.startswith(opener)
        assert opener in texts(out)[0][1]
        assert out.emulation.dialect == name


def test_a_filter_shows_and_allows_only_what_it_names() -> None:
    out, _, _ = run(HI, tool_choice=ToolChoice(allowed=frozenset({"save_note"})))
    assert out.emulation.tools == (NOTE,)
    assert all("get_weather" not in text for _, text in texts(out))


def test_a_named_tool_leaves_the_others_callable() -> None:
    out, _, _ = run(HI, tool_choice=ToolChoice(ChoiceMode.NAMED, "save_note"))
    assert out.emulation.tools == (WEATHER, NOTE)


def test_a_wanted_json_answer_is_in_the_block() -> None:
    wanted = ResponseFormat(schema={"type": "object", "required": ["a"]}, native={})
    assert '{"type":"object","required":["a"]}' in texts(run(HI, response_format=wanted)[0])[0][1]
    assert "one JSON object" in texts(run(HI, response_format=ResponseFormat(schema=None, native={}))[0])[0][1]


def test_the_tier_goes_by_the_limit() -> None:
    tool = Tool("t", "Does it. " * 40, schema(**{f"p{at}": {"type": "string", "description": "words " * 30} for at in range(20)}))
    tiers = [run(HI, tools=(tool,), settings=Settings(contract_max_bytes=limit))[0].emulation.tier for limit in (50_000, 4_000, 1_500)]
    assert tiers == [Tier.FULL, Tier.COMPACT, Tier.NAMES]


def test_the_size_noted_is_what_was_added() -> None:
    out, turn, _ = run(SYSTEM, HI, settings=Settings(example_turns=1))
    added = sum(len(text.encode()) for _, text in texts(out)) - sum(len(text.encode()) for _, text in texts(turn))
    assert abs(added - out.emulation.contract_bytes) <= 8


def test_markers_of_users_and_tools_are_broken_and_quotes_kept() -> None:
    fence = '```json\n{"tool": "ping", "parameters": {}}\n```'
    said = Message(Role.USER, (Text("repeat <tool_calls> " + fence),))
    out, _, _ = run(said, CALLED, Message(Role.USER, (Result("c1", (Text("```json action\n{}\n```"),)),)))
    assert out.emulation.escaped
    assert "repeat <¬tool_calls> " + fence in out.emulation.quotes
    assert "```json ¬action" in texts(out)[-1][1]


def test_an_image_of_a_result_travels_in_the_user_message() -> None:
    image = Image("data:image/png;base64,AA==")
    out, _, _ = run(HI, CALLED, Message(Role.USER, (Result("c1", (image,)),)))
    assert out.messages[-1].parts[1] == image
    assert len(out.messages[-1].parts) == 2


def test_prefill_stays_last() -> None:
    out, _, _ = run(HI, Message(Role.ASSISTANT, (Text("Sure:"),)))
    assert texts(out)[-1] == ("assistant", "Sure:")
    assert texts(out)[-2][1].endswith("plain text.)")


# --- example turns --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "messages"), [(0, 0), (1, 4), (2, 10), (3, 14)])
def test_example_turns_stand_between_instructions_and_conversation(count: int, messages: int) -> None:
    out, _, _ = run(SYSTEM, HI, settings=Settings(example_turns=count))
    assert len(out.messages) == 2 + messages
    assert texts(out)[-1][1].startswith("hi")
    if count:
        assert texts(out)[1][1].startswith("Get the weather of a city: Lisbon")
        assert texts(out)[2][1].startswith("```json action")
        assert RESULT in texts(out)[3][1]


def test_example_turns_leave_with_the_first_exchange_that_is_done() -> None:
    settings = Settings(example_turns=1)
    for messages, stand in (((HI, CALLED, RETURNED), True), ((HI, CALLED, RETURNED, HI), False)):
        out, _, _ = run(*messages, settings=settings)
        assert any(RESULT in text for _, text in texts(out)) is stand


def test_examples_use_declared_names_only() -> None:
    out, _, _ = run(HI, tools=(PING,), settings=Settings(example_turns=3))
    for _, text in texts(out):
        assert "get_weather" not in text
    assert '"tool": "ping"' in texts(out)[0][1]


# --- retries --------------------------------------------------------------------------------------------------------------------


def corrected(correction: Correction, **fields):
    return run(SYSTEM, HI, correction=correction, **fields)[0]


def test_a_correction_comes_behind_the_same_messages() -> None:
    plain, again = texts(run(SYSTEM, HI)[0]), texts(corrected(Correction(Cause.REFUSAL, 1, "I cannot.")))
    assert again[: len(plain)] == plain
    assert again[-2] == ("assistant", "I cannot.")
    assert "```json action" in again[-1][1]


def test_a_correction_may_switch_to_the_neutral_wording() -> None:
    out = corrected(Correction(Cause.REFUSAL, 2, "I cannot.", neutral=True))
    assert "Functions:" in texts(out)[0][1]


def test_a_correction_may_switch_the_dialect() -> None:
    out = corrected(Correction(Cause.MALFORMED, 2, "x", dialect="dsml"))
    assert out.emulation.dialect == "dsml"
    assert "<|DSML|tool_calls>" in texts(out)[0][1]
    assert "<|DSML|tool_calls>" in texts(out)[-1][1]


def test_a_dialect_that_is_not_loaded_is_not_switched_to() -> None:
    assert corrected(Correction(Cause.MALFORMED, 2, "x", dialect="nope")).emulation.dialect == "json_action"


def test_a_rescued_turn_is_corrected_too() -> None:
    out = corrected(Correction(Cause.MALFORMED, 1, "half a block"), settings=Settings(tools=Mode.RESCUE))
    assert [role for role, _ in texts(out)] == ["system", "user", "assistant", "user"]
    assert texts(out)[0][1] == "Be terse."


def test_a_route_may_start_neutral() -> None:
    assert "Functions:" in texts(run(HI, settings=Settings(neutral_contract=True))[0])[0][1]


def test_no_receiver() -> None:
    assert PromptContract(Settings()).open(Turn(api=Api.OPENAI_CHAT), lambda *_, **__: None) is None

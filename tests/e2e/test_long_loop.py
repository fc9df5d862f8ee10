"""Fifty turns of an agent loop, with everything that goes wrong in them, in both protocols and dialects (streaming).

Scripted: a refusal at turns 1, 7 and 30 (hard denials where results were just returned), a malformed block at 12, an empty answer at 20, a
broken call in the client's history from turn 25 on, tools sent only in the first turn, results with errors and 100 KB of text. The loop must
end with the right answer, and attempts, reasons and verdicts in the log add up exactly to what was scripted.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.e2e.test_sdk_loops import anthropic_client, block, openai_client, served  # noqa: F401 - the fixture
from tests.support.scripted_upstream import Script, Seen

TURNS = 50
STEP = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
DENIAL = "I'm sorry, but I don't have access to any tools in this conversation."
FINAL = "All steps are done: 49."
BAD_TURNS = {1: DENIAL, 7: DENIAL, 12: "MALFORMED", 20: "", 30: DENIAL}
BIG = "line of a large result\n" * 4500


class Model:
    """Writes the next step's block; at the scripted turns its first try is bad."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.turn = 1
        self.tried = False

    def __call__(self, seen: Seen) -> Script:
        bad = BAD_TURNS.get(self.turn)
        if bad is not None and not self.tried:
            self.tried = True
            return Script(self._malformed() if bad == "MALFORMED" else bad)
        self.tried = False
        turn = self.turn
        self.turn += 1
        if turn == TURNS:
            return Script(FINAL)
        return Script(f"Step {turn}.\n" + block(self.dialect, ("do_step", {"number": turn})))

    def _malformed(self) -> str:
        whole = block(self.dialect, ("do_step", {"number": 12}))
        return whole.replace("12}}", "12]]") if self.dialect == "json_action" else whole.replace("</|DSML|invoke>", "")


def result_of(turn: int) -> tuple[str, bool]:
    if turn % 10 == 3:
        return "error: the step failed, go on", True
    return (BIG if turn in (15, 28) else f"step {turn} done"), False


@pytest.mark.parametrize("dialect", ["json_action", "dsml"])
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_fifty_turns(served, dialect, api):  # noqa: F811
    running, upstream = served(Model(dialect), 5, f'[defaults]\ncontract = "{dialect}"\ntools_from_history = "results"\n')
    loop = _openai_loop if api == "openai" else _anthropic_loop
    with (openai_client if api == "openai" else anthropic_client)(running) as client:
        text, numbers = loop(client)
    assert text == FINAL
    assert numbers == list(range(1, TURNS))
    turns = running.turns(TURNS, within_s=10)
    assert len(turns) == TURNS
    assert [turn["verdict"] for turn in turns] == ["call"] * (TURNS - 1) + ["text"]
    attempts = [turn["attempts"] for turn in turns]
    assert attempts == [2 if number in BAD_TURNS else 1 for number in range(1, TURNS + 1)]
    causes = Counter(cause for turn in turns for cause in turn["causes"])
    assert causes == {"first": 50, "refusal": 3, "malformed": 1, "empty": 1}
    verdicts = Counter(verdict for turn in turns for verdict in turn["attempt_verdicts"])
    assert verdicts == {"call": 49, "text": 1, "refused": 3, "malformed": 1, "empty": 1}
    assert len(upstream.seen) == sum(attempts) == 55
    assert running.total("toolgraft_attempts_total") == running.total("toolgraft_attempt_verdicts_total") == 55
    assert running.total("toolgraft_turns_started_total") == running.total("toolgraft_turns_total") == 50
    assert running.total("toolgraft_requests_in_flight") == 0


def _openai_loop(client: Any) -> tuple[str, list[int]]:
    tools = [{"type": "function", "function": {"name": "do_step", "description": "Do one step.", "parameters": STEP}}]
    messages: list[Any] = [{"role": "user", "content": "Do all steps."}]
    numbers: list[int] = []
    for turn in range(1, TURNS + 1):
        request: dict[str, Any] = {"model": "m", "messages": messages} | ({"tools": tools} if turn == 1 else {})
        with client.chat.completions.stream(**request) as stream:
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content or "", numbers
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            numbers.append(json.loads(call.function.arguments)["number"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result_of(turn)[0]})
        if turn == 24:
            broken = {"id": "b1", "type": "function", "function": {"name": "do_step", "arguments": '{"number": 24'}}
            messages[-2]["tool_calls"].append(broken)
            messages.append({"role": "tool", "tool_call_id": "b1", "content": "error: bad arguments"})
    raise AssertionError("the loop did not end")


def _anthropic_loop(client: Any) -> tuple[str, list[int]]:
    tools = [{"name": "do_step", "description": "Do one step.", "input_schema": STEP}]
    messages: list[Any] = [{"role": "user", "content": "Do all steps."}]
    numbers: list[int] = []
    for turn in range(1, TURNS + 1):
        request: dict[str, Any] = {"model": "m", "max_tokens": 500, "messages": messages} | ({"tools": tools} if turn == 1 else {})
        with client.messages.stream(**request) as stream:
            message = stream.get_final_message()
        uses = [one for one in message.content if one.type == "tool_use"]
        if not uses:
            return "".join(one.text for one in message.content if one.type == "text"), numbers
        content: list[Any] = [one.model_dump(exclude_none=True, include={"type", "text", "id", "name", "input"}) for one in message.content]
        results = []
        for use in uses:
            numbers.append(use.input["number"])
            text, is_error = result_of(turn)
            results.append({"type": "tool_result", "tool_use_id": use.id, "content": text, "is_error": is_error})
        if turn == 24:
            content.append({"type": "tool_use", "id": "b1", "name": "do_step", "input": '{"number": 24'})
            results.append({"type": "tool_result", "tool_use_id": "b1", "content": "error: bad arguments", "is_error": True})
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    raise AssertionError("the loop did not end")

"""The input tokens of a turn (AR15)."""

import msgspec

from pipeline.protocols.count_tokens import count
from pipeline.turn import Emulation, Turn
from pipeline.verdicts import Api
from tests.support.requests_read import case_lines, read

HELLO = [{"role": "user", "content": "hi"}]
TOOL = {"name": "ping", "description": "word " * 40, "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}


def tokens(**body):
    return count(read(Api.ANTHROPIC_MESSAGES, {"model": "m", "messages": HELLO, **body}, count_only=True))


def test_system_messages_and_tools_all_count():
    alone = tokens()
    assert 0 < alone < 10
    assert tokens(system="word " * 100) >= alone + 100
    assert tokens(tools=[TOOL]) >= alone + 50
    assert tokens(messages=[{"role": "user", "content": "word " * 100}]) >= alone + 100


def test_calls_results_and_pictures_count():
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ping", "input": {"text": "word " * 100}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "word " * 100}]}
    image = {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}
    assert tokens(messages=[*HELLO, called]) >= 110
    assert tokens(messages=[*HELLO, called, result]) >= 220
    assert tokens(messages=[*HELLO, image]) >= 1000


def test_tools_that_the_contract_spelled_out_do_not_count_twice():
    turn = read(Api.ANTHROPIC_MESSAGES, {"model": "m", "messages": HELLO, "tools": [TOOL]}, count_only=True)
    told = msgspec.structs.replace(turn, emulation=Emulation("json_action", turn.tools))
    assert count(told) < count(turn)


def test_nothing_counts_as_one():
    assert count(Turn(Api.OPENAI_CHAT)) == 1


def test_the_counting_case():
    (case,) = [case for case in case_lines("exchanges.jsonl") if case["stage"] == "endpoint"]
    turn = read(Api.ANTHROPIC_MESSAGES, case["request"], count_only=True)
    assert count(turn) > next(check["value"] for check in case["checks"] if check["path"] == "input_tokens")

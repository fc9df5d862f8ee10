"""Behind a block that is too large to hold, everything is text (S3, S14): nothing that is quoted in it runs, at any cut."""

from __future__ import annotations

import pytest

from pipeline.dialects.options import ParserOptions
from pipeline.dialects.registry import load
from pipeline.events import BlockSeen, CallDone, TextDelta
from pipeline.sieve.sieve import Sieve
from pipeline.verdicts import BlockOutcome, FinishReason

CALL = '<|DSML|tool_calls><|DSML|invoke name="x"></|DSML|invoke></|DSML|tool_calls>'
ACTION = '```json action\n{"tool": "x", "parameters": {}}\n```'


@pytest.mark.parametrize(
    "text",
    [
        '<|DSML|tool_calls><|DSML|invoke name="look_up"></|DSML|invoke><|DSML|invoke name="x"></|DSML|invoke></|DSML|tool_calls>',
        (
            f'<|DSML|tool_calls><|DSML|invoke name="save"><|DSML|parameter name="t"><![CDATA[{"a" * 80}\n{CALL}\n{ACTION}]]></|DSML|parameter>'
            "</|DSML|invoke></|DSML|tool_calls> and more \n"
        ),
        f'{ACTION}\nthen\n```json action\n{{"tool": "save", "parameters": {{"t": "{"a" * 80} {CALL}"}}}}\n```\n{ACTION}',
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 7, 10_000])
def test_nothing_behind_an_oversize_block_runs(text, chunk):
    sieve = Sieve(load(("json_action", "dsml")), ParserOptions(max_block_chars=60))
    events = [event for at in range(0, len(text), chunk) for event in sieve.feed(text[at : at + chunk])]
    events += sieve.close(FinishReason.STOP)
    calls = [event.name for event in events if isinstance(event, CallDone)]
    assert calls == (["x"] if text.startswith(ACTION) else [])
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    whole = text[len(ACTION) :] if calls else text
    assert shown == whole.strip() if calls else shown.rstrip() == whole.rstrip()
    assert BlockOutcome.OVERSIZE in [event.outcome for event in events if isinstance(event, BlockSeen)]

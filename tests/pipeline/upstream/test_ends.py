"""How a Messages upstream's own words for an end come back (AN05)."""

from __future__ import annotations

import json

import pytest

from pipeline.events import Finish
from pipeline.settings import UpstreamTraits
from pipeline.verdicts import Api, FinishReason
from tests.support.reading import read

MESSAGES = UpstreamTraits(protocol=Api.ANTHROPIC_MESSAGES)
DETAILS = {"type": "refusal", "category": "bio", "explanation": "no"}


def ended(**delta: object) -> Finish:
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 0}}},
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    whole = json.dumps({"type": "message", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}, **delta})
    streamed, plain = read([stream.encode()], MESSAGES).end, read([whole.encode()], MESSAGES).end
    assert isinstance(streamed, Finish) and streamed == plain
    return streamed


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.CONTEXT_WINDOW),
        ("pause_turn", FinishReason.STOP),
    ],
)
def test_reasons(reason: str, finish: FinishReason):
    assert (ended(stop_reason=reason).reason, ended(stop_reason=reason).stop_details) == (finish, None)


def test_what_is_said_of_a_refusal_is_kept():
    end = ended(stop_reason="refusal", stop_details=DETAILS)
    assert (end.reason, end.stop_details) == (FinishReason.CONTENT_FILTER, DETAILS)
    assert ended(stop_reason="refusal", stop_details="odd").stop_details is None

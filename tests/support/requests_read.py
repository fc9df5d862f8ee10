"""Shared by the tests of request reading: a request read by one protocol, its error, and the notes it left."""

from pathlib import Path

import pytest

from pipeline import json_values
from pipeline.protocols.anthropic_messages.read import read_request as read_messages
from pipeline.protocols.openai_chat.read import read_request as read_chat
from pipeline.protocols.openai_responses.read import read_request as read_responses
from pipeline.stage import StageError
from pipeline.turn import Call, Image, Media, Result, Text, Turn
from pipeline.verdicts import Api

CASES = Path(__file__).parents[1] / "cases"
READERS = {Api.OPENAI_CHAT: read_chat, Api.ANTHROPIC_MESSAGES: read_messages, Api.OPENAI_RESPONSES: read_responses}


class Notes(list):
    """A note that remembers: (outcome, fields) pairs."""

    def __call__(self, outcome, **fields):
        self.append((outcome, fields))

    def of(self, outcome):
        return [fields for seen, fields in self if seen is outcome]


def read(api, body, note=None, *, strict=False, **turn):
    return READERS[api](Turn(api=api, body=body, **turn), Notes() if note is None else note, strict=strict)


def failure(api, body, **options):
    with pytest.raises(StageError) as caught:
        read(api, body, **options)
    return caught.value.failed


def shown(turn):
    """The messages in short: role, then each part: a text as it is, else a tuple that starts with its kind."""
    return [(message.role.value, [_part(part) for part in message.parts]) for message in turn.messages]


def _part(part):
    match part:
        case Text():
            return part.text
        case Image():
            return ("image", part.url)
        case Media():
            return ("media", part.kind)
        case Call():
            return ("call", part.id, part.name, part.arguments.value())
        case Result():
            return ("result", part.call_id, [_part(inner) for inner in part.content])


def case_lines(name):
    return [json_values.loads(line) for line in (CASES / name).read_bytes().splitlines() if line.strip()]

"""Does an upstream take a body as it came, by its flags (U12)? Flags that protocol or configuration leave open never stand in the way.

In: a turn of the upstream's own protocol, without tools, and the traits. Out: yes or no. Promise: yes for every body where no flag says
otherwise; what `fold` and the request writers would bend is found here by the same flags.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.settings import UpstreamTraits
from pipeline.turn import Image, Media, Role, Turn
from pipeline.upstream.chat_request import OWN_FIELDS, STANDARD_FIELDS
from pipeline.verdicts import Api

_INSTRUCTIONS = frozenset({Role.SYSTEM, Role.DEVELOPER})


def takes_fields(body: Mapping[str, object], traits: UpstreamTraits) -> bool:
    """Whether every request field is one that this upstream takes."""
    if traits.protocol is not Api.OPENAI_CHAT:
        return True
    if not traits.stream_options and "stream_options" in body:
        return False
    if not traits.reasoning_effort and "reasoning_effort" in body:
        return False
    return traits.extra_fields or all(key in OWN_FIELDS or key in STANDARD_FIELDS for key in body)


def takes_messages(turn: Turn, traits: UpstreamTraits) -> bool:
    """Whether the roles, their order and the kinds of parts are such that this upstream takes them."""
    roles = [message.role for message in turn.messages]
    if not _takes_roles(roles, traits):
        return False
    if not traits.null_content and _has_null_content(turn.body):
        return False
    if traits.images and traits.files is not False:
        return True
    parts = [part for message in turn.messages for part in message.parts]
    return (traits.images or not any(isinstance(part, Image) for part in parts)) and (
        traits.files is not False or not any(isinstance(part, Media) for part in parts)
    )


def _takes_roles(roles: list[Role], traits: UpstreamTraits) -> bool:
    if not traits.system_role and not _INSTRUCTIONS.isdisjoint(roles):
        return False
    if not traits.developer_role and Role.DEVELOPER in roles:
        return False
    if traits.system_once and not _INSTRUCTIONS.isdisjoint(roles[1:]):
        return False
    if not traits.alternate_roles:
        return True
    spoken = roles[1:] if roles[0] in _INSTRUCTIONS else roles
    return spoken == [(Role.USER, Role.ASSISTANT)[at % 2] for at in range(len(spoken))]


def _has_null_content(body: Mapping[str, object]) -> bool:
    messages = body.get("messages")
    return isinstance(messages, list) and any(isinstance(message, dict) and message.get("content") is None for message in messages)

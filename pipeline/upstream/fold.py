"""Messages bent to what one upstream takes (U12): flags in, messages out, no protocol in sight.

In: a turn's messages. Out: messages whose roles, order and kinds of parts this upstream accepts. Promise: no word is lost: what cannot
stay where it is moves into the nearest user message, what cannot be shown leaves a stated placeholder and is counted, or is refused where
that is wanted (E-image, AR09). Nothing to bend: the same parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pipeline.events import Failed
from pipeline.protocols import placeholders
from pipeline.protocols.collector import Collector
from pipeline.settings import UpstreamTraits
from pipeline.stage import StageError
from pipeline.turn import Call, Image, Media, Message, Part, Result, Role, Text, text_of
from pipeline.verdicts import Api, ErrorKind, ReplacedContent

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)
"""A data: URL up to its base64 text; group 1 is the media type."""
_OPENING = "(The conversation begins with the assistant.)"

_BENT_BY_NAME = ("system_role", "developer_role", "null_content")
_BENT_TO_NAME = ("system_once", "alternate_roles")


def bent(traits: UpstreamTraits, without: frozenset[str]) -> UpstreamTraits:
    """The traits as learned: a shape of messages that was refused (`failures`) counts like a flag."""
    learned = {name: False for name in _BENT_BY_NAME if name in without} | {name: True for name in _BENT_TO_NAME if name in without}
    return msgspec.structs.replace(traits, **learned) if learned else traits


def fold(messages: Iterable[Message], traits: UpstreamTraits, api: Api, lost: Collector) -> list[Message]:
    """The messages of a request in this protocol for this upstream; `lost` hears of content that it does not take.

    Raises StageError where such content is refused: a document from a Messages client (AR09), or any with `refuse_media`.
    """
    media = _Media(traits, api, lost)
    shown = [_shown(message, traits, media) for message in messages]
    kept = [message for message in shown if message.parts]
    if shown and not shown[-1].parts:
        kept.append(Message(shown[-1].role, (Text(""),)))  # an empty last word is still a turn
    if traits.system_once or not traits.system_role or traits.alternate_roles:
        kept = _one_system(kept)
    if not traits.system_role:
        kept = _system_into_user(kept)
    if traits.alternate_roles:
        kept = merged(kept)
        first = 1 if kept and kept[0].role is Role.SYSTEM else 0
        if first < len(kept) and kept[first].role is Role.ASSISTANT:
            kept.insert(first, Message(Role.USER, (Text(_OPENING),)))
    return kept


def merged(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role as one message, their parts in order. A blank line parts their texts, so that no marker forms across the border."""
    out: list[Message] = []
    for message in messages:
        if out and out[-1].role is message.role:
            before, behind = out[-1].parts, message.parts
            apart = (Text("\n\n"),) if before and behind and isinstance(before[-1], Text) and isinstance(behind[0], Text) else ()
            out[-1] = Message(message.role, (*before, *apart, *behind), out[-1].name)
        else:
            out.append(message)
    return out


def _shown(message: Message, traits: UpstreamTraits, media: _Media) -> Message:
    """The message with a role and parts that can be sent; the same object where nothing changes."""
    role = Role.SYSTEM if message.role is Role.DEVELOPER and not traits.developer_role else message.role
    parts = tuple(new for part in message.parts if (new := _part(part, media, message.role)) is not None)
    same = role is message.role and len(parts) == len(message.parts) and all(map(_is, parts, message.parts))
    return message if same else Message(role, parts, message.name)


def _is(one: object, other: object) -> bool:
    return one is other


def _part(part: Part, media: _Media, role: Role) -> Part | None:
    if isinstance(part, Text):
        return part if part.text else None
    if isinstance(part, Image | Media):
        return media.shown(part, role)
    if isinstance(part, Result):
        content = tuple(new for one in part.content if isinstance(new := _part(one, media, Role.USER), Text | Image | Media))
        return (
            part
            if len(content) == len(part.content) and all(map(_is, content, part.content))
            else msgspec.structs.replace(part, content=content)
        )
    return part


class _Media:
    """What becomes of images, audio and files on their way to one upstream."""

    __slots__ = ("_api", "_files", "_lost", "_traits")

    def __init__(self, traits: UpstreamTraits, api: Api, lost: Collector) -> None:
        self._traits = traits
        self._api = api
        self._lost = lost
        self._files = traits.files if traits.files is not None else traits.protocol is Api.ANTHROPIC_MESSAGES

    def shown(self, part: Image | Media, role: Role) -> Text | Image | Media:
        """The part, or its placeholder. Raises StageError."""
        if role is Role.USER and (self._traits.images if isinstance(part, Image) else self._takes(part)):
            return part
        kind, what = _kind_of(part)
        if self._traits.refuse_media or (kind is ReplacedContent.DOCUMENT and self._api is Api.ANTHROPIC_MESSAGES):
            words = f"{what} blocks need an upstream that takes them; the one for this model does not."
            field = "input" if self._api is Api.OPENAI_RESPONSES else "messages"
            raise StageError(Failed(ErrorKind.UNSUPPORTED_VALUE, words, parameter=field))
        self._lost.replace(kind)
        return Text(placeholders.omitted(part.kind if isinstance(part, Media) else what))

    def _takes(self, part: Media) -> bool:
        """Messages takes documents that come with their data, and nothing else of this kind."""
        return self._files and (self._traits.protocol is not Api.ANTHROPIC_MESSAGES or data_url(part) is not None)


def data_url(part: Media) -> str | None:
    """The data: URL of a file that comes with its data."""
    file = part.part.get("file")
    data = file.get("file_data") if isinstance(file, Mapping) else None
    return data if isinstance(data, str) and DATA_URL.match(data) else None


def _kind_of(part: Image | Media) -> tuple[ReplacedContent, str]:
    if isinstance(part, Image):
        return ReplacedContent.IMAGE, "image"
    return (ReplacedContent.DOCUMENT, "document") if part.kind == "file" else (ReplacedContent.AUDIO, "audio")


def _one_system(messages: Sequence[Message]) -> list[Message]:
    """All leading system messages as one; a later one speaks from the user's side."""
    leading = 0
    while leading < len(messages) and messages[leading].role in (Role.SYSTEM, Role.DEVELOPER):
        leading += 1
    out: list[Message] = []
    if leading:
        texts = [text_of(message.parts) for message in messages[:leading]]
        out.append(Message(Role.SYSTEM, (Text("\n\n".join(texts)),)))
    for message in messages[leading:]:
        if message.role in (Role.SYSTEM, Role.DEVELOPER):
            out.append(Message(Role.USER, (Text(f"System message: {text_of(message.parts)}"),)))
        else:
            out.append(message)
    return out


def _system_into_user(messages: Sequence[Message]) -> list[Message]:
    """The system message at the head of the first user message."""
    if not messages or messages[0].role is not Role.SYSTEM:
        return list(messages)
    system, *rest = messages
    head = Text(text_of(system.parts) + "\n\n")
    if rest and rest[0].role is Role.USER and not any(isinstance(part, Call | Result) for part in rest[0].parts):
        return [Message(Role.USER, (head, *rest[0].parts), rest[0].name), *rest[1:]]
    return [Message(Role.USER, (Text(text_of(system.parts)),)), *rest]

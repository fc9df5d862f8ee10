"""The stage that speaks to an upstream: writes its request, reads its answer, names its failures.

In: a prepared turn and the traits of one upstream. Out: an `UpstreamRequest`, a `Reader` of the answer's bytes, a `Failed` for a
status that is no success. It shapes nothing on the way down and stays out of the events' way: the engine asks it directly.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import json_values
from pipeline.events import Failed
from pipeline.protocols.collector import Collector
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stage import Note, Reader, Receiver, UpstreamRequest
from pipeline.turn import Turn
from pipeline.upstream import failures
from pipeline.upstream.chat_reader import ChatReader
from pipeline.upstream.chat_request import chat_body
from pipeline.upstream.messages_reader import MessagesReader
from pipeline.upstream.messages_request import VERSION_HEADER, messages_body
from pipeline.verdicts import Api, Mode


class Upstream:
    """Chat Completions and Messages upstreams, by the traits' protocol."""

    name = "upstream"
    per_attempt = False

    def __init__(self, settings: Settings) -> None:
        """Take the route's settings. Calls come whole (E4) unless arguments are to stream, or the route only translates."""
        self._mode = settings.tools
        self._live = settings.stream_arguments or settings.tools is Mode.NATIVE

    def prepare(self, turn: Turn, note: Note) -> Turn:  # noqa: ARG002 - the shape of a stage
        """Change nothing."""
        return turn

    def open(self, turn: Turn, note: Note) -> Receiver | None:  # noqa: ARG002 - the shape of a stage
        """Stay out of the events' way."""
        return None

    def build(self, turn: Turn, traits: UpstreamTraits, without: frozenset[str]) -> UpstreamRequest:
        """Write the request for this upstream, leaving out the optional fields, and bending the shapes, named in `without`.

        Raises StageError for what this upstream cannot be asked: documents it does not take (AR09), several choices (CR08).
        """
        lost = Collector()
        headers: tuple[tuple[str, str], ...] = ()
        if traits.protocol is Api.ANTHROPIC_MESSAGES:
            path, body = "/messages", messages_body(turn, traits, without, self._mode, lost)
            betas = turn.headers.get("anthropic-beta")
            headers = (VERSION_HEADER, ("anthropic-beta", betas)) if betas else (VERSION_HEADER,)
        else:
            path, body = "/chat/completions", chat_body(turn, traits, without, self._mode, lost)
        return UpstreamRequest(path, json_values.dumps_bytes(body), turn.stream, headers, lost.dropped, lost.replaced)

    def read(self, turn: Turn, traits: UpstreamTraits, content_type: str, note: Note) -> Reader:  # noqa: ARG002 - U11: bytes decide
        """Read an answer with status 200. Its shape is told from its bytes; the header is not believed."""
        reader = MessagesReader if traits.protocol is Api.ANTHROPIC_MESSAGES else ChatReader
        return reader(turn, traits, note, live=self._live)

    def failure(self, traits: UpstreamTraits, status: int, headers: Mapping[str, str], body: bytes) -> Failed:
        """Say what an answer with another status means."""
        return failures.from_status(traits, status, headers, body)

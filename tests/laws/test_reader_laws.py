"""Laws of everything that reads an upstream's bytes: any bytes, any cuts, the same events, one End, no exception."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Failed, Finish
from pipeline.protocols.sse import SseReader
from pipeline.settings import Settings, UpstreamTraits
from pipeline.stages.upstream import Upstream
from pipeline.turn import Turn
from pipeline.upstream.surrogates import HalfPairs
from pipeline.verdicts import Api
from tests.cases.upstream_faults import FAULTS
from tests.support.reading import Gathered, read

BODIES = [fault.body for fault in FAULTS]
FRAGMENTS = [
    *(line for body in BODIES for line in body.split(b"\n")),
    b"\n", b"\n\n", b"\r", b"\r\n", b"data:", b"data: ", b"data: [DONE]\n\n", b"event: error\n", b": c\n", b"\xef\xbb\xbf", b"{", b"}", b"[", b"<",
    b'"', b"\\ud83c", b"\xf0\x9f", b"null", b"\x00", b" ",
]  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
# Frames with the right keys and any values under them: what type checks forget.
KEYS = [
    "choices", "delta", "message", "content", "text", "reasoning_content", "reasoning_details", "refusal", "tool_calls", "function_call", "function",
    "name", "arguments", "id", "index", "finish_reason", "usage", "prompt_tokens", "prompt_tokens_details", "error", "code", "type", "detail", "done",
    "x_groq", "object", "content_block", "partial_json", "input", "stop_reason", "thinking", "metadata", "raw",
]  # fmt: skip
typed = st.sampled_from(
    ["text", "thinking", "tool_use", "message", "content_block_start", "content_block_delta", "content_block_stop", "error"]
)
shaped = st.recursive(
    json_values | typed,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A body of the fault table with a slice cut out, repeated or replaced."""
    body = draw(st.sampled_from(BODIES))
    first, last = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
    middle = draw(st.sampled_from([b"", body[first:last] * 2]) | st.sampled_from(FRAGMENTS) | st.binary(max_size=6))
    return body[:first] + middle + body[last:]


shaped_body = st.lists(st.dictionaries(st.sampled_from(KEYS), shaped, max_size=5), max_size=4).map(
    lambda frames: "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode()
)
bodies = (
    st.binary(max_size=200)
    | st.lists(st.sampled_from(FRAGMENTS), max_size=20).map(b"".join)
    | mutated()
    | shaped_body
    | shaped.map(lambda value: json.dumps(value, indent=1).encode())
)
cut_points = st.lists(st.integers(0, 4000), max_size=8)
upstreams = st.builds(UpstreamTraits, protocol=st.sampled_from([Api.OPENAI_CHAT, Api.ANTHROPIC_MESSAGES]), lenient_end=st.booleans())


def cut(body: bytes, points: list[int]) -> list[bytes]:
    edges = [0, *sorted(point % (len(body) + 1) for point in points), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def same(one: Gathered, other: Gathered) -> None:
    assert (one.text, one.reasoning, one.calls, one.blocks, one.live) == (
        other.text,
        other.reasoning,
        other.calls,
        other.blocks,
        other.live,
    )
    assert (one.end, one.skipped) == (other.end, other.skipped)


@settings(max_examples=400, deadline=None)
@given(bodies, cut_points, upstreams, st.booleans())
def test_any_bytes_at_any_cuts_give_the_same_events_and_one_end(body: bytes, points: list[int], traits: UpstreamTraits, live: bool):
    chosen = Settings(stream_arguments=live)
    whole = read([body], traits, settings=chosen)
    same(whole, read(cut(body, points), traits, settings=chosen))
    same(whole, read([bytes([one]) for one in body], traits, settings=chosen))
    assert isinstance(whole.end, Finish | Failed)
    whole.text.encode()
    whole.reasoning.encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join) | st.binary(max_size=120), cut_points, st.integers(1, 60))
def test_server_sent_events_do_not_depend_on_the_cuts(body: bytes, points: list[int], limit: int):
    found = []
    for pieces in ([body], cut(body, points), [bytes([one]) for one in body]):
        reader = SseReader(limit)
        frames = [frame for piece in pieces for frame in reader.feed(piece)]
        found.append((frames + reader.close(), reader.overflowed))
    assert found[0] == found[1] == found[2]
    assert all(len(data) <= limit for _, data in found[0][0])


@settings(max_examples=200, deadline=None)
@given(
    upstreams,
    st.integers(200, 599),
    st.dictionaries(st.sampled_from(["retry-after", "content-type", "retry-after-ms"]), st.text(max_size=9)),
    bodies,
)
def test_any_error_body_has_a_meaning(traits: UpstreamTraits, status: int, headers: dict[str, str], body: bytes):
    failed = Upstream(Settings()).failure(traits, status, headers, body)
    assert failed.message
    failed.message.encode()
    assert "\n" not in failed.message
    assert failed.retry_after is None or failed.retry_after.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=30), cut_points)
def test_halves_of_pairs_meet_whatever_the_cut(text: str, points: list[int]):
    units = text.encode("utf-16-le", "surrogatepass")
    single = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    halves = HalfPairs()
    got = "".join(halves.feed(piece) for piece in single) + halves.close()
    assert got == units.decode("utf-16-le", "replace")


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=300), st.integers(1, 9), cut_points)
def test_text_arrives_character_for_character(text: str, size: int, points: list[int]):
    text = text.encode("utf-8", "replace").decode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    body = "".join(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    got = read(cut(body.encode(), points), turn=Turn(Api.OPENAI_CHAT, stream=True))
    assert got.text == text

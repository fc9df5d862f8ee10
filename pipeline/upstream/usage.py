"""Token counts as upstreams report them, in one sense: input includes what was cached (X40, X41, U05).

In: a usage object of any of the known spellings. Out: Usage, or None where it counts nothing. `total_tokens` is never believed.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.turn import Usage

_LARGEST = 1 << 53


def chat_usage(usage: object) -> Usage | None:
    """OpenAI's object and its relatives: DeepSeek's cache hits, Moonshot's and Groq's places, Messages names behind a Chat API."""
    if not isinstance(usage, Mapping):
        return None
    read = _first(usage, "prompt_tokens", "input_tokens")
    written = _first(usage, "completion_tokens", "output_tokens")
    if not read and not written:
        return None
    reading = _inner(usage, "prompt_tokens_details", "input_tokens_details")
    writing = _inner(usage, "completion_tokens_details", "output_tokens_details")
    cached = _first(reading, "cached_tokens") or _first(usage, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
    stored = _first(reading, "cache_write_tokens", "cache_creation_tokens") or _first(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(cached, read),
        cache_write_tokens=min(stored, read),
        reasoning_tokens=_first(writing, "reasoning_tokens") or _first(usage, "reasoning_tokens"),
    )


def messages_usage(usage: Mapping[str, object]) -> Usage | None:
    """Anthropic's object, whose input leaves the cache out."""
    fresh, written = _first(usage, "input_tokens"), _first(usage, "output_tokens")
    cached, stored = _first(usage, "cache_read_input_tokens"), _first(usage, "cache_creation_input_tokens")
    if not (fresh or written or cached or stored):
        return None
    return Usage(input_tokens=fresh + cached + stored, output_tokens=written, cached_tokens=cached, cache_write_tokens=stored)


def ollama_usage(frame: Mapping[str, object]) -> Usage | None:
    """The counts of Ollama's own last line."""
    read, written = _first(frame, "prompt_eval_count"), _first(frame, "eval_count")
    return Usage(input_tokens=read, output_tokens=written) if read or written else None


def _first(usage: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST:
            return int(value)
    return 0


def _inner(usage: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        value = usage.get(name)
        if isinstance(value, Mapping):
            return value
    return {}

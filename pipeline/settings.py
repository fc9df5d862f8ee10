"""What a route and an upstream are set to: plain frozen values that `proxy/config.py` reads and stages are built from.

Each default is SPEC section 11's. Units stand in the names: `_s` seconds, `_bytes` bytes, `_chars` characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from pipeline.verdicts import Api, Mode


class UpstreamTraits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one upstream takes and how it ends a stream (U12): flags, never code.

    `files` is None where the protocol decides: Messages takes files, Chat does not. `own_key` is set by the transport's configuration: the upstream is asked with the proxy's own key, so a 401 is ours (X23).
    """

    name: str = "default"
    protocol: Api = Api.OPENAI_CHAT
    system_role: bool = True
    developer_role: bool = False
    system_once: bool = False
    alternate_roles: bool = False
    null_content: bool = True
    stream_options: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    parallel_tool_calls: bool = True
    images: bool = True
    files: bool | None = None
    refuse_media: bool = False
    reasoning_effort: bool = True
    extra_fields: bool = True
    lenient_end: bool = False
    own_key: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One route's behaviour. Stages are constructed from it once and decide their branches then."""

    tools: Mode = Mode.EMULATE
    contract: str = "json_action"
    dialects: tuple[str, ...] = ("json_action", "dsml")
    tolerance: Literal["narrow", "wide"] = "narrow"
    unknown_tools: Literal["forward", "retry", "text"] = "forward"
    tools_from_history: Literal["results", "always", "never"] = "results"
    stream_arguments: bool = False
    text_before_call: Literal["stream", "hold"] = "stream"
    required_unmet: Literal["text", "error"] = "text"
    example_turns: int = 1
    neutral_contract: bool = False
    max_retries: int = 2
    turn_deadline_s: float = 600.0
    first_byte_s: float = 300.0
    idle_s: float = 300.0
    hold_chars: int = 400
    hold_s: float = 8.0
    keep_alive_first_s: float = 10.0
    keep_alive_s: float = 12.0
    silence_block_s: float = 60.0
    max_block_bytes: int = 4 << 20
    max_tag_chars: int = 512
    contract_max_bytes: int = 96 << 10
    usage: Literal["upstream", "client"] = "upstream"
    strict_params: bool = False
    answer_model: Literal["requested", "upstream"] = "requested"
    reasoning_key: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    retry_announcements: bool = False
    stages: Mapping[str, Mapping[str, object]] = {}

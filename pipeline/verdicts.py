"""Every enum of the product: the words that code, logs, metrics and docs share. One word per idea, nothing else in here."""

from __future__ import annotations

from enum import StrEnum


class Api(StrEnum):
    """The protocol a client speaks."""

    OPENAI_CHAT = "openai_chat"
    ANTHROPIC_MESSAGES = "anthropic_messages"
    OPENAI_RESPONSES = "openai_responses"


class Mode(StrEnum):
    """What a route does with tools (SPEC section 1)."""

    EMULATE = "emulate"
    RESCUE = "rescue"
    NATIVE = "native"


class HistoryState(StrEnum):
    """Where the conversation stands, told from the messages alone (N4)."""

    AWAITING_DECISION = "awaiting_decision"
    CALLS_PENDING = "calls_pending"
    RESULTS_RECEIVED = "results_received"
    ANSWERED = "answered"


class Tier(StrEnum):
    """How much of each tool the contract shows (C9)."""

    FULL = "full"
    COMPACT = "compact"
    NAMES = "names"


class Verdict(StrEnum):
    """How a turn, or an attempt, ended. Exactly one each."""

    CALL = "call"
    TEXT = "text"
    REFUSED = "refused"
    MISSING_CALL = "missing_call"
    MALFORMED = "malformed"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    TRUNCATED = "truncated"
    NATIVE_CALL = "native_call"
    EMPTY = "empty"
    PASSED = "passed"
    UPSTREAM_FAILED = "upstream_failed"
    CLIENT_GONE = "client_gone"
    REJECTED = "rejected"


class Cause(StrEnum):
    """Why an upstream request was sent."""

    FIRST = "first"
    REFUSAL = "refusal"
    SOFT_REFUSAL = "soft_refusal"
    MISSING_CALL = "missing_call"
    WRONG_TOOL = "wrong_tool"
    MALFORMED = "malformed"
    EMPTY = "empty"
    FAILOVER = "failover"
    TRANSPORT = "transport"
    DROPPED_PARAMETER = "dropped_parameter"


class RetryResult(StrEnum):
    """What a retry brought."""

    RECOVERED = "recovered"
    REFUSED_AGAIN = "refused_again"
    EXHAUSTED = "exhausted"
    UPSTREAM_FAILED = "upstream_failed"


class SkipReason(StrEnum):
    """Why a retry that was due did not happen (R5)."""

    OFF = "off"
    BUDGET = "budget"
    DEADLINE = "deadline"
    ALREADY_STREAMED = "already_streamed"
    NOT_REQUIRED = "not_required"


class RefusalKind(StrEnum):
    """Hard: denies having tools. Soft: deflects on the environment instead of acting."""

    HARD = "hard"
    SOFT = "soft"


class Hold(StrEnum):
    """A watcher's answer about the text seen so far: keep it back, let it go, or give the attempt up."""

    HOLD = "hold"
    RELEASE = "release"
    REFUSE = "refuse"


class BlockOutcome(StrEnum):
    """What became of a block."""

    PARSED = "parsed"
    REPAIRED = "repaired"
    MALFORMED = "malformed"
    UNTERMINATED = "unterminated"
    OVERSIZE = "oversize"
    FENCED_EXAMPLE = "fenced_example"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    PLACEHOLDER = "placeholder"
    QUOTED = "quoted"
    IN_REASONING = "in_reasoning"


class Repair(StrEnum):
    """A narrow repair, by name (S5 to S7, S9)."""

    MISSING_WRAPPER = "missing_wrapper"
    WRAPPER_CLOSER = "wrapper_closer"
    MIXED_TAGS = "mixed_tags"
    BARE_INVOKE = "bare_invoke"
    INVOKE_CLOSER = "invoke_closer"
    PARAMETER_CLOSER = "parameter_closer"
    TAG_NOISE = "tag_noise"
    TAG_END = "tag_end"
    UNCLOSED_CDATA = "unclosed_cdata"
    CONTROL_CHARACTERS = "control_characters"
    SMART_QUOTES = "smart_quotes"
    TRAILING_COMMA = "trailing_comma"
    PYTHON_LITERALS = "python_literals"
    STRINGIFIED_ARGUMENTS = "stringified_arguments"
    MISSING_ARGUMENTS = "missing_arguments"
    INVALID_ESCAPE = "invalid_escape"
    INNER_QUOTES = "inner_quotes"
    MISSING_BRACKETS = "missing_brackets"
    MISSING_FENCE = "missing_fence"
    LONE_SURROGATE = "lone_surrogate"
    NAME_CASE = "name_case"
    NAME_PREFIX = "name_prefix"
    VALUE_TYPE = "value_type"


class SpanKind(StrEnum):
    """The parts that the spans of all events cut the upstream's text into, with nothing left over."""

    TEXT = "text"
    CALL = "call"
    REASONING = "reasoning"
    TRIMMED = "trimmed"
    SWALLOWED = "swallowed"
    CUT = "cut"


class FinishReason(StrEnum):
    """Why the model stopped, in one vocabulary for all protocols."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    STOP_SEQUENCE = "stop_sequence"
    CONTENT_FILTER = "content_filter"
    CONTEXT_WINDOW = "context_window"


class ErrorKind(StrEnum):
    """Every failure a client can be told of. One table gives each its status and its three bodies."""

    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    UNSUPPORTED_VALUE = "unsupported_value"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    BILLING = "billing"
    NOT_FOUND = "not_found"
    MODEL_NOT_FOUND = "model_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TIMEOUT = "timeout"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    UNPROCESSABLE = "unprocessable"
    CONTEXT_OVERFLOW = "context_overflow"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TOOL_CHOICE_UNMET = "tool_choice_unmet"
    UPSTREAM_AUTHENTICATION = "upstream_authentication"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_CUT = "upstream_cut"
    BROKEN_CALL = "broken_call"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"


class UpstreamOutcome(StrEnum):
    """How one upstream request ended, as the transport saw it."""

    OK = "ok"
    HTTP_4XX = "http_4xx"
    HTTP_429 = "http_429"
    HTTP_5XX = "http_5xx"
    CONNECT = "connect"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    CUT = "cut"
    CANCELLED = "cancelled"


class HistoryRepair(StrEnum):
    """What the history guard mended (G1 to G3)."""

    POISONED_CALL = "poisoned_call"
    SERIALISED_OBJECT = "serialised_object"
    UNWRAPPED_STRING = "unwrapped_string"
    ORPHAN_RESULT = "orphan_result"
    MISSING_RESULT = "missing_result"
    REPEATED_ID = "repeated_id"
    MOVED_RESULT = "moved_result"


class DroppedParameter(StrEnum):
    """A request field or a kind of tool that is left out, with a warning (decision D of the protocol reference).

    Fields have their OpenAI Chat spelling. `OTHER` is any field that no protocol here knows.
    """

    LOGPROBS = "logprobs"
    TOP_LOGPROBS = "top_logprobs"
    PREDICTION = "prediction"
    WEB_SEARCH_OPTIONS = "web_search_options"
    MODERATION = "moderation"
    STORE = "store"
    TEMPERATURE = "temperature"
    TOP_P = "top_p"
    TOP_K = "top_k"
    MIN_P = "min_p"
    FREQUENCY_PENALTY = "frequency_penalty"
    PRESENCE_PENALTY = "presence_penalty"
    SEED = "seed"
    LOGIT_BIAS = "logit_bias"
    MAX_TOKENS = "max_tokens"
    REASONING_EFFORT = "reasoning_effort"
    VERBOSITY = "verbosity"
    RESPONSE_FORMAT = "response_format"
    SERVICE_TIER = "service_tier"
    METADATA = "metadata"
    USER = "user"
    SAFETY_IDENTIFIER = "safety_identifier"
    PROMPT_CACHE_KEY = "prompt_cache_key"
    PROMPT_CACHE_RETENTION = "prompt_cache_retention"
    MODALITIES = "modalities"
    AUDIO = "audio"
    OTHER = "other"
    MCP_SERVERS = "mcp_servers"
    CONFIGURATION_UPDATE = "configuration_update"
    TOOL_WEB_SEARCH = "tools.web_search"
    TOOL_WEB_FETCH = "tools.web_fetch"
    TOOL_FILE_SEARCH = "tools.file_search"
    TOOL_CODE_EXECUTION = "tools.code_execution"
    TOOL_IMAGE_GENERATION = "tools.image_generation"
    TOOL_COMPUTER = "tools.computer"
    TOOL_BROWSER = "tools.browser"
    TOOL_MCP = "tools.mcp"
    TOOL_SEARCH = "tools.tool_search"
    TOOL_SHELL = "tools.shell"
    TOOL_APPLY_PATCH = "tools.apply_patch"
    TOOL_PROGRAMMATIC = "tools.programmatic_tool_calling"
    TOOL_OTHER = "tools.other"


class ReplacedContent(StrEnum):
    """Content of a request that a stated placeholder stands for, or that went without one (N5)."""

    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    SERVER_TOOL = "server_tool"
    COMPACTION = "compaction"
    ITEM_REFERENCE = "item_reference"
    NAMELESS_CALL = "nameless_call"
    UNKNOWN_PART = "unknown_part"
    UNKNOWN_ITEM = "unknown_item"


class Invariant(StrEnum):
    """A promise of the state machine that was found broken."""

    LEAKED_FRAGMENT = "leaked_fragment"
    DANGLING_CALL = "dangling_call"
    ORPHAN_RESULT = "orphan_result"
    EVENT_AFTER_END = "event_after_end"
    DUPLICATE_ID = "duplicate_id"
    INDEX_GAP = "index_gap"
    NO_VERDICT = "no_verdict"


class EmulationReason(StrEnum):
    """Why a turn is emulated, or why it is not (O1)."""

    TOOLS_OFFERED = "tools_offered"
    TOOLS_FROM_HISTORY = "tools_from_history"
    NO_TOOLS = "no_tools"
    TEXT_ONLY_HISTORY = "text_only_history"
    CHOICE_NONE = "choice_none"
    NATIVE_ROUTE = "native_route"
    RESCUE_ROUTE = "rescue_route"
    STAGE_LEFT_OUT = "stage_left_out"
    STAGE_FAILED = "stage_failed"


class Noted(StrEnum):
    """What a stage can say through `note`. `proxy/telemetry` turns each into one log event and its counters."""

    # normalize
    NORMALIZED = "normalized"
    TOOLS_REBUILT = "tools_rebuilt"
    PARAMETER_DROPPED = "parameter_dropped"
    CONTENT_REPLACED = "content_replaced"
    TOOL_SCHEMA_ODD = "tool_schema_odd"
    # history_guard
    HISTORY_CLEAN = "history_clean"
    HISTORY_REPAIRED = "history_repaired"
    # prompt_contract
    CONTRACT_INJECTED = "contract_injected"
    CONTRACT_SKIPPED = "contract_skipped"
    # upstream
    UPSTREAM_SENT = "upstream_sent"
    UPSTREAM_ANSWERED = "upstream_answered"
    UPSTREAM_FAILED = "upstream_failed"
    FRAME_SKIPPED = "frame_skipped"
    # sieve
    BLOCK = "block"
    RESULT_CUT = "result_cut"
    # retry_on_refusal
    REFUSAL_HIT = "refusal_hit"
    RETRY = "retry"
    RETRY_SKIPPED = "retry_skipped"
    RETRY_ENDED = "retry_ended"
    # re_encode
    CALLS_DROPPED = "calls_dropped"
    STRICT_VIOLATION = "strict_violation"
    GRAMMAR_VIOLATION = "grammar_violation"
    FORMAT_VIOLATION = "format_violation"
    STOP_SEQUENCE_HIT = "stop_sequence_hit"
    MARKER_TEXT = "marker_text"
    # engine
    ATTEMPT_ENDED = "attempt_ended"
    STAGE_FAILED = "stage_failed"
    INVARIANT_BROKEN = "invariant_broken"

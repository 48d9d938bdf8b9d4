"""Estimates what a request could use at most, before it is sent.

The size of some parts is not known in advance: documents by address, and what the provider's tools find. For each of
them there is a stated bound, and a tool that is billed by call and may be called without limit has none.
Source: docs/sessions.md#what-a-budget-reserves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.facts.token_estimate import measure_messages
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.message import Message
from dragoman.canonical.server_tools import CodeExecution, FileSearch, ImageGeneration, McpServer, ToolSearch, WebSearch
from dragoman.canonical.tools import ProviderTool, ServerTool, ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman.limits.reservation import MaxUsage

REMOTE_MEDIA_TOKENS = 300_000
"""The bound of a document, a recording or a video that the provider fetches: 100 pages of 3,000 tokens."""
TOOL_CALLS = 10
"""The bound of the calls of a provider's tool on a wire that cannot limit them."""
WEB_RESULT_TOKENS = 50_000
"""The bound of what one search or one page of the web adds to the prompt. Recorded ones added up to 44,000."""
TOOL_RESULT_TOKENS = 10_000
"""The bound of what a call of another tool adds to the prompt."""

_BILLED_BY_CALL = (WebSearch, FileSearch)
_SMALL_RESULTS = frozenset({CodeExecution.WORD, FileSearch.WORD, ImageGeneration.WORD, McpServer.WORD, ToolSearch.WORD})
_CHEAPER_TIERS = frozenset({"auto", "standard", "standard_only", "default", "on_demand", "flex", "batch"})
"""Tiers that cost at most the standard price, which is reserved for them: the provider may not grant them."""


def max_usage(
    adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> MaxUsage:
    """Return what a request could use at most."""
    if options.output_schema is not None:  # providers count a schema much like a tool
        tools = [*tools, ToolDefinition(name="answer", input_schema=dict(options.output_schema))]
    tokens = adapter.estimate_input_tokens(messages, tools)
    predicted = _predicted_tokens(adapter, options)
    # Input that is written to a cache costs more than plain input, and for an hour still more.
    buckets = ["input_tokens"] if options.prompt_cache is None else ["cache_creation_input_tokens"]
    if options.prompt_cache == "1h":
        buckets.append("cache_creation_1h_input_tokens")
    bounds = [_bound(adapter, tool, options) for tool in tools if isinstance(tool, ServerTool) and tool.RUN_BY_PROVIDER]
    window = max(tokens, adapter.capabilities.max_context_tokens)
    remote = REMOTE_MEDIA_TOKENS * measure_messages(messages).remote
    prompt = min(tokens + remote, window)
    read = prompt
    for bound in bounds:  # each call adds its result to the prompt, which is read again, until it fills the window
        growing = min(bound.calls, (window - prompt) // max(bound.result_tokens, 1))
        read += growing * prompt + bound.result_tokens * growing * (growing + 1) // 2
        read += (bound.calls - growing) * window
        prompt = min(prompt + bound.calls * bound.result_tokens, window)
    return MaxUsage(
        str(adapter.model_id),
        TokenUsage(**dict.fromkeys(buckets, tokens), **_requested_words(adapter, options)),
        adapter.output_limit(options) + predicted,
        (options.n or 1) if options.max_output_tokens is None else None,
        read - tokens,
        {bound.name: bound.calls for bound in bounds if bound.billed},
        tuple(bound.unlimited for bound in bounds if bound.unlimited),
        predicted,
    )


@dataclass(frozen=True, slots=True)
class _ToolBound:
    """The bound of one tool of the provider. ``unlimited`` says what limits its calls, if the request does not."""

    name: str
    calls: int
    result_tokens: int
    billed: bool
    unlimited: str = ""


def _bound(adapter: Adapter, tool: ServerTool, options: AdapterOptions) -> _ToolBound:
    native = tool.native if isinstance(tool, ProviderTool) else None
    kind = str(tool.name if native is None else native.get("type", tool.name))
    word = tool.WORD if native is None else next((each.WORD for each in _BILLED_BY_CALL if each.WORD in kind), "")
    billed = any(word == each.WORD for each in _BILLED_BY_CALL)
    row = adapter.server_tools.find(word, adapter.model)
    setting = "" if row is None else row.fields.get("max_uses", "")
    limit = getattr(tool, "max_uses", None)
    if limit is None and setting.startswith("/"):  # a field of the request, for all of its tools
        limit = lookup_path(options.extra.get(adapter.provider, {}), setting[1:])
    elif native is not None and setting:
        limit = lookup_path(native, setting)
    result_tokens = TOOL_RESULT_TOKENS if word in _SMALL_RESULTS else WEB_RESULT_TOKENS
    result_tokens = getattr(tool, "max_content_tokens", None) or result_tokens
    if type(limit) is int and limit >= 0:
        return _ToolBound(word, limit, result_tokens, billed)
    unlimited = f"server_tools.{word}: set its max_uses" if billed and setting else ""
    return _ToolBound(word, TOOL_CALLS, result_tokens, billed, unlimited)


def _predicted_tokens(adapter: Adapter, options: AdapterOptions) -> int:
    """Return the tokens of a prediction: those that the model rejects are billed as output, in addition to the
    reply."""
    prediction = options.extra.get(adapter.provider, {}).get("prediction")
    if not isinstance(prediction, Mapping):
        return 0
    content = prediction.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    text = "".join(part for part in texts if isinstance(part, str))
    return adapter.estimate_input_tokens([Message.user(text)], ()) if text else 0


def _requested_words(adapter: Adapter, options: AdapterOptions) -> dict[str, Any]:
    """Return the words of the request that may raise its price, where the reply will have them."""
    native = options.extra.get(adapter.provider, {})
    words = {name: value for name, value in native.items() if isinstance(value, str)}
    tier = words.get("service_tier", options.service_tier)
    found: dict[str, Any] = {"raw": words} if words else {}
    if tier is not None and tier not in _CHEAPER_TIERS:
        found["service_tier"] = tier
    if "speed" in words:
        found["speed"] = words["speed"]
    return found

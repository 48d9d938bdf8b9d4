"""Filters options by what the model supports and records the rest as losses."""

from typing import Any

from dragoman.adapter.contract import NamedTool, ToolChoice
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.request_builder import RequestBuilder


def tool_choice(request: RequestBuilder, *, tools: bool, reasoning: bool) -> ToolChoice | None:
    """Return the tool choice to send; None leaves it to the model. Without tools every provider refuses a choice."""
    choice, rule = request.options.tool_choice, request.target.capabilities.forced_tool_choice
    forced = choice == "required" or isinstance(choice, NamedTool)
    if not tools:
        if forced:
            request.record_option_loss("tool_choice", "the request offers no tools")
        return None
    if forced and (rule == "never" or (rule == "without_reasoning" and reasoning)):
        request.record_option_loss(
            "tool_choice", f"{request.target.model} cannot be forced to call a tool; it may choose"
        )
        return None
    return choice


def sampling_value(request: RequestBuilder, name: str, *, reasoning: bool) -> Any:
    """Return the value of a sampling parameter; None if it is not set or the model does not support it."""
    value, rule = getattr(request.options, name), request.target.capabilities.sampling
    if value is None or rule == "allowed" or (rule == "without_reasoning" and not reasoning):
        return value
    low, high = request.target.capabilities.wire.get("sampling_beside_reasoning", {}).get(name, (1, 0))
    if rule == "without_reasoning" and low <= value <= high:
        return value
    suffix = "" if rule == "never" else " when it reasons"
    request.record_option_loss(name, f"{request.target.model} takes no sampling parameters{suffix}")
    return None


def stop_sequences(request: RequestBuilder) -> list[str]:
    """Return the stop sequences to send: the first ones, up to the model's limit."""
    requested, limit = request.options.stop_sequences, request.target.capabilities.max_stop_sequences
    if requested and limit == 0:
        request.record_option_loss("stop_sequences", f"{request.target.model} takes none")
    elif limit is not None and len(requested) > limit:
        reason = f"{request.target.model} takes {limit}: the last {len(requested) - limit} are left out"
        request.record_option_loss("stop_sequences", reason)
    return list(requested if limit is None else requested[:limit])


def record_cache_hint_loss(request: RequestBuilder) -> None:
    """Record a request for prompt caching that the wire cannot express. The reply does not depend on it."""
    if request.options.prompt_cache is None:
        return
    can_cache = bool(request.target.capabilities.supports_prompt_caching)
    how = "caches by itself, for as long as it sees fit" if can_cache else "is not known to cache at request"
    request.record_loss(LossKind.OPTION, f"prompt_cache: {request.target.model} {how}", Severity.INFO)

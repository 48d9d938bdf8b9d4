"""The options of the Messages API, in both directions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.requests import option_table
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields, read_option
from dragoman.adapter.requests.request_builder import RequestBuilder, Target

SAMPLING = ("temperature", "top_p", "top_k")
OPTIONS = OptionTable(
    {
        "max_output_tokens": "max_tokens",
        "stop_sequences": "stop_sequences",
        **{name: name for name in SAMPLING},
        "service_tier": "service_tier",
        "user": "metadata.user_id",
    },
    absent="the Messages API has none",
    words={"service_tier": {"auto": "auto", "standard": "standard_only", "standard_only": "standard_only"}},
)


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    options, used = request.options, request.used
    asks_to_think = options.thinking is not None or options.effort is not None or options.thinking_budget is not None
    thinking = _encode_thinking(request) if asks_to_think else None
    limit, thinking = _limit_output(request, thinking)
    is_thinking = thinking is not None and thinking["type"] != "disabled"
    encoded: dict[str, Any] = {"max_tokens": limit}
    if options.stop_sequences:
        OPTIONS.encode(request, encoded, ("stop_sequences",))
    if options.stream:
        encoded["stream"] = True
    if used.left:
        OPTIONS.encode(request, encoded, reasoning=is_thinking)
    if thinking:
        encoded["thinking"] = thinking
    if (asks_to_think or options.output_schema is not None) and (config := _encode_output_config(request, tools=tools)):
        encoded["output_config"] = config
    asks_about_tools = options.tool_choice is not None or options.parallel_tool_calls is not None
    if asks_about_tools and (choice := _encode_tool_choice(request, tools=tools, is_thinking=is_thinking)):
        encoded["tool_choice"] = choice
    if options.prompt_cache:
        encoded["cache_control"] = {"type": "ephemeral", "ttl": used.take("prompt_cache")}
    if used.left:
        request.record_unused_options(OPTIONS.absent)
    return encoded


def _limit_output(request: RequestBuilder, thinking: dict[str, Any] | None) -> tuple[int, dict[str, Any] | None]:
    """Return the output limit, which the wire requires, and the thinking that fits into it."""
    capabilities = request.target.capabilities
    limit = request.used.take("max_output_tokens")  # 0 warms the cache
    if limit is None:
        limit = capabilities.default_output_limit(stream=request.options.stream)
        request.own_defaults.add("max_tokens")
        if thinking is not None:  # it counts towards the limit, so a budget is added as far as the model allows
            limit = max(limit, min(limit + int(thinking.get("budget_tokens", 0)), capabilities.max_output_tokens))
    if thinking is None or "budget_tokens" not in thinking:
        return limit, thinking
    budget = option_table.thinking_budget(request, thinking["budget_tokens"], limit)
    return limit, None if budget is None else {**thinking, "budget_tokens": budget}


def _encode_thinking(request: RequestBuilder) -> dict[str, Any] | None:
    """Encode thinking: a budget on older models, adaptive on newer ones, off if the model allows it."""
    facts, take = request.target.capabilities.wire, request.used.take
    thinking, effort, budget = take("thinking"), take("effort"), take("thinking_budget")
    if thinking is False or effort == "none":
        if request.target.capabilities.thinking_off:
            return {"type": "disabled"}
        request.record_option_loss("thinking", f"{request.target.model} always thinks; the lowest effort is asked for")
        return None
    if budget is not None and facts["thinking"] == "budget":
        return {"type": "enabled", "budget_tokens": budget}
    if thinking and facts["thinking"] == "adaptive":
        return {"type": "adaptive", "display": "summarized"}
    if budget is not None:
        request.record_option_loss("thinking_budget", f"{request.target.model} takes no budget")
    elif thinking:
        request.record_option_loss("thinking", f"{request.target.model} thinks only with a thinking_budget")
    return None


def choose_effort(request: RequestBuilder) -> str | None:
    """Return the model's level nearest to the requested effort; None leaves it to the model."""
    options, capabilities = request.options, request.target.capabilities
    levels: list[str] = capabilities.wire["efforts"]
    is_off = options.thinking is False or options.effort == "none"
    effort = None if options.effort == "none" else options.effort
    if is_off and not capabilities.thinking_off:
        if effort not in (None, levels[0]):
            request.record_option_loss("effort", f"thinking is switched off with it: {levels[0]} is asked for")
        return levels[0]
    if effort is None:
        return None
    if is_off:
        levels = [level for level in levels if level not in capabilities.wire["thinking_efforts"]]
    return option_table.nearest_effort(request, effort, levels)


def _encode_output_config(request: RequestBuilder, *, tools: bool) -> dict[str, Any] | None:
    config: dict[str, Any] = {}
    if (effort := choose_effort(request)) is not None:
        config["effort"] = effort
    if request.options.output_schema is None:
        return config or None
    from dragoman.adapter.requests.structured_output import should_send_schema  # imported late: few requests have one

    if should_send_schema(request, tools=tools):
        config["format"] = {"type": "json_schema", "schema": request.fit_output_schema()}
    return config or None


_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
"""The wire's words for our choices without a name."""


def _encode_tool_choice(request: RequestBuilder, *, tools: bool, is_thinking: bool) -> dict[str, Any] | None:
    choice = option_table.tool_choice(request, tools=tools, reasoning=is_thinking)
    encoded: dict[str, Any] | None = None
    if isinstance(choice, NamedTool):
        encoded = {"type": "tool", "name": choice.name}
    elif choice is not None:
        encoded = {"type": _CHOICES[choice]}
    parallel = request.used.take("parallel_tool_calls")
    if tools and parallel is not None and choice != "none":
        encoded = encoded or {"type": "auto"}
        encoded["disable_parallel_tool_use"] = not parallel
    return encoded


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: Sequence[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    from dragoman.adapter.requests.structured_output import reads_schema  # imported late: only servers read options

    config = native.get("output_config") or {}
    thinking = native.get("thinking") or {}
    choice = native.get("tool_choice") or {}
    parallel = choice.get("disable_parallel_tool_use")
    has_tools = bool(native.get("tools"))
    schema = (config.get("format") or {}).get("schema")
    chosen: Any = next((ours for ours, theirs in _CHOICES.items() if theirs == choice.get("type")), None)
    options = AdapterOptions(
        **OPTIONS.decode(native),
        tool_choice=NamedTool(choice["name"]) if choice.get("type") == "tool" else chosen,
        parallel_tool_calls=None if parallel is None else not parallel,
        output_schema=schema if reads_schema(target, context, tools=has_tools) else None,
        effort=config.get("effort"),
        thinking=None if not thinking else thinking.get("type") != "disabled",
        thinking_budget=read_option("thinking_budget", "thinking.budget_tokens", thinking.get("budget_tokens")),
        stream=native.get("stream") or False,
        context=context,
    )
    return keep_other_fields(options, native, target, partial(encode_options, tools=has_tools), covered)

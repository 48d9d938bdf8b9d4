"""The options of Chat Completions, in both directions (docs/reference/wires/openai-chat.md)."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import keep_other_fields, read_option
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.wirejson import assign_path, lookup_path
from dragoman_adapters.openai_chat import cache_marks
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.options import encode_schema

SCHEMA_NAME = "answer"
"""The wire requires a name for a schema; it has no meaning."""


def encode_options(request: RequestBuilder, dialect: Dialect, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the model, the conversation and the tools."""
    table = dialect.option_table
    encoded: dict[str, Any] = {}
    if request.options.stream:
        encoded["stream"] = True
        if dialect.stream_usage:
            encoded["stream_options"] = {"include_usage": True}
            request.own_defaults.add("stream_options")
    table.encode(request, encoded, ("max_output_tokens", "stop_sequences"))
    level = _encode_thinking(request, dialect, encoded, tools=tools)
    table.encode(request, encoded, reasoning=level != "none")
    if dialect.logprobs:
        option_table.encode_logprobs(request, encoded, "logprobs", "top_logprobs", reasoning=level != "none")
    if request.used.take("output_schema") is not None:
        _encode_response_format(request, dialect, encoded, tools=tools)
    cache_marks.encode_option(request, encoded)
    _encode_tool_choice(request, dialect, encoded, tools=tools, reasoning=level != "none")
    request.record_unused_options(table.absent)
    return encoded


def may_reason(request: RequestBuilder) -> bool:
    """Whether the model may reason about this request."""
    options, efforts = request.options, request.target.capabilities.wire.get("efforts")
    return not (options.thinking is False or options.effort == "none" or efforts == [])


def _encode_thinking(request: RequestBuilder, dialect: Dialect, encoded: dict[str, Any], *, tools: bool) -> str | None:
    """Encode the reasoning options. Returns the level at which the model will reason, None if unknown."""
    capabilities, take = request.target.capabilities, request.used.take
    thinking, effort, budget = take("thinking"), take("effort"), take("thinking_budget")
    facts = capabilities.wire
    is_off = thinking is False or effort == "none"
    if is_off and dialect.thinking_off and capabilities.thinking_off:
        encoded |= deepcopy(dialect.thinking_off)
        return "none"
    if is_off and dialect.thinking_off:
        request.record_option_loss("thinking", f"{request.target.model} always reasons")
    if thinking and not is_off:
        encoded |= deepcopy(dialect.thinking_on)
    if budget is not None:
        if dialect.thinking_budget is None:
            request.record_option_loss("thinking_budget", f"{request.target.model} takes levels of effort, no budget")
        else:
            limit = request.options.max_output_tokens or capabilities.max_output_tokens
            if (fitted := option_table.thinking_budget(request, budget, limit)) is not None:
                assign_path(encoded, dialect.thinking_budget, fitted)
    level = _choose_effort(request, dialect, "none" if is_off else effort, tools=tools)
    if level is not None and dialect.effort is not None:
        assign_path(encoded, dialect.effort, level)
    elif thinking and not dialect.thinking_on and facts.get("efforts") != []:
        reason = "thinking: the endpoint has no switch that shows it; the model reasons as it does by itself"
        request.record_loss(LossKind.OPTION, reason, Severity.INFO)
    if facts.get("efforts") == []:
        return "none"  # a model that never reasons
    return level or facts.get("default_effort")


def _choose_effort(request: RequestBuilder, dialect: Dialect, requested: str | None, *, tools: bool) -> str | None:
    """Return the model's level nearest to the requested effort; None leaves it to the model."""
    facts, model = request.target.capabilities.wire, request.target.model
    levels: list[str] | None = facts.get("efforts")
    if tools and facts.get("tools_effort"):
        forced: str = facts["tools_effort"]
        if requested != forced:
            request.record_option_loss("effort", f"{model} calls tools on this wire only with the effort {forced}")
        return forced
    if requested is None and request.options.thinking and facts.get("default_effort") == "none":
        requested = "medium"
    if requested is None or (levels is not None and requested in levels):
        return requested
    if dialect.effort is None or levels == []:
        if requested != "none" or not request.target.capabilities.thinking_off:
            request.record_option_loss("effort", f"{model} has no levels of effort")
        return None
    if levels is None:
        return requested
    return option_table.nearest_effort(request, requested, levels)


def _encode_response_format(request: RequestBuilder, dialect: Dialect, encoded: dict[str, Any], *, tools: bool) -> None:
    """Encode the output schema."""
    if not structured_output.should_send_schema(request, tools=tools):
        if dialect.schema_format == "json_object" and not tools:
            encoded["response_format"] = {"type": "json_object"}
    elif structured_output.asks_for_any_object(request.options):
        encoded["response_format"] = {"type": "json_object"}
    else:
        schema = encode_schema(request, SCHEMA_NAME)
        encoded["response_format"] = {"type": "json_schema", "json_schema": schema}


def _encode_tool_choice(
    request: RequestBuilder, dialect: Dialect, encoded: dict[str, Any], *, tools: bool, reasoning: bool
) -> None:
    choice = option_table.tool_choice(request, tools=tools, reasoning=reasoning)
    if isinstance(choice, NamedTool):
        if dialect.named_tool_choice:
            calls = {} if request.tools is None else request.tools.native_calls
            kind = "custom" if f"custom:{choice.name}" in calls else "function"
            encoded["tool_choice"] = {"type": kind, kind: {"name": choice.name}}
        else:
            request.record_option_loss("tool_choice", "the endpoint cannot be told which tool to call")
    elif choice is not None:
        if choice in dialect.tool_choices:
            encoded["tool_choice"] = dialect.tool_choices[choice]
        else:
            request.record_option_loss("tool_choice", f"the endpoint has no word for {choice!r}")
    if (parallel := request.used.take("parallel_tool_calls")) is not None and tools:
        if dialect.parallel_tool_calls:
            encoded["parallel_tool_calls"] = parallel
        else:
            request.record_option_loss("parallel_tool_calls", "the endpoint has no such switch")


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: Sequence[str], dialect: Dialect
) -> AdapterOptions:
    """Decode the options of a request."""
    is_json = lookup_path(native, "response_format.type") == "json_object"
    schema = structured_output.ANY_OBJECT if is_json else lookup_path(native, "response_format.json_schema.schema")
    has_tools = bool(native.get("tools") or native.get("functions"))
    reads_schema = structured_output.reads_schema(target, context, tools=has_tools)
    effort = lookup_path(native, dialect.effort) if dialect.effort else None
    values = dialect.option_table.decode(native)
    for name in ("max_completion_tokens", "max_tokens"):  # one of them is the older name of the other
        if values["max_output_tokens"] is None:
            values["max_output_tokens"] = read_option("max_output_tokens", name, native.get(name), limited=False)
    if dialect.logprobs:
        values["logprobs"] = option_table.decode_logprobs(native, "logprobs", "top_logprobs")
    switches = ((False, dialect.thinking_off), (True, dialect.thinking_on))
    options = AdapterOptions(
        **values,
        tool_choice=_decode_tool_choice(native.get("tool_choice", native.get("function_call")), dialect),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=schema if reads_schema else None,
        effort=effort,
        thinking=next((on for on, fields in switches if fields and _includes(native, fields)), None),
        thinking_budget=read_option("thinking_budget", path, lookup_path(native, path))
        if (path := dialect.thinking_budget)
        else None,
        stream=native.get("stream") or False,
        context=context,
    )
    return keep_other_fields(
        options, native, target, partial(encode_options, dialect=dialect, tools=has_tools), covered
    )


def _decode_tool_choice(native: Any, dialect: Dialect) -> Any:
    """Decode the tool choice; a choice among several tools counts as its mode."""
    if isinstance(native, str):
        return next((ours for ours, theirs in dialect.tool_choices.items() if theirs == native), None)
    if not isinstance(native, dict):
        return None
    inner = native.get(str(native.get("type")))
    inner = inner if isinstance(inner, dict) else native
    return NamedTool(inner["name"]) if "name" in inner else _decode_tool_choice(inner.get("mode"), dialect)


def _includes(actual: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(_includes(actual.get(name), value) for name, value in expected.items())
    return bool(actual == expected)

"""The options of the Responses API, in both directions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman_adapters.openai_platform.options import MAX_USER_LENGTH, SERVICE_TIERS, encode_schema
from dragoman_adapters.openai_responses.client_tools import CUSTOM_CALL

_DEFAULT_THINKING_EFFORT = "medium"
"""The effort of ``thinking=True`` for a model that does not reason by default."""
OPTIONS = OptionTable(
    {
        "max_output_tokens": "max_output_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "service_tier": "service_tier",
        "verbosity": "text.verbosity",
        "user": "safety_identifier",
        "metadata": "metadata",
    },
    absent="the Responses API has none",
    words={"service_tier": SERVICE_TIERS},
    digested={"user": MAX_USER_LENGTH},
)
_LOGPROBS = "message.output_text.logprobs"
"""The value of ``include`` that asks for log probabilities."""


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    take, capabilities = request.used.take, request.target.capabilities
    encoded: dict[str, Any] = {}
    OPTIONS.encode(request, encoded, ("max_output_tokens",))
    if reasoning := _encode_thinking(request):
        encoded["reasoning"] = reasoning
    effort = reasoning.get("effort", capabilities.wire["default_effort"])
    OPTIONS.encode(request, encoded, reasoning=effort != "none")
    if (choice := option_table.tool_choice(request, tools=tools, reasoning=effort != "none")) is not None:
        encoded["tool_choice"] = _named_choice(request, choice.name) if isinstance(choice, NamedTool) else choice
    if (parallel := take("parallel_tool_calls")) is not None and tools:
        encoded["parallel_tool_calls"] = parallel
    if text := _encode_text_format(request, tools=tools):
        encoded["text"] = {**encoded.get("text", {}), **text}
    if (count := option_table.supported_value(request, "logprobs", reasoning=effort != "none")) is not None:
        encoded |= {"include": [_LOGPROBS], **({"top_logprobs": count} if count else {})}
    requested = take("prompt_cache")
    if requested == "1h" and (lifetime := capabilities.wire.get("cache_1h")):
        encoded["prompt_cache_options"] = {"ttl": lifetime}
    elif requested == "1h" or not capabilities.supports_prompt_caching or "cache_control" in capabilities.wire:
        option_table.record_cache_hint_loss(request)
    in_background = take("background") is not None and option_table.has_background(request)
    if in_background:
        encoded["background"] = True
    if request.options.stream and not in_background:
        encoded["stream"] = True
    request.record_unused_options(OPTIONS.absent)
    return encoded


def _encode_thinking(request: RequestBuilder) -> dict[str, Any]:
    """Encode effort and summary, as far as the model has them."""
    take, capabilities = request.used.take, request.target.capabilities
    thinking, effort_option = take("thinking"), take("effort")
    if take("thinking_budget") is not None:
        request.record_option_loss("thinking_budget", f"{request.target.model} takes an effort, not a budget")
    requested = "none" if thinking is False else effort_option
    if not capabilities.supports_thinking:
        if take("reasoning_summary"):
            request.record_option_loss("reasoning_summary", f"{request.target.model} does not reason")
        if thinking or requested not in (None, "none"):
            request.record_option_loss("thinking" if thinking else "effort", f"{request.target.model} has none")
        return {}
    if requested is None and thinking and capabilities.wire["default_effort"] == "none":
        requested = _DEFAULT_THINKING_EFFORT
    encoded: dict[str, Any] = {}
    if requested is not None:
        effort = option_table.nearest_effort(request, requested, capabilities.wire["efforts"])
        if effort is not None:
            encoded["effort"] = effort
    summary = take("reasoning_summary") or ("auto" if thinking else None)
    if summary:
        encoded["summary"] = summary
    return encoded


def _encode_text_format(request: RequestBuilder, *, tools: bool) -> dict[str, Any] | None:
    """Encode the output schema, named after its title."""
    if not structured_output.should_send_schema(request, tools=tools):
        return None
    if structured_output.asks_for_any_object(request.options):
        return {"format": {"type": "json_object"}}
    return {"format": {"type": "json_schema", **encode_schema(request)}}


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: Sequence[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    reasoning = native.get("reasoning") or {}
    text_format = (native.get("text") or {}).get("format") or {}
    has_tools = bool(native.get("tools"))
    schemas = {"json_schema": text_format.get("schema"), "json_object": structured_output.ANY_OBJECT}
    schema = schemas.get(str(text_format.get("type")))
    options = AdapterOptions(
        **OPTIONS.decode(native),
        tool_choice=_decode_tool_choice(native.get("tool_choice")),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=schema if structured_output.reads_schema(target, context, tools=has_tools) else None,
        effort=reasoning.get("effort"),
        thinking=True if reasoning.get("summary") else None,
        reasoning_summary=summary if (summary := reasoning.get("summary")) != "auto" else None,
        logprobs=(native.get("top_logprobs") or 0) if _LOGPROBS in (native.get("include") or ()) else None,
        background=True if native.get("background") is True else None,
        stream=native.get("stream") or False,
        context=context,
    )
    return keep_other_fields(options, native, target, partial(encode_options, tools=has_tools), covered)


def _named_choice(request: RequestBuilder, name: str) -> dict[str, Any]:
    """Return the choice of one tool. A tool that the provider calls by items of its own is named as it was declared."""
    calls = {} if request.tools is None else request.tools.native_calls
    kind = next((call for call, called in calls.items() if called == name), "")
    if kind.startswith(CUSTOM_CALL):
        return {"type": "custom", "name": name}
    if kind in _CHOSEN_BY_TYPE:
        return {"type": _CHOSEN_BY_TYPE[kind]}
    return {"type": "function", "name": name}


_CHOSEN_BY_TYPE = {"shell_call": "shell", "apply_patch_call": "apply_patch"}


def _decode_tool_choice(native: Any) -> Any:
    match native:
        case "auto" | "none" | "required":
            return native
        case {"type": "function" | "custom", "name": str(name)}:
            return NamedTool(name)
        case _:
            return None

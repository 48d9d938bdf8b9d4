"""The options of an interaction, in both directions."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman_adapters.google.options import SAFETY_WORDS, safety_settings

EFFORTS = ("minimal", "low", "medium", "high")
OPTIONS = OptionTable(
    {name: name for name in ("temperature", "top_p", "seed", "max_output_tokens", "stop_sequences")},
    absent="the Interactions API has none",
)
"""The fields of generation_config."""
REQUEST_OPTIONS = OptionTable(
    {"service_tier": "service_tier", "metadata": "labels"},
    words={"service_tier": {name: name for name in ("standard", "flex", "priority")}},
)
"""The fields of the body itself."""
_TOOL_CHOICES: dict[ToolChoice, str] = {"auto": "auto", "none": "none", "required": "any"}


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    encoded: dict[str, Any] = {}
    in_background = request.used.take("background") is not None and option_table.has_background(request)
    if in_background:
        encoded["background"] = True
    elif request.options.stream:
        encoded["stream"] = True
    config: dict[str, Any] = {}
    OPTIONS.encode(request, config)
    config |= _encode_thinking(request)
    choice = option_table.tool_choice(request, tools=tools, reasoning=False)
    if isinstance(choice, NamedTool):
        config["tool_choice"] = {"allowed_tools": {"mode": "any", "tools": [choice.name]}}
    elif choice is not None:
        config["tool_choice"] = _TOOL_CHOICES[choice]
    REQUEST_OPTIONS.encode(request, encoded)
    if safety := _safety_settings(request.used.take("safety")):
        encoded["safety_settings"] = safety
    if config:
        encoded["generation_config"] = config
    if structured_output.should_send_schema(request, tools=tools):
        schema = request.fit_output_schema()
        encoded["response_format"] = {"type": "text", "mime_type": "application/json", "schema": schema}
    option_table.record_parallel_calls_loss(request, "Google has no such switch")
    option_table.record_cache_hint_loss(request)
    request.record_unused_options(OPTIONS.absent)
    return encoded


def _encode_thinking(request: RequestBuilder) -> dict[str, Any]:
    thinking, effort = request.used.take("thinking"), request.used.take("effort")
    if thinking is False or effort == "none":
        request.record_option_loss("thinking", "it cannot be switched off here; the least level is asked for")
        return {"thinking_level": "minimal"}
    config: dict[str, Any] = {"thinking_summaries": "auto"} if thinking else {}
    if effort is not None and (level := option_table.nearest_effort(request, effort, EFFORTS)) is not None:
        config["thinking_level"] = level
    return config


def _safety_settings(safety: str | None) -> list[dict[str, str]]:
    """Return the settings as generateContent has them, in the words of this wire."""
    return [
        {"type": each["category"].removeprefix("HARM_CATEGORY_").lower(), "threshold": each["threshold"].lower()}
        for each in safety_settings(safety)
    ]


def decode_options(
    native: Mapping[str, Any], target: Target, context: RequestContext, covered: list[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    config = native.get("generation_config") or {}
    safety = native.get("safety_settings")
    form = native.get("response_format")
    schema = form.get("schema") if isinstance(form, dict) and form.get("type") == "text" else None
    options = AdapterOptions(
        **OPTIONS.decode(config),
        **REQUEST_OPTIONS.decode(native),
        tool_choice=_decode_tool_choice(config.get("tool_choice")),
        output_schema=schema if isinstance(schema, dict) else None,
        effort=config.get("thinking_level"),
        thinking=True if config.get("thinking_summaries") == "auto" else None,
        safety=next((word for word in SAFETY_WORDS if safety and safety == _safety_settings(word)), None),
        background=True if native.get("background") is True else None,
        stream=native.get("stream") or False,
        context=context,
    )
    encode = partial(encode_options, tools=bool(native.get("tools")))
    return keep_other_fields(options, native, target, encode, covered)


def _decode_tool_choice(native: Any) -> ToolChoice | None:
    if isinstance(native, dict):
        allowed = native.get("allowed_tools") or {}
        names = allowed.get("tools") or []
        return NamedTool(names[0]) if allowed.get("mode") == "any" and len(names) == 1 else None
    return next((ours for ours, theirs in _TOOL_CHOICES.items() if theirs == native), None)

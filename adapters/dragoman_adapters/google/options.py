"""The options of generateContent, in both directions (docs/reference/wires/google.md)."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields, read_option
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.requests.request_reader import is_for_another
from dragoman_adapters.google.values.decode_schema import decode_schema
from dragoman_adapters.google.values.spelling import camel_case_fields

OPTIONS = OptionTable(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "top_k": "topK",
        "max_output_tokens": "maxOutputTokens",
        "seed": "seed",
        "n": "candidateCount",
        "stop_sequences": "stopSequences",
        "frequency_penalty": "frequencyPenalty",
        "presence_penalty": "presencePenalty",
    },
    absent="generateContent has none",
)
"""The fields of generationConfig."""

JSON_TYPE = "application/json"
_HARMS = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
_THRESHOLDS = {"off": "OFF", "strict": "BLOCK_LOW_AND_ABOVE"}
REQUEST_OPTIONS = OptionTable(
    {"service_tier": "serviceTier"},
    words={"service_tier": {name: name for name in ("standard", "flex", "priority")}},
)
"""The fields of the body itself."""
_MODES: dict[ToolChoice, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    config: dict[str, Any] = {}
    OPTIONS.encode(request, config)
    option_table.encode_logprobs(request, config, "responseLogprobs", "logprobs")
    if structured_output.should_send_schema(request, tools=tools):
        config["responseMimeType"] = JSON_TYPE
        if not structured_output.asks_for_any_object(request.options):
            config["responseJsonSchema"] = request.fit_output_schema()
    if thinking := _encode_thinking(request):
        config["thinkingConfig"] = thinking
    encoded: dict[str, Any] = {"generationConfig": config} if config else {}
    REQUEST_OPTIONS.encode(request, encoded)
    if labels := request.target.capabilities.wire.get("labels") and request.used.take("metadata"):
        encoded["labels"] = dict(labels)
    if safety := safety_settings(request.used.take("safety")):
        encoded["safetySettings"] = safety
    choice = option_table.tool_choice(request, tools=tools, reasoning=False)
    if isinstance(choice, NamedTool):
        named = {"mode": _MODES["required"], "allowedFunctionNames": [choice.name]}
        encoded["toolConfig"] = {"functionCallingConfig": named}
    elif choice:
        encoded["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}
    option_table.record_parallel_calls_loss(request, "Google has no such switch")
    option_table.record_cache_hint_loss(request)
    request.record_unused_options(OPTIONS.absent)
    return encoded


SAFETY_WORDS: tuple[Any, ...] = tuple(_THRESHOLDS)
"""The values of the option ``safety``."""


def safety_settings(safety: str | None) -> list[dict[str, str]]:
    """Return the settings of each harm; the standard is to send none."""
    threshold = _THRESHOLDS.get(safety or "")
    return [{"category": f"HARM_CATEGORY_{harm}", "threshold": threshold} for harm in _HARMS] if threshold else []


def _encode_thinking(request: RequestBuilder) -> dict[str, Any]:
    """Encode thinking: a budget of tokens for older models, a level for newer ones, which accept a lone budget."""
    capabilities, take = request.target.capabilities, request.used.take
    thinking, effort, budget = take("thinking"), take("effort"), take("thinking_budget")
    facts, model = capabilities.wire, request.target.model
    field = "thinkingLevel" if facts["thinking"] == "level" else "thinkingBudget"
    if not capabilities.supports_thinking:
        for name, value in (("thinking", thinking), ("effort", effort), ("thinking_budget", budget)):
            if value not in (None, False, "none", 0):
                request.record_option_loss(name, f"{model} does not think")
        return {}
    if thinking is False or effort == "none":
        if not capabilities.thinking_off:
            request.record_option_loss("thinking", f"{model} always thinks; as little as it can is asked for")
        return {field: facts["thinking_least"]}
    config: dict[str, Any] = {"includeThoughts": True} if thinking else {}
    if effort is not None:
        config |= _encode_effort(request, field, effort)
    if budget is not None:
        if "thinkingLevel" in config:
            request.record_option_loss("thinking_budget", f"{model} takes a level or a budget, not both")
        else:
            config["thinkingBudget"] = budget
    return config


def _encode_effort(request: RequestBuilder, field: str, effort: str) -> dict[str, Any]:
    levels, model = request.target.capabilities.wire["thinking_effort"], request.target.model
    if effort not in levels:
        request.record_option_loss("effort", f"{effort!r} is not a level of {model}")
        return {}
    level = levels[effort]
    if field == "thinkingLevel" and level.lower() != effort:
        request.record_option_loss("effort", f"{model} has no level {effort}: {level.lower()} is asked for")
    return {field: level}


def _decode_tool_choice(config: Mapping[str, Any]) -> ToolChoice | None:
    """Decode the tool choice: the mode, or the one allowed function. Other choices stay in ``extra``."""
    mode, names = str(config.get("mode") or "").upper(), config.get("allowedFunctionNames")
    if names:
        return NamedTool(names[0]) if mode == "ANY" and len(names) == 1 else None
    return next((ours for ours, theirs in _MODES.items() if theirs == mode), None)


def decode_options(
    native: Mapping[str, Any], target: Target, context: RequestContext, covered: Iterable[str]
) -> AdapterOptions:
    """Decode the options of a request.

    ``covered`` are the fields that the messages and tools cover. Only the path says whether to stream.
    """
    body = camel_case_fields(native, without=covered)
    config = body.get("generationConfig") or {}
    has_tools = bool(native.get("tools"))
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel")
    switch = True if thinking.get("includeThoughts") is True else None
    budget = read_option("thinking_budget", "thinkingConfig.thinkingBudget", thinking.get("thinkingBudget"))
    if budget is not None and budget <= 0 and is_for_another(target.provider, context):
        # No tokens for another provider: 0 switches thinking off, and a negative budget leaves its amount to the model.
        switch, budget = budget < 0, None
    options = AdapterOptions(
        **OPTIONS.decode(config),
        **REQUEST_OPTIONS.decode(body),
        logprobs=option_table.decode_logprobs(config, "responseLogprobs", "logprobs"),
        metadata=body.get("labels") if target.capabilities.wire.get("labels") else None,
        safety=next((word for word in SAFETY_WORDS if body.get("safetySettings") == safety_settings(word)), None),
        tool_choice=_decode_tool_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        output_schema=_decode_output_schema(config)
        if structured_output.reads_schema(target, context, tools=has_tools)
        else None,
        effort=level.lower() if isinstance(level, str) else None,
        thinking=switch,
        thinking_budget=budget,
        context=context,
    )
    return keep_other_fields(options, native, target, partial(encode_options, tools=has_tools), covered)


def _decode_output_schema(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if config.get("responseMimeType") != JSON_TYPE:
        return None
    match config:
        case {"responseJsonSchema": dict(schema)}:
            return schema
        case {"responseSchema": dict(schema)}:
            return decode_schema(schema)
        case _:
            return structured_output.ANY_OBJECT

"""The options of Cohere's chat, in both directions."""

from functools import partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target

OPTIONS = OptionTable(
    {
        "max_output_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "p",
        "top_k": "k",
        "seed": "seed",
        "stop_sequences": "stop_sequences",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "safety": "safety_mode",
    },
    absent="Cohere has none",
    words={"safety": {"off": "OFF", "standard": "CONTEXTUAL", "strict": "STRICT"}},
)


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    encoded: dict[str, Any] = {"stream": True} if request.options.stream else {}
    OPTIONS.encode(request, encoded)
    option_table.encode_logprobs(request, encoded, "logprobs", None)
    if structured_output.should_send_schema(request, tools=tools):
        encoded["response_format"] = {"type": "json_object"}
        if not structured_output.asks_for_any_object(request.options):
            encoded["response_format"]["json_schema"] = request.fit_output_schema()
    if choice := _encode_tool_choice(request, tools=tools):
        encoded["tool_choice"] = choice
    if thinking := _encode_thinking(request):
        encoded["thinking"] = thinking
    option_table.record_parallel_calls_loss(request, "Cohere has no such switch")
    option_table.record_cache_hint_loss(request)
    request.record_unused_options(OPTIONS.absent)
    return encoded


def _encode_tool_choice(request: RequestBuilder, *, tools: bool) -> str | None:
    """Encode the tool choice. ``auto`` is the default; a single tool cannot be named."""
    choice = option_table.tool_choice(request, tools=tools, reasoning=False)
    if choice in (None, "auto"):
        return None
    if request.target.capabilities.forced_tool_choice == "never":
        request.record_option_loss("tool_choice", f"{request.target.model} takes none; it may choose")
        return None
    if isinstance(choice, NamedTool):
        request.record_option_loss(
            "tool_choice", f"Cohere can be told to call a tool, but not which: {choice.name} was meant"
        )
    return "NONE" if choice == "none" else "REQUIRED"


def _encode_thinking(request: RequestBuilder) -> dict[str, Any] | None:
    """Encode thinking: on or off, with a budget. There are no levels."""
    take, model = request.used.take, request.target.model
    thinking, effort, budget = take("thinking"), take("effort"), take("thinking_budget")
    is_off = thinking is False or effort == "none"
    if effort is not None and not is_off:
        request.record_option_loss("effort", "Cohere takes budgets, not levels")
    if is_off:
        return {"type": "disabled"} if request.target.capabilities.supports_thinking else None
    if not (thinking or budget is not None):
        return None
    if not request.target.capabilities.supports_thinking:
        for name, value in (("thinking", thinking), ("thinking_budget", budget)):
            if value is not None:
                request.record_option_loss(name, f"{model} does not reason")
        return None
    encoded: dict[str, Any] = {"type": "enabled"}
    if budget is not None:
        encoded["token_budget"] = budget
    return encoded


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: list[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    thinking = native.get("thinking") or {}
    schema = (native.get("response_format") or {}).get("json_schema")
    is_native = structured_output.supports_native_schema(target.capabilities, tools=bool(native.get("tools")))
    options = AdapterOptions(
        **OPTIONS.decode(native),
        logprobs=option_table.decode_logprobs(native, "logprobs", None),
        tool_choice={"REQUIRED": "required", "NONE": "none"}.get(native.get("tool_choice") or ""),  # type: ignore[arg-type]
        output_schema=schema if isinstance(schema, dict) and is_native else None,
        thinking=None if not thinking else thinking.get("type") != "disabled",
        thinking_budget=thinking.get("token_budget"),
        stream=native.get("stream") or False,
        context=context,
    )
    encode = partial(encode_options, tools=bool(native.get("tools")))
    return keep_other_fields(options, native, target, encode, covered)

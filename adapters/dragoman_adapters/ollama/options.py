"""The options of Ollama's chat, in both directions."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target

EFFORTS = ("low", "medium", "high", "max")
OPTIONS = OptionTable(
    {
        "max_output_tokens": "num_predict",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "seed": "seed",
        "stop_sequences": "stop",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "num_ctx": "num_ctx",
    },
    absent="Ollama has none",
    unlimited=("max_output_tokens",),
)
"""The fields of ``options``."""


def encode_options(request: RequestBuilder) -> dict[str, Any]:
    """Encode everything except the conversation and the tools. The server streams by default, so ``stream`` is always
    sent."""
    take = request.used.take
    encoded: dict[str, Any] = {"stream": request.options.stream}
    if (think := _encode_thinking(request)) is not None:
        encoded["think"] = think
    if structured_output.should_send_schema(request, tools=False):
        is_any = structured_output.asks_for_any_object(request.options)
        encoded["format"] = "json" if is_any else request.fit_output_schema()
    settings: dict[str, Any] = {}
    OPTIONS.encode(request, settings)
    if settings:
        encoded["options"] = settings
    if (duration := take("keep_alive")) is not None:
        encoded["keep_alive"] = duration
    option_table.encode_logprobs(request, encoded, "logprobs", "top_logprobs")
    if (choice := take("tool_choice")) == "required" or isinstance(choice, NamedTool):
        request.record_option_loss("tool_choice", "Ollama cannot be forced to call a tool; it may choose")
    option_table.record_parallel_calls_loss(request, "Ollama has no such switch")
    if take("thinking_budget") is not None:
        request.record_option_loss("thinking_budget", "Ollama takes levels, not budgets")
    option_table.record_cache_hint_loss(request)
    request.record_unused_options(OPTIONS.absent)
    return encoded


def _encode_thinking(request: RequestBuilder) -> bool | str | None:
    thinking: bool | None = request.used.take("thinking")
    effort: str | None = request.used.take("effort")
    capabilities, model = request.target.capabilities, request.target.model
    if thinking is False or effort == "none":
        if capabilities.thinking_off:
            return False
        request.record_option_loss("thinking", f"{model} always thinks; the lowest level is asked for")
        return "low"
    if not capabilities.supports_thinking and (thinking or effort is not None):
        request.record_option_loss("thinking" if thinking else "effort", f"{model} is not known to think")
        return None
    if effort is None:
        return thinking
    return option_table.nearest_effort(request, effort, EFFORTS)


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: list[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    settings = native.get("options") or {}
    think = native.get("think")
    schema = structured_output.ANY_OBJECT if native.get("format") == "json" else native.get("format")
    options = AdapterOptions(
        **OPTIONS.decode(settings),
        keep_alive=native.get("keep_alive"),
        logprobs=option_table.decode_logprobs(native, "logprobs", "top_logprobs"),
        output_schema=schema if isinstance(schema, Mapping) else None,
        thinking=think if isinstance(think, bool) else None,
        effort=think if isinstance(think, str) else None,
        stream=native.get("stream", True),
        context=context,
    )
    return keep_other_fields(options, native, target, encode_options, covered)

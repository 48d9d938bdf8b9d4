"""The options of the local model, in both directions."""

from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target

OPTIONS = OptionTable(
    {
        "max_output_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "seed": "seed",
        "stop_sequences": "stop",
    },
    absent="models in this process have none",
)
"""The fields of ``options``."""


def encode_options(request: RequestBuilder) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    take, model = request.used.take, request.target.model
    encoded: dict[str, Any] = {}
    if (choice := take("tool_choice")) is not None:
        encoded["tool_choice"] = {"name": choice.name} if isinstance(choice, NamedTool) else choice
    if (parallel := take("parallel_tool_calls")) is not None:
        encoded["parallel_tool_calls"] = parallel
    if (schema := take("output_schema")) is not None:
        encoded["output_schema"] = dict(schema)
    settings: dict[str, Any] = {}
    OPTIONS.encode(request, settings)
    if settings:
        encoded["options"] = settings
    if request.options.stream:
        encoded["stream"] = True
    thinking, effort = take("thinking"), take("effort")
    if thinking or effort not in (None, "none"):
        request.record_option_loss("thinking" if thinking else "effort", f"{model} does not reason")
    if take("thinking_budget") is not None:
        request.record_option_loss("thinking_budget", f"{model} does not reason")
    if take("prompt_cache") is not None:
        reason = "prompt_cache: a model in this process keeps no prompt between requests"
        request.record_loss(LossKind.OPTION, reason, Severity.INFO)
    request.record_unused_options(OPTIONS.absent)
    return encoded


def decode_options(
    native: dict[str, Any], target: Target, context: RequestContext, covered: list[str]
) -> AdapterOptions:
    """Decode the options of a request."""
    settings = native.get("options") or {}
    options = AdapterOptions(
        **OPTIONS.decode(settings),
        tool_choice=_decode_tool_choice(native.get("tool_choice")),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=native.get("output_schema"),
        stream=native.get("stream") or False,
        context=context,
    )
    prompting = {"prompting": target.capabilities.wire["prompting"]}
    return keep_other_fields(options, native, target, lambda request: encode_options(request) | prompting, covered)


def _decode_tool_choice(native: Any) -> ToolChoice | None:
    if isinstance(native, dict):
        return NamedTool(native["name"])
    choices: tuple[ToolChoice, ...] = ("auto", "none", "required")
    return next((choice for choice in choices if choice == native), None)

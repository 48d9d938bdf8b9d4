"""The options of Converse and of single model families, in both directions."""

from functools import partial
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable, keep_other_fields
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.wirejson import assign_path, lookup_path
from dragoman_adapters.anthropic.options import choose_effort

Fields = dict[str, Any]

OPTIONS = OptionTable(
    {
        "max_output_tokens": "maxTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "stop_sequences": "stopSequences",
    },
    absent="Converse has none",
)
"""The fields of inferenceConfig."""
REQUEST_OPTIONS = OptionTable(
    {"service_tier": "serviceTier.type", "metadata": "requestMetadata"},
    words={"service_tier": {"standard": "default"} | {name: name for name in ("default", "flex", "priority")}},
)
"""The fields of the body itself."""

_LEVELS = ("low", "medium", "high")


def encode_options(request: RequestBuilder, *, tools: bool) -> Fields:
    """Encode everything except the conversation and the tools."""
    options = request.options
    reasoning = bool(options.thinking or options.thinking_budget) and options.effort != "none"
    inference: Fields = {}
    OPTIONS.encode(request, inference, reasoning=reasoning)
    model_fields, output = _encode_thinking(request)
    if request.used.take("top_k") is not None:
        if not (path := request.target.capabilities.wire["top_k"]):  # models.toml names it for some families
            request.record_option_loss("top_k", f"{request.target.model} takes none")
        elif (value := option_table.sampling_value(request, "top_k", reasoning=reasoning)) is not None:
            assign_path(model_fields, path, value)
    if structured_output.should_send_schema(request, tools=tools):
        schema = {"schema": wirejson.dumps_text(request.fit_output_schema())}
        output["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    option_table.record_parallel_calls_loss(request, "Converse has no such switch")
    if request.used.take("prompt_cache") and not request.target.capabilities.supports_prompt_caching:
        option_table.record_cache_hint_loss(request)
    own: Fields = {}
    REQUEST_OPTIONS.encode(request, own)
    choice = option_table.tool_choice(request, tools=tools, reasoning=reasoning)
    tool_choice: Fields = {"any" if choice == "required" else "auto": {}}
    if isinstance(choice, NamedTool):
        tool_choice = {"tool": {"name": choice.name}}
    fields = {
        **own,
        "inferenceConfig": inference,
        "toolConfig": {} if choice in (None, "none") else {"toolChoice": tool_choice},
        "additionalModelRequestFields": model_fields,
        "outputConfig": output,
    }
    request.record_unused_options(OPTIONS.absent)
    return {name: value for name, value in fields.items() if value}


def _encode_thinking(request: RequestBuilder) -> tuple[Fields, Fields]:
    """Encode the reasoning options for the model's family: the model's own fields, and those of outputConfig.

    models.toml has the word of the family, or the field of models that take a level and nothing else.
    """
    options = request.options
    if options.thinking is None and options.effort is None and options.thinking_budget is None:
        return {}, {}
    requested = {name: request.used.take(name) for name in ("thinking", "effort", "thinking_budget")}
    family = request.target.capabilities.wire["reasoning"]
    if family != "none":
        encode = {"claude": _claude_thinking, "nova": _nova_thinking}.get(family)
        return encode(request) if encode else (_encode_level(request, family), {})
    for name, value in requested.items():
        if value is not None and value not in (False, "none"):
            request.record_option_loss(name, f"{request.target.model} does not reason at request")
    return {}, {}


def _is_thinking_off(request: RequestBuilder) -> bool:
    return request.options.thinking is False or request.options.effort == "none"


def _claude_thinking(request: RequestBuilder) -> tuple[Fields, Fields]:
    """Encode thinking of Claude: a budget on older models, adaptive on newer ones, off if the model allows it; and
    effort levels.
    """
    options, capabilities, model = request.options, request.target.capabilities, request.target.model
    mode = capabilities.wire["thinking"]
    model_fields: Fields = {}
    if _is_thinking_off(request):
        if capabilities.thinking_off:
            model_fields = {"thinking": {"type": "disabled"}} if mode != "none" else {}
        else:
            request.record_option_loss("thinking", f"{model} always thinks; the lowest effort is asked for")
    elif options.thinking_budget is not None and mode == "budget":
        limit = options.max_output_tokens or capabilities.max_output_tokens
        if (budget := option_table.thinking_budget(request, options.thinking_budget, limit)) is not None:
            model_fields = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    elif options.thinking and mode == "adaptive":
        model_fields = {"thinking": {"type": "adaptive", "display": "summarized"}}
    elif options.thinking_budget is not None:
        request.record_option_loss("thinking_budget", f"{model} takes no budget")
    elif options.thinking:
        request.record_option_loss("thinking", f"{model} thinks only with a thinking_budget")
    effort = choose_effort(request)
    return model_fields, {} if effort is None else {"effort": effort}


def _nova_thinking(request: RequestBuilder) -> tuple[Fields, Fields]:
    """Encode Nova's reasoning: a level, or off (docs.aws.amazon.com/nova/latest/nova2-userguide, extended thinking)."""
    if _is_thinking_off(request):
        return {"reasoningConfig": {"type": "disabled"}}, {}
    level = option_table.nearest_effort(request, request.options.effort or "medium", _LEVELS) or "medium"
    _record_budget_loss(request)
    return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}, {}


def _encode_level(request: RequestBuilder, field: str) -> Fields:
    """Encode the effort for models whose only option is a level, in a field of that name."""
    _record_budget_loss(request)
    if _is_thinking_off(request):
        request.record_option_loss("thinking", f"{request.target.model} always reasons")
        return {}
    if request.options.effort is None:
        return {}
    levels = request.target.capabilities.wire.get("efforts") or _LEVELS
    level = option_table.nearest_effort(request, request.options.effort, levels)
    return {} if level is None else {field: level}


def _record_budget_loss(request: RequestBuilder) -> None:
    if request.options.thinking_budget is not None:
        request.record_option_loss("thinking_budget", f"{request.target.model} takes levels, not budgets")


def cache_point(lifetime: str) -> Fields:
    """Return the marker up to which a prompt is cached; its default lifetime is five minutes."""
    return {"cachePoint": {"type": "default"} | ({"ttl": lifetime} if lifetime != "5m" else {})}


def decode_options(native: Fields, target: Target, context: RequestContext) -> AdapterOptions:
    """Decode the options of a request.

    Only the path says whether to stream.
    """
    inference = native.get("inferenceConfig") or {}
    config = native.get("toolConfig") or {}
    model_fields = native.get("additionalModelRequestFields") or {}
    output = native.get("outputConfig") or {}
    has_tools = bool(config.get("tools"))
    thinking = model_fields.get("thinking")
    thinking = thinking if isinstance(thinking, dict) else {}
    top_k = target.capabilities.wire["top_k"]
    output_schema: dict[str, Any] | None = None
    text = lookup_path(output, "textFormat.structure.jsonSchema.schema")
    if isinstance(text, str) and structured_output.supports_native_schema(target.capabilities, tools=has_tools):
        schema, malformed = wirejson.parse_arguments(text)
        output_schema = schema if malformed is None else None
    options = AdapterOptions(
        **OPTIONS.decode(inference),
        **REQUEST_OPTIONS.decode(native),
        top_k=lookup_path(model_fields, top_k) if top_k else None,
        tool_choice=_decode_tool_choice(config.get("toolChoice") or {}),
        output_schema=output_schema,
        effort=output.get("effort"),
        thinking=None if not thinking else thinking.get("type") != "disabled",
        thinking_budget=thinking.get("budget_tokens"),
        context=context,
    )
    rest = dict(native)
    if others := {name: value for name, value in config.items() if name != "tools"}:
        rest["toolConfig"] = others
    else:
        rest.pop("toolConfig", None)
    conversation = ["messages"] + (["system"] if native.get("system") else [])
    return keep_other_fields(options, rest, target, partial(encode_options, tools=has_tools), conversation)


def _decode_tool_choice(native: Fields) -> Any:
    match native:
        case {"tool": {"name": str(name)}}:
            return NamedTool(name)
        case {"any": _}:
            return "required"
        case {"auto": _}:
            return "auto"
        case _:
            return None

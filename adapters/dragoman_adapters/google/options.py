"""Options to generationConfig and toolConfig (wire reference 6 and 8.4)."""

from typing import Any

from dragoman.adapter.contract import NamedTool
from dragoman.adapter.requests import option_support, schemas, structured_output
from dragoman.adapter.requests.request_builder import RequestBuilder

OPTION_FIELDS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_output_tokens": "maxOutputTokens",
    "seed": "seed",
}
"""Our options and the names of Google's."""

MERGED_FIELDS = frozenset(
    {"systemInstruction", "tools", "generationConfig", "thinkingConfig", "toolConfig", "functionCallingConfig"}
)
"""Where a caller's own fields are laid over ours one by one, instead of in place of them all."""

JSON_TYPE = "application/json"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    encoded: dict[str, Any] = {}
    if config := _encode_generation_config(request, tools=tools):
        encoded["generationConfig"] = config
    if choice := _encode_tool_choice(request, tools=tools):
        encoded["toolConfig"] = {"functionCallingConfig": choice}
    if request.options.parallel_tool_calls is False:
        request.record_option_loss("parallel_tool_calls", "Google has no such switch")
    option_support.record_cache_hint_loss(request)
    return encoded


def _encode_generation_config(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    options = request.options
    config: dict[str, Any] = {
        theirs: value for ours, theirs in OPTION_FIELDS.items() if (value := getattr(options, ours)) is not None
    }
    if stop := option_support.stop_sequences(request):
        config["stopSequences"] = stop
    if structured_output.should_send_schema(request, tools=tools):
        config |= {"responseMimeType": JSON_TYPE, "responseJsonSchema": schemas.fit_output_schema(request)}
    if thinking := _encode_thinking(request):
        config["thinkingConfig"] = thinking
    return config


def _encode_tool_choice(request: RequestBuilder, *, tools: bool) -> dict[str, Any] | None:
    choice = option_support.tool_choice(request, tools=tools, reasoning=False)
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": _MODES[choice]} if choice else None


def _encode_thinking(request: RequestBuilder) -> dict[str, Any]:
    """Older models take a budget of tokens, newer ones a level; a budget alone is still read by these."""
    options, capabilities = request.options, request.target.capabilities
    facts, model = capabilities.wire, request.target.model
    field = "thinkingLevel" if facts["thinking"] == "level" else "thinkingBudget"
    if not capabilities.supports_thinking:
        for name in ("thinking", "effort", "thinking_budget"):
            if getattr(options, name) not in (None, False, "none", 0):
                request.record_option_loss(name, f"{model} does not think")
        return {}
    if options.thinking is False or options.effort == "none":
        if not capabilities.thinking_off:
            request.record_option_loss("thinking", f"{model} always thinks; as little as it can is asked for")
        return {field: facts["thinking_least"]}
    config: dict[str, Any] = {"includeThoughts": True} if options.thinking else {}
    effort: dict[str, Any] = facts["thinking_effort"]
    if options.effort is not None:
        if options.effort in effort:
            config[field] = effort[options.effort]
        else:
            request.record_option_loss("effort", f"{options.effort!r} is no level of {model}")
    if options.thinking_budget is not None:
        if "thinkingLevel" in config:
            request.record_option_loss("thinking_budget", f"{model} takes a level or a budget, not both")
        else:
            config["thinkingBudget"] = options.thinking_budget
    return config

"""Options to generationConfig and toolConfig (wire reference 6 and 8.4)."""

from typing import Any

from dragoman.adapter import demands, schemas, structured
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.outgoing import Outgoing

SETTINGS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_output_tokens": "maxOutputTokens",
    "seed": "seed",
}
"""Our options and the names of Google's."""

MERGED = frozenset(
    {"systemInstruction", "tools", "generationConfig", "thinkingConfig", "toolConfig", "functionCallingConfig"}
)
"""Where a caller's own fields are laid over ours one by one, instead of in place of them all."""

JSON = "application/json"
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def parameters(request: Outgoing, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    encoded: dict[str, Any] = {}
    if config := _generation(request, tools=tools):
        encoded["generationConfig"] = config
    if choice := _tool_choice(request, tools=tools):
        encoded["toolConfig"] = {"functionCallingConfig": choice}
    if request.options.parallel_tool_calls is False:
        request.lose_option("parallel_tool_calls", "Google has no such switch")
    demands.lose_cache_hint(request)
    return encoded


def _generation(request: Outgoing, *, tools: bool) -> dict[str, Any]:
    options = request.options
    config: dict[str, Any] = {
        theirs: value for ours, theirs in SETTINGS.items() if (value := getattr(options, ours)) is not None
    }
    if stop := demands.stop_sequences(request):
        config["stopSequences"] = stop
    if structured.is_written(request, tools=tools):
        config |= {"responseMimeType": JSON, "responseJsonSchema": schemas.fit_output(request)}
    if thinking := _thinking(request):
        config["thinkingConfig"] = thinking
    return config


def _tool_choice(request: Outgoing, *, tools: bool) -> dict[str, Any] | None:
    choice = demands.tool_choice(request, tools=tools, reasons=False)
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": _MODES[choice]} if choice else None


def _thinking(request: Outgoing) -> dict[str, Any]:
    """Older models take a budget of tokens, newer ones a level; a budget alone is still read by these."""
    options, abilities = request.options, request.adapter.capabilities
    facts, model = abilities.wire, request.adapter.model
    field = "thinkingLevel" if facts["thinking"] == "level" else "thinkingBudget"
    if not abilities.supports_thinking:
        for name in ("thinking", "effort", "thinking_budget"):
            if getattr(options, name) not in (None, False, "none", 0):
                request.lose_option(name, f"{model} does not think")
        return {}
    if options.thinking is False or options.effort == "none":
        if not abilities.thinking_off:
            request.lose_option("thinking", f"{model} always thinks; as little as it can is asked for")
        return {field: facts["thinking_least"]}
    config: dict[str, Any] = {"includeThoughts": True} if options.thinking else {}
    effort: dict[str, Any] = facts["thinking_effort"]
    if options.effort is not None:
        if options.effort in effort:
            config[field] = effort[options.effort]
        else:
            request.lose_option("effort", f"{options.effort!r} is no level of {model}")
    if options.thinking_budget is not None:
        if "thinkingLevel" in config:
            request.lose_option("thinking_budget", f"{model} takes a level or a budget, not both")
        else:
            config["thinkingBudget"] = options.thinking_budget
    return config

"""Options to the fields of a Converse request, and to those that only one family of models reads."""

from collections.abc import Callable
from typing import Any

from dragoman.adapter import demands, schemas, structured, wirejson
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.outgoing import Outgoing
from dragoman_anthropic.encode import EFFORTS

Fields = dict[str, Any]

OPTIONS = {"max_output_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
"""Our options and the names of Converse's."""

MERGED = frozenset({"inferenceConfig", "additionalModelRequestFields", "outputConfig", "textFormat", "toolConfig"})
"""Fields of which a caller may set a part: theirs are laid over ours one by one."""

_LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def parameters(request: Outgoing, *, tools: bool) -> Fields:
    """Everything but the conversation and the tools."""
    options = request.options
    inference = {name: value for ours, name in OPTIONS.items() if (value := _sampled(request, ours)) is not None}
    if stop := demands.stop_sequences(request):
        inference["stopSequences"] = stop
    own, output = _reasoning(request)
    if (top_k := _sampled(request, "top_k")) is not None:
        _lay(own, request.adapter.capabilities.wire["top_k"], top_k)
    if structured.is_written(request, tools=tools):
        schema = {"schema": wirejson.dumps_text(schemas.fit_output(request))}
        output["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    if options.seed is not None:
        request.lose_option("seed", "Converse has none")
    if options.parallel_tool_calls is False:
        request.lose_option("parallel_tool_calls", "Converse has no such switch")
    if options.prompt_cache and not request.adapter.capabilities.supports_prompt_caching:
        demands.lose_cache_hint(request)
    fields = {
        "inferenceConfig": inference,
        "toolConfig": _tool_choice(request, tools=tools),
        "additionalModelRequestFields": own,
        "outputConfig": output,
    }
    return {name: value for name, value in fields.items() if value}


def _sampled(request: Outgoing, name: str) -> Any:
    """An option's value, None where there is none or the model does not take it."""
    value = getattr(request.options, name)
    if value is None or name not in ("temperature", "top_p", "top_k"):
        return value
    if name == "top_k" and not request.adapter.capabilities.wire["top_k"]:
        request.lose_option(name, f"{request.adapter.model} takes none")
        return None
    return demands.sampled(request, name, reasons=_thinks(request))


def _lay(fields: Fields, path: list[str], value: Any) -> None:
    """Puts a value where a path of names leads."""
    *groups, last = path
    for name in groups:
        fields = fields.setdefault(name, {})
    fields[last] = value


def _tool_choice(request: Outgoing, *, tools: bool) -> Fields:
    choice = demands.tool_choice(request, tools=tools, reasons=_thinks(request))
    if choice in (None, "none"):
        return {}
    if isinstance(choice, NamedTool):
        return {"toolChoice": {"tool": {"name": choice.name}}}
    return {"toolChoice": {"any" if choice == "required" else "auto": {}}}


def _thinks(request: Outgoing) -> bool:
    options = request.options
    return bool(options.thinking or options.thinking_budget) and options.effort != "none"


def _reasoning(request: Outgoing) -> tuple[Fields, Fields]:
    """The model's own fields and those of outputConfig, by the family's way to ask for reasoning."""
    options, way = request.options, request.adapter.capabilities.wire["reasoning"]
    if options.thinking is None and options.thinking_budget is None and options.effort is None:
        return {}, {}
    if write := _WAYS.get(way):
        return write(request)
    if options.thinking or options.thinking_budget is not None or options.effort not in (None, "none"):
        asked = {"thinking": options.thinking, "effort": options.effort, "thinking_budget": options.thinking_budget}
        for name, value in asked.items():
            if value not in (None, False, "none"):
                request.lose_option(name, f"{request.adapter.model} does not reason at request")
    return {}, {}


def _off(request: Outgoing) -> bool:
    return request.options.thinking is False or request.options.effort == "none"


def _claude(request: Outgoing) -> tuple[Fields, Fields]:
    """A budget on older models, adaptive on newer ones, off only where it can be; levels stand beside."""
    options, abilities, model = request.options, request.adapter.capabilities, request.adapter.model
    effort, way = options.effort, abilities.wire["thinking"]
    own: Fields = {}
    if _off(request):
        if abilities.thinking_off:
            return ({"thinking": {"type": "disabled"}}, {}) if way != "none" else ({}, {})
        request.lose_option("thinking", f"{model} always thinks; the lowest effort is asked for")
        effort = "low"
    elif options.thinking_budget is not None and way == "budget":
        own = {"thinking": {"type": "enabled", "budget_tokens": options.thinking_budget}}
    elif options.thinking and way == "adaptive":
        own = {"thinking": {"type": "adaptive", "display": "summarized"}}
    elif options.thinking_budget is not None:
        request.lose_option("thinking_budget", f"{model} takes no budget")
    elif options.thinking:
        request.lose_option("thinking", f"{model} thinks only with a thinking_budget")
    if effort is None:
        return own, {}
    if not abilities.wire["effort"] or effort not in EFFORTS:
        request.lose_option("effort", f"{effort!r} is no level of {model}")
        return own, {}
    return own, {"effort": EFFORTS[effort]}


def _nova(request: Outgoing) -> tuple[Fields, Fields]:
    """On with a level, or off; docs.aws.amazon.com/nova/latest/nova2-userguide, extended thinking."""
    if _off(request):
        return {"reasoningConfig": {"type": "disabled"}}, {}
    level = _LEVELS.get(request.options.effort or "medium", "medium")
    _lose_budget(request)
    return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}, {}


def _levels(field: str) -> Callable[[Outgoing], tuple[Fields, Fields]]:
    """Models whose only switch is a level, in a field of that name."""

    def write(request: Outgoing) -> tuple[Fields, Fields]:
        _lose_budget(request)
        if _off(request):
            request.lose_option("thinking", f"{request.adapter.model} always reasons")
            return {}, {}
        if request.options.effort is None:
            return {}, {}
        return {field: _LEVELS.get(request.options.effort, "medium")}, {}

    return write


def _lose_budget(request: Outgoing) -> None:
    if request.options.thinking_budget is not None:
        request.lose_option("thinking_budget", f"{request.adapter.model} takes levels, not budgets")


_WAYS: dict[str, Callable[[Outgoing], tuple[Fields, Fields]]] = {
    "claude": _claude,
    "nova": _nova,
    "effort": _levels("reasoning_effort"),
    "config": _levels("reasoning_config"),
}
"""How a family is asked to reason, by the word in models.toml."""


def cache_point(lifetime: str) -> Fields:
    """The marker up to which a prompt is cached; five minutes is what a marker means that says nothing."""
    return {"cachePoint": {"type": "default"} | ({"ttl": lifetime} if lifetime != "5m" else {})}

"""Options and the parameters of a chat request, in both directions (wire reference 3, 4 and 8.4)."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.adapter import demands, schemas, structured
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.incoming import leftover
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman_openai.chat.dialect import Dialect, Path, assign, lookup
from dragoman_openai.strict import strict_schema

if TYPE_CHECKING:
    from dragoman_openai.chat.adapter import ChatAdapter

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

SCHEMA_NAME = "answer"
"""The wire wants a name for a schema; it is of no consequence."""


def write(request: Outgoing, dialect: Dialect, *, tools: bool) -> dict[str, Any]:
    """Everything but the model, the conversation and the tools. Caching is automatic, but for models that say so."""
    options = request.options
    encoded: dict[str, Any] = {}
    if options.stream:
        encoded["stream"] = True
        if dialect.stream_usage:
            encoded["stream_options"] = {"include_usage": True}
    if options.max_output_tokens is not None:
        assign(encoded, dialect.max_tokens, options.max_output_tokens)
    if options.stop_sequences:
        _stop(request, dialect, encoded)
    level = _reasoning(request, dialect, encoded, tools=tools)
    _sampling(request, dialect, encoded, reasons=level != "none")
    if options.output_schema is not None:
        _response_format(request, dialect, encoded, tools=tools)
    _cache(request, encoded)
    _tool_choice(request, dialect, encoded, tools=tools, reasons=level != "none")
    return encoded


def _cache(request: Outgoing, encoded: dict[str, Any]) -> None:
    asked, abilities = request.options.prompt_cache, request.adapter.capabilities
    if asked is not None and abilities.wire.get("cache_control"):
        encoded["cache_control"] = {"type": "ephemeral", **({} if asked == "5m" else {"ttl": asked})}
    elif asked == "1h" or not abilities.supports_prompt_caching:
        demands.lose_cache_hint(request)


def _stop(request: Outgoing, dialect: Dialect, encoded: dict[str, Any]) -> None:
    if dialect.stop is None:
        request.lose_option("stop_sequences", "the endpoint has none")
    elif stop := demands.stop_sequences(request):
        assign(encoded, dialect.stop, stop)


def may_reason(request: Outgoing) -> bool:
    """Whether the model may reason about this request."""
    options, efforts = request.options, request.adapter.capabilities.wire.get("efforts")
    return not (options.thinking is False or options.effort == "none" or efforts == [])


def _reasoning(request: Outgoing, dialect: Dialect, encoded: dict[str, Any], *, tools: bool) -> str | None:
    """Writes what switches and measures reasoning; the level at which the model will reason, None if it is unknown."""
    options, facts = request.options, request.adapter.capabilities.wire
    abilities = request.adapter.capabilities
    off = options.thinking is False or options.effort == "none"
    if off and dialect.thinking_off and abilities.thinking_off:
        encoded |= deepcopy(dialect.thinking_off)
        return "none"
    if off and dialect.thinking_off:
        request.lose_option("thinking", f"{request.adapter.model} always reasons")
    if options.thinking and not off:
        encoded |= deepcopy(dialect.thinking_on)
    if options.thinking_budget is not None:
        if dialect.thinking_budget is None:
            request.lose_option("thinking_budget", f"{request.adapter.model} takes levels of effort, no budget")
        else:
            assign(encoded, dialect.thinking_budget, options.thinking_budget)
    level = _level(request, dialect, "none" if off else options.effort, tools=tools)
    if level is not None and dialect.effort is not None:
        assign(encoded, dialect.effort, level)
    elif options.thinking and not dialect.thinking_on and facts.get("efforts") != []:
        reason = "thinking: the endpoint has no switch that shows it; the model reasons as it does by itself"
        request.lose(LossKind.OPTION, reason, Severity.INFO)
    if facts.get("efforts") == []:
        return "none"  # a model that never reasons
    return level or facts.get("default_effort")


def _level(request: Outgoing, dialect: Dialect, wanted: str | None, *, tools: bool) -> str | None:
    """The effort to ask for, moved to the nearest that the model has; None leaves it to the model."""
    facts, model = request.adapter.capabilities.wire, request.adapter.model
    levels: list[str] | None = facts.get("efforts")
    if tools and facts.get("tools_effort"):
        forced: str = facts["tools_effort"]
        if wanted != forced:
            request.lose_option("effort", f"{model} calls tools on this wire only with the effort {forced}")
        return forced
    if wanted is None and request.options.thinking and facts.get("default_effort") == "none":
        wanted = "medium"
    if wanted is None or (levels is not None and wanted in levels):
        return wanted
    if dialect.effort is None or levels == []:
        if wanted != "none" or not request.adapter.capabilities.thinking_off:
            request.lose_option("effort", f"{model} has no levels of effort")
        return None
    if levels is None:
        return wanted
    if wanted not in LEVELS:
        request.lose_option("effort", f"{wanted!r} is no level of {model}")
        return None
    nearest = min(levels, key=lambda level: abs(_rank(level) - _rank(wanted)))
    request.lose_option("effort", f"{model} has no level {wanted}: {nearest} is asked for")
    return nearest


def _rank(level: str) -> int:
    """A level's place among ours; a word of the endpoint's own, such as default, stands in the middle."""
    return LEVELS.index(level if level in LEVELS else "medium")


def _sampling(request: Outgoing, dialect: Dialect, encoded: dict[str, Any], *, reasons: bool) -> None:
    options = request.options
    paths: dict[str, Path | None] = {"temperature": "temperature", "top_p": "top_p", "top_k": dialect.top_k}
    for name, path in paths.items():
        if path is None and getattr(options, name) is not None:
            request.lose_option(name, "the endpoint has none")
        elif path is not None and (value := demands.sampled(request, name, reasons=reasons)) is not None:
            assign(encoded, path, value)
    if options.seed is not None:
        if dialect.seed is None:
            request.lose_option("seed", "the endpoint has none")
        else:
            assign(encoded, dialect.seed, options.seed)


def _response_format(request: Outgoing, dialect: Dialect, encoded: dict[str, Any], *, tools: bool) -> None:
    """A schema is binding only in strict mode; one that has no strict form goes as a hint."""
    if not structured.is_written(request, tools=tools):
        if dialect.schema_format == "json_object" and not tools:
            encoded["response_format"] = {"type": "json_object"}
    else:
        schema = schemas.fit_output(request)
        strict = strict_schema(schema)
        if strict is None:
            request.lose_option("output_schema", "the schema has no strict form: it is sent as a hint")
        described = {"name": SCHEMA_NAME, "schema": strict or schema, "strict": strict is not None}
        encoded["response_format"] = {"type": "json_schema", "json_schema": described}


def _tool_choice(request: Outgoing, dialect: Dialect, encoded: dict[str, Any], *, tools: bool, reasons: bool) -> None:
    choice = demands.tool_choice(request, tools=tools, reasons=reasons)
    if isinstance(choice, NamedTool):
        if dialect.named_tool_choice:
            encoded["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        else:
            request.lose_option("tool_choice", "the endpoint cannot be told which tool to call")
    elif choice is not None:
        if choice in dialect.tool_choices:
            encoded["tool_choice"] = dialect.tool_choices[choice]
        else:
            request.lose_option("tool_choice", f"the endpoint has no word for {choice!r}")
    if tools and request.options.parallel_tool_calls is not None:
        if dialect.parallel_tool_calls:
            encoded["parallel_tool_calls"] = request.options.parallel_tool_calls
        else:
            request.lose_option("parallel_tool_calls", "the endpoint has no such switch")


def read(native: dict[str, Any], adapter: "ChatAdapter", context: RequestContext) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field."""
    dialect = adapter.dialect
    stop = native.get("stop") or ()
    schema = lookup(native, "response_format.json_schema.schema")
    offered = [key for key in ("tools", "functions") if native.get(key)]
    binds = structured.is_native(adapter.capabilities, tools=bool(offered))
    effort = lookup(native, dialect.effort) if dialect.effort else None
    limit = lookup(native, dialect.max_tokens)
    for older in ("max_completion_tokens", "max_tokens"):
        limit = native.get(older) if limit is None else limit
    options = AdapterOptions(
        max_output_tokens=limit,
        temperature=native.get("temperature"),
        top_p=native.get("top_p"),
        top_k=lookup(native, dialect.top_k) if dialect.top_k else None,
        seed=lookup(native, dialect.seed) if dialect.seed else None,
        stop_sequences=(stop,) if isinstance(stop, str) else tuple(stop),
        tool_choice=_choice_read(native.get("tool_choice", native.get("function_call")), dialect),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=schema if binds else None,
        effort=effort,
        thinking=_thinking(native, dialect),
        thinking_budget=lookup(native, dialect.thinking_budget) if dialect.thinking_budget else None,
        stream=native.get("stream") or False,
        context=context,
    )
    written = write(Outgoing(adapter, options, context, (), []), dialect, tools=bool(offered))
    extra = leftover(native, written, ["model", "messages", *offered])
    return replace(options, extra={adapter.provider: extra}) if extra else options


def _choice_read(native: Any, dialect: Dialect) -> Any:
    """Ours for the provider's word or object; a choice among several tools counts as its mode."""
    if isinstance(native, str):
        return next((ours for ours, theirs in dialect.tool_choices.items() if theirs == native), None)
    if not isinstance(native, dict):
        return None
    inner = native.get(str(native.get("type")))
    inner = inner if isinstance(inner, dict) else native
    return NamedTool(inner["name"]) if "name" in inner else _choice_read(inner.get("mode"), dialect)


def _thinking(native: Mapping[str, Any], dialect: Dialect) -> bool | None:
    """What the switches of the dialect say; None where they say nothing."""
    for thinking, fields in ((False, dialect.thinking_off), (True, dialect.thinking_on)):
        if fields and all(_holds(native.get(name), value) for name, value in fields.items()):
            return thinking
    return None


def _holds(given: Any, asked: Any) -> bool:
    if isinstance(asked, dict) and isinstance(given, dict):
        return all(_holds(given.get(name), value) for name, value in asked.items())
    return bool(given == asked)

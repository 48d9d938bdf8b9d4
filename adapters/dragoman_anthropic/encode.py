"""Canonical to wire: the body of a Messages request (wire reference 2.2, 2.3 and 2.5)."""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.adapter.contract import NamedTool
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition

LATEST_VERSION = "2026-10-21"
SAMPLING_VERSION = "2023-06-01"
"""The last version that takes temperature, top_p and top_k."""

SAMPLING = ("temperature", "top_p", "top_k")
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}

ToolId = Callable[[str], str]


def body(request: Outgoing, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body; keys in the order in which the provider documents them."""
    system, listed = _hoist(request.turns, request.provider)
    encoded: dict[str, Any] = {"model": request.adapter.model}
    encoded |= parameters(request)
    if system:
        encoded["system"] = _system(request, system)
    encoded["messages"] = _messages(request, listed)
    if usable := request.usable(tools):
        encoded["tools"] = [tool(definition, request.provider) for definition in usable]
    return encoded


def version(encoded: dict[str, Any]) -> str:
    """The API version that a body needs: sampling parameters exist only in the older one (wire reference 2.1)."""
    return SAMPLING_VERSION if any(name in encoded for name in SAMPLING) else LATEST_VERSION


def parameters(request: Outgoing) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options, abilities = request.options, request.adapter.capabilities
    encoded: dict[str, Any] = {"max_tokens": options.max_output_tokens or abilities.wire["default_max_tokens"]}
    if options.stop_sequences:
        encoded["stop_sequences"] = list(options.stop_sequences)
    if options.stream:
        encoded["stream"] = True
    for name in SAMPLING:
        value = getattr(options, name)
        if value is not None and abilities.sampling == "never":
            request.lose_option(name, f"{request.adapter.model} takes no sampling parameters")
        elif value is not None:
            encoded[name] = value
    if options.seed is not None:
        request.lose_option("seed", "the Messages API has none")
    if thinking := _thinking(request):
        encoded["thinking"] = thinking
    if config := _output_config(request):
        encoded["output_config"] = config
    if choice := _tool_choice(request, thinks=thinking is not None and thinking["type"] != "disabled"):
        encoded["tool_choice"] = choice
    if options.prompt_cache:
        encoded["cache_control"] = {"type": "ephemeral", "ttl": options.prompt_cache}
    return encoded


def _thinking(request: Outgoing) -> dict[str, Any] | None:
    """Per model: a budget on older models, adaptive on newer ones, off only where it can be (wire reference 2.6)."""
    options, facts = request.options, request.adapter.capabilities.wire
    if options.thinking is False or options.effort == "none":
        if request.adapter.capabilities.thinking_off:
            return {"type": "disabled"}
        request.lose_option("thinking", f"{request.adapter.model} always thinks; the lowest effort is asked for")
        return None
    if options.thinking_budget is not None and facts["thinking"] == "budget":
        return {"type": "enabled", "budget_tokens": options.thinking_budget}
    if options.thinking and facts["thinking"] == "adaptive":
        return {"type": "adaptive", "display": "summarized"}
    if options.thinking_budget is not None:
        request.lose_option("thinking_budget", f"{request.adapter.model} takes no budget")
    elif options.thinking:
        request.lose_option("thinking", f"{request.adapter.model} thinks only with a thinking_budget")
    return None


def _output_config(request: Outgoing) -> dict[str, Any] | None:
    options, abilities = request.options, request.adapter.capabilities
    config: dict[str, Any] = {}
    effort = options.effort
    if (options.thinking is False or effort == "none") and not abilities.thinking_off:
        effort = "low"
    if effort is not None and effort != "none":
        if not abilities.wire["effort"]:
            request.lose_option("effort", f"{request.adapter.model} has no effort levels")
        elif effort in EFFORTS:
            config["effort"] = EFFORTS[effort]
        else:
            request.lose_option("effort", f"{effort!r} is no level of {request.adapter.model}")
    if options.output_schema is not None:
        if abilities.supports_structured_output:
            config["format"] = {"type": "json_schema", "schema": dict(options.output_schema)}
        else:
            request.lose_option("output_schema", f"{request.adapter.model} has no structured output")
    return config or None


def _tool_choice(request: Outgoing, *, thinks: bool) -> dict[str, Any] | None:
    choice, rule = request.options.tool_choice, request.adapter.capabilities.forced_tool_choice
    forced = choice == "required" or isinstance(choice, NamedTool)
    if forced and (rule == "never" or (thinks and rule == "without_reasoning")):
        request.lose_option("tool_choice", f"{request.adapter.model} cannot be forced to call a tool; it may choose")
        choice = "auto"
    encoded: dict[str, Any] | None = None
    if isinstance(choice, NamedTool):
        encoded = {"type": "tool", "name": choice.name}
    elif choice is not None:
        encoded = {"type": {"auto": "auto", "none": "none", "required": "any"}[choice]}
    if request.options.parallel_tool_calls is not None and choice != "none":
        encoded = encoded or {"type": "auto"}
        encoded["disable_parallel_tool_use"] = not request.options.parallel_tool_calls
    return encoded


def tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """A tool; one that the provider runs itself goes back as it was read."""
    raw = definition.provider_raw or {}
    if raw.get("by") == provider and "native" in raw:
        return dict(raw["native"])
    encoded: dict[str, Any] = {"name": definition.name, "input_schema": definition.input_schema}
    if definition.description:
        encoded["description"] = definition.description
    return restore(encoded, raw.get("residue") if raw.get("by") == provider else None)


def _hoist(turns: Sequence[Turn], provider: str) -> tuple[list[Turn], list[Turn]]:
    """Leading system turns, and the rest. A system message that was read from inside the list stays there."""
    for position, turn in enumerate(turns):
        if turn.role not in (Role.SYSTEM, Role.DEVELOPER) or turn.raw(provider).get("in_list"):
            return list(turns[:position]), list(turns[position:])
    return list(turns), []


def _system(request: Outgoing, turns: Sequence[Turn]) -> str | list[dict[str, Any]]:
    blocks = [encoded for turn in turns for encoded in _blocks(request, turn)]
    as_list = any(turn.raw(request.provider).get("list") for turn in turns)
    return blocks if as_list else _compact(blocks)


def _messages(request: Outgoing, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Tool results of one turn share one user message, in front of whatever the user adds (wire reference 8.2)."""
    encoded: list[dict[str, Any]] = []
    previous: Turn | None = None
    for turn in turns:
        blocks = _blocks(request, turn)
        raw = turn.raw(request.provider)
        joins = (
            raw.get("joined", previous is not None and previous.role is Role.TOOL)
            if turn.role is Role.TOOL
            else raw.get("joined")
        )
        if joins and previous is not None and previous.role is Role.TOOL:
            encoded[-1]["content"] += blocks
        else:
            content = (
                blocks if raw.get("list") or turn.role is Role.TOOL else _compact(blocks, only=raw.get("string", False))
            )
            encoded.append({"role": _ROLES[turn.role], "content": content})
        previous = turn
    return encoded


_ROLES = {
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
    Role.SYSTEM: "system",
    Role.DEVELOPER: "system",
}


def _compact(blocks: list[dict[str, Any]], *, only: bool = True) -> Any:
    """A lone text without any extras, as a string."""
    if only and len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def _blocks(request: Outgoing, turn: Turn) -> list[dict[str, Any]]:
    raw = turn.raw(request.provider)
    notes = raw.get("blocks", {})
    encoded: list[dict[str, Any]] = []
    for index, content in enumerate(turn.blocks):
        request.lose_details(turn, index, "arguments", *(() if raw else ("citations",)))
        if isinstance(content, TextBlock) and content.citations and not raw:
            content = content.model_copy(update={"citations": ()})
        note = notes.get(str(turn.origins[index]), {})
        encoded.append(request.restored(turn, index, block(content, request.tool_id, note)))
    return encoded


def block(content: ContentBlock, tool_id: ToolId, note: dict[str, Any] | None = None) -> dict[str, Any]:
    """One block. ``note`` tells how a tool's answer was laid out when it was read."""
    match content:
        case TextBlock():
            encoded: dict[str, Any] = {"type": "text", "text": content.text}
            if cited := [citation.data for citation in content.citations if citation.data]:
                encoded["citations"] = cited
            return encoded
        case ToolUseBlock():
            return {"type": "tool_use", "id": tool_id(content.id), "name": content.name, "input": content.input}
        case ToolResultBlock():
            return _tool_result(content, tool_id, note or {})
        case ThinkingBlock():
            return {"type": "thinking", "thinking": content.text, "signature": content.signature or ""}
        case RedactedThinkingBlock():
            return {"type": "redacted_thinking", "data": content.data}
        case ImageBlock():
            return {"type": "image", "source": _source(content.source, content.media_type or "image/png")}
        case DocumentBlock():
            encoded = {"type": "document", "source": _source(content.source, content.media_type or "application/pdf")}
            return encoded | {k: v for k in ("title", "context") if (v := getattr(content, k)) is not None}
        case ProviderBlock():
            return content.data
        case _:
            raise TypeError(f"the projection let a {content.type} block through")


def _tool_result(content: ToolResultBlock, tool_id: ToolId, note: dict[str, Any]) -> dict[str, Any]:
    notes = note.get("parts", {})
    parts = [restore(block(part, tool_id), notes.get(str(index))) for index, part in enumerate(content.content)]
    encoded: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_id(content.tool_use_id)}
    encoded["content"] = parts if note.get("list") else (_compact(parts) if parts else "")
    if content.is_error:
        encoded["is_error"] = True
    return encoded


def _source(source: MediaSource, media_type: str) -> dict[str, Any]:
    match source.kind:
        case "base64" | "text":
            return {"type": source.kind, "media_type": media_type, "data": source.data}
        case "url":
            return {"type": "url", "url": source.data}
        case _:
            return {"type": "file", "file_id": source.data}

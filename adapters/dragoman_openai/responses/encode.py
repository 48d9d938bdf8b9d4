"""Canonical to wire: the body of a Responses request (wire reference 3.1 and 3.3). Its items are made in `items`."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from dragoman.adapter import demands, schemas, structured
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.settled import History
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import ProviderBlock, TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai.responses import items, parts
from dragoman_openai.strict import strict_schema

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All levels of reasoning effort, lowest first; each model has some of them."""

_SHOWN_EFFORT = "medium"
"""What asking for thinking means on a model that does not reason by default."""

_SAMPLING = ("temperature", "top_p")
_ABSENT = ("top_k", "seed", "stop_sequences")
_CONTINUE = "Continue."
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LENGTH = 64


def goes_on_from_store(messages: Sequence[Message], extra: Mapping[str, Any]) -> bool:
    """Whether earlier turns live at the provider, so that a result's call may be out of sight."""
    if extra.get("previous_response_id") or extra.get("conversation"):
        return True
    for message in messages:  # plainly, because it looks at all of a history for each request
        for block in message.content:
            if type(block) is ProviderBlock and block.kind == "item_reference":
                return True
    return False


def body(request: Outgoing, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    encoded: dict[str, Any] = {"model": request.adapter.model}
    turns = request.turns
    if instructions := _instructions(turns, request.provider):
        encoded["instructions"] = instructions
        if not turns[0].raw(request.provider):
            request.lose_details(turns[0], 0, "citations")
        turns = turns[1:]
    if turns:
        encoded["input"] = _input(request, turns)
    usable = schemas.fit_tools(request, request.usable(tools))
    encoded |= parameters(request, tools=bool(usable))
    if usable:
        encoded["tools"] = [tool(definition, request.provider) for definition in usable]
    return encoded


def _instructions(turns: Sequence[Turn], provider: str) -> str | None:
    """The text of the first turn, where it goes into ``instructions``.

    That is a system message of one text that was read from there, or from nowhere on this wire. Instructions are no
    part of the history that the provider stores, so a conversation that goes on from its state is told them each
    time, while an item would be added to it each time. Only the first message can be meant: what is added behind it
    must not change how it was sent. Alone it is an item, because a request needs input.
    """
    match turns:
        case [Turn(role=Role.SYSTEM, blocks=(TextBlock(text=text),)) as first, *others]:
            raw = first.raw(provider)
            return text if raw.get("instructions") or (others and not raw) else None
        case _:
            return None


def _input(request: Outgoing, turns: Sequence[Turn]) -> str | History:
    """The items; a string where the request that was read had nothing but one."""
    match turns:
        case [Turn(blocks=(TextBlock(text=text),)) as only] if only.raw(request.provider).get("string"):
            return text
        case _:
            told = request.history(turns, partial(_items, request))
            if not told:
                reason = "nothing is left to send: a user's turn is added"
                request.lose(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
                told.fresh.append({"role": "user", "content": _CONTINUE})
            return told


def _items(request: Outgoing, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    if any(turn.message.channel for turn in turns):
        for role, side in groupby(turns, key=lambda turn: turn.role):
            if role is Role.ASSISTANT:
                _lose_channels(request, list(side))
    return [item for turn in turns for item in items.encode(request, turn)]


def _lose_channels(request: Outgoing, turns: Sequence[Turn]) -> None:
    """Phases stand on texts, and say something of all that is said side by side only where they are the same."""
    if not any(turn.message.channel for turn in turns):
        return
    phases = {items.PHASES.get(turn.message.channel) if turn.message.channel else None for turn in turns}
    spoken = any(parts.is_part(block) for turn in turns for block in turn.blocks)
    if len(phases) > 1 or (phases != {None} and not spoken):
        for turn in turns:
            request.lose_message(turn, LossKind.CHANNEL, "the channel is not told from that of what stands beside it")


def parameters(request: Outgoing, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options, abilities = request.options, request.adapter.capabilities
    encoded: dict[str, Any] = {}
    if options.max_output_tokens is not None:
        encoded["max_output_tokens"] = options.max_output_tokens
    if reasoning := _reasoning(request):
        encoded["reasoning"] = reasoning
    effort = reasoning.get("effort", abilities.wire["default_effort"])
    for name in _SAMPLING:
        if (value := demands.sampled(request, name, reasons=effort != "none")) is not None:
            encoded[name] = value
    for name in _ABSENT:
        if getattr(options, name) not in (None, ()):
            request.lose_option(name, "the Responses API has none")
    if (choice := demands.tool_choice(request, tools=tools, reasons=effort != "none")) is not None:
        encoded["tool_choice"] = {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice
    if tools and options.parallel_tool_calls is not None:
        encoded["parallel_tool_calls"] = options.parallel_tool_calls
    if text := _text(request, tools=tools):
        encoded["text"] = text
    if options.prompt_cache == "1h" and (lifetime := abilities.wire.get("cache_1h")):
        encoded["prompt_cache_options"] = {"ttl": lifetime}
    elif options.prompt_cache == "1h" or not abilities.supports_prompt_caching:
        demands.lose_cache_hint(request)
    if options.stream:
        encoded["stream"] = True
    return encoded


def _reasoning(request: Outgoing) -> dict[str, Any]:
    """Effort and summary, as far as the model has them (wire reference 3.5, model rules)."""
    options, abilities = request.options, request.adapter.capabilities
    if options.thinking_budget is not None:
        request.lose_option("thinking_budget", f"{request.adapter.model} takes an effort, not a budget")
    wanted = "none" if options.thinking is False else options.effort
    if not abilities.supports_thinking:
        if options.thinking or wanted not in (None, "none"):
            request.lose_option("thinking" if options.thinking else "effort", f"{request.adapter.model} has none")
        return {}
    if wanted is None and options.thinking and abilities.wire["default_effort"] == "none":
        wanted = _SHOWN_EFFORT
    encoded: dict[str, Any] = {}
    if wanted is not None:
        levels = abilities.wire["efforts"]
        effort = _nearest(wanted, levels)
        if effort is None:
            request.lose_option(
                "effort", f"{wanted!r} is no level of {request.adapter.model}: {', '.join(levels) or 'it has none'}"
            )
        else:
            encoded["effort"] = effort
            if effort != wanted:
                request.lose_option("effort", f"{request.adapter.model} has no {wanted!r}: {effort!r} is asked for")
    if options.thinking:
        encoded["summary"] = "auto"
    return encoded


def _nearest(wanted: str, levels: Sequence[str]) -> str | None:
    """The level of the model that is nearest to the wanted one, the lower of two; None where there is no such word."""
    if wanted in levels:
        return wanted
    if wanted not in EFFORTS or not levels:
        return None
    rank = EFFORTS.index(wanted)
    return min(levels, key=lambda level: (abs(EFFORTS.index(level) - rank), EFFORTS.index(level)))


def _text(request: Outgoing, *, tools: bool) -> dict[str, Any] | None:
    """The output's schema, named after its title. It binds only where it has a strict form."""
    if not structured.is_written(request, tools=tools):
        return None
    schema = schemas.fit_output(request)
    name = _NOT_IN_NAME.sub("_", str(schema.get("title") or "answer"))[:_NAME_LENGTH]
    strict = strict_schema(schema)
    if strict is None:
        request.lose_option("output_schema", "the schema has no strict form: it is sent as a hint")
    given = schema if strict is None else strict
    return {"format": {"type": "json_schema", "name": name, "schema": given, "strict": strict is not None}}


def tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """A tool; one that the provider runs itself goes back as it was read.

    ``strict`` is always said: left out, the API would try the strict form, which makes optional arguments required.
    """
    raw = definition.provider_raw or {}
    own = raw if raw.get("by") == provider else {}
    if "native" in own:
        return dict(own["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded |= {"parameters": definition.input_schema, "strict": False}
    return restore(encoded, own.get("residue"))

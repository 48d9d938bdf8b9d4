"""Canonical to wire: the body of a Responses request (wire reference 3.1 and 3.3). Its items are made in `items`."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests import option_support, schemas, structured_output
from dragoman.adapter.requests.encode_cache import EncodedHistory
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import ProviderBlock, TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_platform.strict_schema import strict_schema
from dragoman_adapters.openai_responses import encode_blocks, encode_messages

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All levels of reasoning effort, lowest first; each model has some of them."""

_DEFAULT_THINKING_EFFORT = "medium"
"""What asking for thinking means on a model that does not reason by default."""

_SAMPLING = ("temperature", "top_p")
_UNSUPPORTED_OPTIONS = ("top_k", "seed", "stop_sequences")
_CONTINUE = "Continue."
_ILLEGAL_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_LENGTH = 64


def has_stored_history(messages: Sequence[Message], extra: Mapping[str, Any]) -> bool:
    """Whether earlier turns live at the provider, so that a result's call may be out of sight."""
    if extra.get("previous_response_id") or extra.get("conversation"):
        return True
    for message in messages:  # plainly, because it looks at all of a history for each request
        for block in message.content:
            if type(block) is ProviderBlock and block.kind == "item_reference":
                return True
    return False


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    encoded: dict[str, Any] = {"model": request.target.model}
    turns = request.turns
    if instructions := _instructions_text(turns, request.provider):
        encoded["instructions"] = instructions
        if not turns[0].raw(request.provider):
            request.record_field_losses(turns[0], 0, "citations")
        turns = turns[1:]
    if turns:
        encoded["input"] = _encode_input(request, turns)
    usable = schemas.fit_tool_schemas(request, request.usable_tools(tools))
    encoded |= encode_options(request, tools=bool(usable))
    if usable:
        encoded["tools"] = [encode_tool(definition, request.provider) for definition in usable]
    return encoded


def _instructions_text(turns: Sequence[Turn], provider: str) -> str | None:
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


def _encode_input(request: RequestBuilder, turns: Sequence[Turn]) -> str | EncodedHistory:
    """The items; a string where the request that was read had nothing but one."""
    match turns:
        case [Turn(blocks=(TextBlock(text=text),)) as only] if only.raw(request.provider).get("string"):
            return text
        case _:
            history = request.encode_history(turns, partial(_encode_messages, request))
            if not history:
                reason = "nothing is left to send: a user's turn is added"
                request.record_loss(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
                history.new_items.append({"role": "user", "content": _CONTINUE})
            return history


def _encode_messages(request: RequestBuilder, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    if any(turn.message.channel for turn in turns):
        for role, side in groupby(turns, key=lambda turn: turn.role):
            if role is Role.ASSISTANT:
                _record_channel_losses(request, list(side))
    return [item for turn in turns for item in encode_messages.encode_turn(request, turn)]


def _record_channel_losses(request: RequestBuilder, turns: Sequence[Turn]) -> None:
    """Phases stand on texts, and say something of all that is said side by side only where they are the same."""
    if not any(turn.message.channel for turn in turns):
        return
    phases = {encode_messages.PHASES.get(turn.message.channel) if turn.message.channel else None for turn in turns}
    has_text = any(encode_blocks.is_part(block) for turn in turns for block in turn.blocks)
    if len(phases) > 1 or (phases != {None} and not has_text):
        for turn in turns:
            request.record_message_loss(
                turn, LossKind.CHANNEL, "the channel is not told from that of what stands beside it"
            )


def encode_options(request: RequestBuilder, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options, capabilities = request.options, request.target.capabilities
    encoded: dict[str, Any] = {}
    if options.max_output_tokens is not None:
        encoded["max_output_tokens"] = options.max_output_tokens
    if reasoning := _encode_thinking(request):
        encoded["reasoning"] = reasoning
    effort = reasoning.get("effort", capabilities.wire["default_effort"])
    for name in _SAMPLING:
        if (value := option_support.sampling_value(request, name, reasoning=effort != "none")) is not None:
            encoded[name] = value
    for name in _UNSUPPORTED_OPTIONS:
        if getattr(options, name) not in (None, ()):
            request.record_option_loss(name, "the Responses API has none")
    if (choice := option_support.tool_choice(request, tools=tools, reasoning=effort != "none")) is not None:
        encoded["tool_choice"] = {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice
    if tools and options.parallel_tool_calls is not None:
        encoded["parallel_tool_calls"] = options.parallel_tool_calls
    if text := _encode_text_format(request, tools=tools):
        encoded["text"] = text
    if options.prompt_cache == "1h" and (lifetime := capabilities.wire.get("cache_1h")):
        encoded["prompt_cache_options"] = {"ttl": lifetime}
    elif options.prompt_cache == "1h" or not capabilities.supports_prompt_caching:
        option_support.record_cache_hint_loss(request)
    if options.stream:
        encoded["stream"] = True
    return encoded


def _encode_thinking(request: RequestBuilder) -> dict[str, Any]:
    """Effort and summary, as far as the model has them (wire reference 3.5, model rules)."""
    options, capabilities = request.options, request.target.capabilities
    if options.thinking_budget is not None:
        request.record_option_loss("thinking_budget", f"{request.target.model} takes an effort, not a budget")
    requested = "none" if options.thinking is False else options.effort
    if not capabilities.supports_thinking:
        if options.thinking or requested not in (None, "none"):
            request.record_option_loss("thinking" if options.thinking else "effort", f"{request.target.model} has none")
        return {}
    if requested is None and options.thinking and capabilities.wire["default_effort"] == "none":
        requested = _DEFAULT_THINKING_EFFORT
    encoded: dict[str, Any] = {}
    if requested is not None:
        levels = capabilities.wire["efforts"]
        effort = _nearest_effort(requested, levels)
        if effort is None:
            request.record_option_loss(
                "effort", f"{requested!r} is no level of {request.target.model}: {', '.join(levels) or 'it has none'}"
            )
        else:
            encoded["effort"] = effort
            if effort != requested:
                request.record_option_loss(
                    "effort", f"{request.target.model} has no {requested!r}: {effort!r} is asked for"
                )
    if options.thinking:
        encoded["summary"] = "auto"
    return encoded


def _nearest_effort(requested: str, levels: Sequence[str]) -> str | None:
    """The level of the model that is nearest to the wanted one, the lower of two; None where there is no such word."""
    if requested in levels:
        return requested
    if requested not in EFFORTS or not levels:
        return None
    rank = EFFORTS.index(requested)
    return min(levels, key=lambda level: (abs(EFFORTS.index(level) - rank), EFFORTS.index(level)))


def _encode_text_format(request: RequestBuilder, *, tools: bool) -> dict[str, Any] | None:
    """The output's schema, named after its title. It binds only where it has a strict form."""
    if not structured_output.should_send_schema(request, tools=tools):
        return None
    schema = schemas.fit_output_schema(request)
    name = _ILLEGAL_NAME_CHARACTERS.sub("_", str(schema.get("title") or "answer"))[:_MAX_NAME_LENGTH]
    strict = strict_schema(schema)
    if strict is None:
        request.record_option_loss("output_schema", "the schema has no strict form: it is sent as a hint")
    sent_schema = schema if strict is None else strict
    return {"format": {"type": "json_schema", "name": name, "schema": sent_schema, "strict": strict is not None}}


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
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
    return apply_diff(encoded, own.get("residue"))

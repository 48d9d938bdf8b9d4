"""What the gateway changes in a request for a provider of another wire. Each change is a loss.

The fields that go along, or that ask for the provider's state, are those of shared_fields.toml and state_fields.toml.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from dragoman import Adapter, AdapterOptions, Loss, Message, Role, TextBlock, ToolDefinition
from dragoman.answers import LossKind, Severity
from dragoman.errors import InvalidRequestError
from dragoman.messages import CostStatus, TokenUsage
from dragoman_gateway.access import Prices
from dragoman_gateway.toml import SettingsTable, load_table
from dragoman_gateway.wires import Wire

LATE_MARK = "[A message of the system, not of the user]\n"
_TOKEN = "a token of the client that is not a prompt, and that no prompt cache would recognise, was left out"
_INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)


class OtherWireSettings(SettingsTable):
    """The table ``[gateway.other_wire]`` of dragoman.toml. docs/gateway.md describes each setting."""

    late_system: Literal["mark", "plain", "refuse"] = "mark"
    """What becomes of a system message behind the user's, if the wire has none there."""
    keep_client_tokens: bool = False
    """Whether a token that a client puts before its prompt stays there."""
    cap_output: bool = True
    """Whether an output limit above that of the model becomes the model's."""
    estimate_start: bool = True
    """Whether the start of a Messages stream has an estimate of the input tokens; else it has 0."""


def messages_for(
    adapter: Adapter, sent: Sequence[Message], wire: Wire, settings: OtherWireSettings, losses: list[Loss]
) -> Sequence[Message]:
    """Return the messages of a client's wire for a provider of another one. ``losses`` gets what that loses, once for
    all attempts.

    Raises InvalidRequestError for a late system message that the provider cannot have, if the settings say so.
    """
    if wire.client_tokens and sent and sent[0].role is Role.SYSTEM and not settings.keep_client_tokens:
        system = sent[0]
        kept = tuple(
            block
            for block in system.content
            if not isinstance(block, TextBlock) or not any(each.fullmatch(block.text) for each in wire.client_tokens)
        )
        if len(kept) < len(system.content):
            _note(losses, Loss(LossKind.FIELD, system.id, 0, _TOKEN, Severity.INFO, "text"))
            changed = (system.model_copy(update={"content": kept}),) if kept else ()
            sent = (*changed, *sent[1:])
    if settings.late_system == "plain" or adapter.capabilities.supports_mid_conversation_system:
        return sent
    first = next((place for place, each in enumerate(sent) if each.role not in _INSTRUCTIONS), len(sent))
    if not any(each.role in _INSTRUCTIONS for each in sent[first:]):
        return sent
    if settings.late_system == "refuse":
        raise InvalidRequestError("this model takes no system message after the first message of the user")
    return (*sent[:first], *map(_mark_if_late, sent[first:]))


def options_for(
    adapter: Adapter,
    options: AdapterOptions,
    tools: Sequence[ToolDefinition],
    wire: Wire,
    fields: Mapping[str, Any],
    losses: list[Loss],
) -> AdapterOptions:
    """Return the options of a client's request for a provider of another wire: with the fields that the provider has as
    well. ``fields`` are those of the request, and ``losses`` gets what that loses."""
    given = options.extra.get(adapter.provider, {})
    names = load_table("wires/shared_fields.toml").get(wire.name, {}).get(adapter.provider, ())
    shared = {name: fields[name] for name in names if fields.get(name) is not None}
    losses[:] = [each for each in losses if each.reason.partition(":")[0] not in shared]
    state = load_table("wires/state_fields.toml").get(adapter.provider)
    if extra := {**(_state_fields(state, adapter, fields) if state else {}), **shared}:
        options = replace(options, extra={**options.extra, adapter.provider: {**extra, **given}})
    choice = fields.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools" and tools:
        reason = "tool_choice: the client allows some of the tools, and the provider is offered all"
        _note(losses, Loss(LossKind.OPTION, "", -1, reason))
    messages = fields.get("messages")
    speakers = {
        each["name"]  # a tool's name is that of its call
        for each in (messages if isinstance(messages, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each.get("role") not in ("tool", "function")
    }
    if speakers:
        reason = f"the names of speakers, {', '.join(sorted(speakers)):.200}: the wire has none"
        _note(losses, Loss(LossKind.FIELD, "", -1, reason, Severity.INFO))
    if tools and (strict := ", ".join(_strict_tools(fields.get("tools")))):
        reason = f"strict of the tools {strict:.200}: the provider is not asked to hold the arguments to the schema"
        _note(losses, Loss(LossKind.TOOLS, "", -1, reason, Severity.INFO))
    if options.n is not None and options.stream:
        reason = f"n: a stream from a provider of another wire has one answer: {options.n} are not asked for"
        _note(losses, Loss(LossKind.OPTION, "", -1, reason))
        options = replace(options, n=None)
    return options


def cap_output(adapter: Adapter, options: AdapterOptions, prices: Prices, losses: list[Loss]) -> AdapterOptions:
    """Return the options with the output limit of the model. A model that is not in the price table has the limits of
    its family: it gets what the client wants."""
    limit, wanted = adapter.capabilities.max_output_tokens, options.max_output_tokens
    if wanted is None or wanted <= limit:
        return options
    priced = prices.price(str(adapter.model_id), TokenUsage(), datetime.now(UTC))
    if priced.cost_status is not CostStatus.PRICED:
        return options
    reason = f"max_output_tokens {wanted}: the model writes {limit} at most"
    _note(losses, Loss(LossKind.OPTION, "", -1, reason, Severity.INFO))
    return replace(options, max_output_tokens=limit)


def _note(losses: list[Loss], loss: Loss) -> None:
    if loss not in losses:  # an earlier attempt may have lost it too
        losses.append(loss)


def _state_fields(table: Mapping[str, Any], adapter: Adapter, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which a provider of another wire stores nothing, and hands out its state; empty if the
    client wants the reply to be stored."""
    if fields.get("store") is True:
        return {}
    asked = {name: value for name, value in table.items() if name != _REASONING}
    return {**asked, **table[_REASONING]} if adapter.capabilities.supports_thinking else asked


_REASONING = "reasoning"
"""The table of the fields for models that reason."""


def _mark_if_late(message: Message) -> Message:
    """Return an instruction with a mark, so that the model can tell its text from the user's."""
    if message.role not in _INSTRUCTIONS:
        return message
    for place, block in enumerate(message.content):
        if isinstance(block, TextBlock):
            marked = block.model_copy(update={"text": LATE_MARK + block.text})
            content = (*message.content[:place], marked, *message.content[place + 1 :])
            return message.model_copy(update={"content": content})
    return message


def _strict_tools(tools: Any) -> Iterator[str]:
    """Yield the names of the tools whose client wants arguments that obey the schema."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            described = tool["function"] if isinstance(tool.get("function"), dict) else tool
            if described.get("strict") is True:
                yield str(described.get("name"))

"""What the gateway changes in a request for a provider of another wire. Each change is a loss.

The fields that go along, or that ask for the provider's state, are those of shared_fields.toml and state_fields.toml.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dragoman import Adapter, AdapterOptions, Loss, Message, Role, TextBlock, ToolDefinition
from dragoman.answers import LossKind, Severity
from dragoman.errors import InvalidRequestError
from dragoman.messages import CostStatus, TokenUsage
from dragoman_gateway.access import Prices
from dragoman_gateway.wires import Wire

LATE_MARK = "[A message of the system, not of the user]\n"
_INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)


class OtherWireSettings(BaseModel):
    """The table ``[gateway.other_wire]`` of dragoman.toml. docs/gateway.md describes each setting."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    late_system: Literal["mark", "plain", "refuse"] = "mark"
    """What becomes of a system message behind the user's, if the wire has none there."""
    keep_client_tokens: bool = False
    """Whether a token that a client puts before its prompt stays there."""
    cap_output: bool = True
    """Whether an output limit above that of the model becomes the model's."""
    estimate_start: bool = True
    """Whether the start of a Messages stream has an estimate of the input tokens; else it has 0."""


class OtherWire:
    """Changes the requests of one client. ``losses`` gets each loss once, however often the request is attempted."""

    def __init__(self, settings: OtherWireSettings, wire: Wire, fields: Mapping[str, Any], losses: list[Loss]) -> None:
        self._settings = settings
        self._wire = wire
        self._fields = fields
        self._losses = losses

    def messages(self, sent: Sequence[Message], adapter: Adapter) -> Sequence[Message]:
        """Return the messages for a provider. Raises InvalidRequestError for a late system message that it cannot have,
        if the settings say so.
        """
        if not self._settings.keep_client_tokens:
            sent, loss = self._wire.tokens.remove(sent)
            self._note(loss)
        late = self._settings.late_system
        if late == "plain" or adapter.capabilities.supports_mid_conversation_system:
            return sent
        first = next((place for place, each in enumerate(sent) if each.role not in _INSTRUCTIONS), len(sent))
        if not any(each.role in _INSTRUCTIONS for each in sent[first:]):
            return sent
        if late == "refuse":
            raise InvalidRequestError("this model takes no system message after the first message of the user")
        return (*sent[:first], *map(_mark_if_late, sent[first:]))

    def options(
        self, options: AdapterOptions, adapter: Adapter, tools: Sequence[ToolDefinition], prices: Prices
    ) -> AdapterOptions:
        """Return the options: with the fields that the provider has as well, and with the output limit of a model whose
        limit is known."""
        if shared := _shared_fields(self._wire.name, adapter.provider, self._fields):
            extra = {**shared, **options.extra.get(adapter.provider, {})}
            options = replace(options, extra={**options.extra, adapter.provider: extra})
            self._losses[:] = [each for each in self._losses if each.reason.partition(":")[0] not in shared]
        if state := _state_fields(adapter, self._fields):
            extra = {**state, **options.extra.get(adapter.provider, {})}
            options = replace(options, extra={**options.extra, adapter.provider: extra})
        choice = self._fields.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools" and tools:
            reason = "tool_choice: the client allows some of the tools, and the provider is offered all"
            self._note(Loss(LossKind.OPTION, "", -1, reason))
        if names := ", ".join(_named_speakers(self._fields.get("messages"))):
            reason = f"the names of speakers, {names:.200}: the wire has none"
            self._note(Loss(LossKind.FIELD, "", -1, reason, Severity.INFO))
        if (strict := ", ".join(_strict_tools(self._fields.get("tools")))) and tools:
            reason = f"strict of the tools {strict:.200}: the provider is not asked to hold the arguments to the schema"
            self._note(Loss(LossKind.TOOLS, "", -1, reason, Severity.INFO))
        if options.n is not None and options.stream:
            reason = f"n: a stream from a provider of another wire has one answer: {options.n} are not asked for"
            self._note(Loss(LossKind.OPTION, "", -1, reason))
            options = replace(options, n=None)
        limit, wanted = adapter.capabilities.max_output_tokens, options.max_output_tokens
        if not self._settings.cap_output or wanted is None or wanted <= limit or not _is_known(adapter, prices):
            return options
        reason = f"max_output_tokens {wanted}: the model writes {limit} at most"
        self._note(Loss(LossKind.OPTION, "", -1, reason, Severity.INFO))
        return replace(options, max_output_tokens=limit)

    def _note(self, loss: Loss | None) -> None:
        if loss is not None and loss not in self._losses:
            self._losses.append(loss)


def _shared_fields(wire: str, provider: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's request that go to a provider of another wire as they are."""
    names = _table("shared_fields.toml").get(wire, {}).get(provider, ())
    return {name: fields[name] for name in names if fields.get(name) is not None}


def _state_fields(adapter: Adapter, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which a provider of another wire stores nothing, and hands out its state; empty if the
    client wants the reply to be stored."""
    table = _table("state_fields.toml").get(adapter.provider)
    if table is None or fields.get("store") is True:
        return {}
    asked = {name: value for name, value in table.items() if name != _REASONING}
    return {**asked, **table[_REASONING]} if adapter.capabilities.supports_thinking else asked


_REASONING = "reasoning"
"""The table of the fields for models that reason."""


@cache
def _table(name: str) -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(files("dragoman_gateway.wires").joinpath(name).read_text("utf-8"))


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


def _named_speakers(messages: Any) -> list[str]:
    """Return the names that messages of Chat Completions give their speakers. A tool's name is that of its call."""
    found = messages if isinstance(messages, list) else ()
    names = {
        each["name"]
        for each in found
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each.get("role") not in ("tool", "function")
    }
    return sorted(names)


def _is_known(adapter: Adapter, prices: Prices) -> bool:
    """Whether the model is in the price table: any other model has the limits of its family."""
    priced = prices.price(str(adapter.model_id), TokenUsage(), datetime.now(UTC))
    return priced.cost_status is CostStatus.PRICED

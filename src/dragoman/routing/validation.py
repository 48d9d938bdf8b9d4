"""Checks whether a model can take a turn (docs/reference/routing-and-events.md#validation).

Each capability is checked only if the turn needs it. Thinking is never checked: a model without it answers without it.
Media other than images are not checked either: unsupported media become a loss, and rules can choose another model.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.routing import Refusal
from dragoman.routing.availability import Availability
from dragoman.routing.request import ModelFacts, RouteRequest


class RefusalReason(NamedTuple):
    """What speaks against a model. Source: docs/reference/routing-and-events.md#validation."""

    name: Refusal
    """The word for programs."""
    reason: str
    """A sentence for people."""


def find_refusals(
    model: str,
    request: RouteRequest,
    *,
    find: Callable[[str], ModelFacts],
    availability: Availability,
    at: datetime,
) -> tuple[RefusalReason, ...]:
    """Return all reasons against the model, in the order of the reference; nothing if it can take the turn."""
    try:
        facts = find(model)
        capabilities = facts.capabilities
    except ConfigurationError as error:
        return (RefusalReason(Refusal.NOT_CONFIGURED, str(error)),)
    found: list[RefusalReason] = []
    if outage := availability.outage(model, at):
        found.append(RefusalReason(Refusal.PROVIDER_UNAVAILABLE, str(outage)))
    if request.images and not capabilities.supports_images:
        found.append(RefusalReason(Refusal.NO_VISION_SUPPORT, "the turn holds images"))
    tokens, answer = request.tokens_on(model), request.max_output_tokens or 0
    if tokens + answer > capabilities.max_context_tokens:
        room = f" and an answer of up to {answer:,}" if answer else ""
        reason = f"about {tokens:,} tokens{room} in a window of {capabilities.max_context_tokens:,}"
        found.append(RefusalReason(Refusal.EXCEEDS_CONTEXT_WINDOW, reason))
    if request.tools and not capabilities.supports_tools:
        found.append(RefusalReason(Refusal.NO_TOOL_SUPPORT, "the turn offers tools"))
    if request.system_prompt and not capabilities.supports_system_prompt:
        found.append(RefusalReason(Refusal.NO_SYSTEM_PROMPT_SUPPORT, "the turn has a system prompt"))
    if request.output_schema and not capabilities.supports_structured_output:
        found.append(RefusalReason(Refusal.NO_STRUCTURED_OUTPUT_SUPPORT, "the turn has an output schema"))
    return tuple(found)

"""What a swap would mean, before it happens: losses, size, price, and whether it is possible at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices, RequestContext
from dragoman.adapter.errors import ProjectionError, RequestError
from dragoman.adapter.losses import Loss, Severity
from dragoman.canonical.blocks import ContentBlock, ImageBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class Preview:
    """``reasons`` is empty where the swap is possible. ``input_tokens`` is an estimate, and so is the price in USD
    of reading the history once."""

    model: str
    reasons: tuple[str, ...]
    losses: tuple[Loss, ...]
    input_tokens: int
    max_context_tokens: int
    input_cost_usd: Decimal | None

    @property
    def fits(self) -> bool:
        """Whether the model can carry the history."""
        return not self.reasons

    def __str__(self) -> str:
        cost = "price unknown" if self.input_cost_usd is None else f"about ${self.input_cost_usd:.6f} to read"
        possible = "possible" if self.fits else "refused"
        size = f"about {self.input_tokens:,} of {self.max_context_tokens:,} tokens"
        lines = [f"{self.model}: {possible}, {size}, {cost}"]
        lines += [f"  refused: {reason}" for reason in self.reasons]
        lost = [loss for loss in self.losses if loss.severity is Severity.WARNING]
        changed = len(self.losses) - len(lost)
        lines += [f"  lost: {loss.kind}: {loss.reason}" for loss in lost]
        if changed:
            lines.append(f"  {changed} changes of form only")
        if not self.losses and self.fits:
            lines.append("  nothing is lost")
        return "\n".join(lines)


def preview(
    adapter: Adapter,
    history: Sequence[Message],
    tools: Sequence[ToolDefinition],
    options: AdapterOptions,
    *,
    with_files: Callable[[Sequence[Message]], Sequence[Message]],
    context: RequestContext,
    prices: Prices,
    at: datetime,
) -> Preview:
    """Projects the history without sending anything. ``context`` should be a copy: ids may be made in its map."""
    reasons = _refusals(adapter, history, tools, options)
    losses: tuple[Loss, ...] = ()
    try:
        filled = with_files(history)
        losses = adapter.to_wire([*filled, _NEXT], tools, options.with_context(context)).losses
    except (ProjectionError, RequestError) as error:
        reasons.append(str(error))
    tokens = adapter.estimate_input_tokens(history, tools)
    window = adapter.capabilities.max_context_tokens
    if tokens > window:
        reasons.append(f"the history is about {tokens:,} tokens, the window is {window:,}: exceeds_context_window")
    priced = prices.price(str(adapter.model_id), TokenUsage(input_tokens=tokens), at)
    return Preview(str(adapter.model_id), tuple(reasons), losses, tokens, window, priced.cost_usd)


_NEXT = Message.user("…")
"""What the user says next stands behind the history: how a history must end is no question of the swap."""


def _refusals(
    adapter: Adapter, history: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> list[str]:
    """What the model cannot do at all and the session needs, by the names of specification D11."""
    abilities, reasons = adapter.capabilities, []
    if not abilities.supports_images and any(_has_image(message.content) for message in history):
        reasons.append("the history holds images: no_vision_support")
    if tools and not abilities.supports_tools:
        reasons.append("the session has tools: no_tool_support")
    if not abilities.supports_system_prompt and any(message.role is Role.SYSTEM for message in history):
        reasons.append("the history holds a system prompt: no_system_prompt_support")
    if options.output_schema is not None and not abilities.supports_structured_output:
        reasons.append("the session asks for a schema: no_structured_output_support")
    return reasons


def _has_image(blocks: Sequence[ContentBlock]) -> bool:
    return any(
        isinstance(block, ImageBlock) or (isinstance(block, ToolResultBlock) and _has_image(block.content))
        for block in blocks
    )

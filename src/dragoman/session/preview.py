"""A swap before it happens: its losses, size and price, and whether it is possible."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices, RequestContext
from dragoman.adapter.errors import ProjectionError, RequestError
from dragoman.adapter.losses import Loss, Severity
from dragoman.canonical.blocks import ContentBlock, ImageBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_fields import Refusal
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage

_MIN_SHOWN_USD = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a swap to a model would mean. ``reasons`` is empty if the swap is possible. Tokens and prices are estimates;
    prices are in USD, for uncached tokens, and None if unknown.
    """

    model: str
    """The model of the swap, as ``provider:name``."""
    reasons: tuple[str, ...]
    losses: tuple[Loss, ...]
    """What the next request could not carry to this model."""
    input_tokens: int
    """Size of the history as it would be sent to this model, tools included."""
    max_context_tokens: int
    """The size of the model's window, in tokens."""
    input_cost_usd: Decimal | None
    """The price of reading the history once."""
    refusals: tuple[Refusal, ...] = ()
    """The reasons for which routing has a name."""
    present_model: str | None = None
    """The model of the session now, as ``provider:name``; None if a router chooses."""
    present_tokens: int | None = None
    """Size of the same history for the present model."""
    max_output_tokens: int | None = None
    """The session's output limit, which must fit the window too; None if it sets none."""
    answer_tokens: int | None = None
    """Average size of a reply of this session, each round of tools counted separately; None before the first."""
    next_turn_cost_usd: Decimal | None = None
    """The price of reading the history and writing such a reply."""
    next_turn_cost_status: CostStatus = CostStatus.UNPRICED
    """``priced`` and ``free``: the price is known. ``partial``: it is a lower bound or, before the first reply of the
    session, None. ``unpriced``: it is unknown."""

    @property
    def fits(self) -> bool:
        """Whether the model can carry the history."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and ``fits`` as `json.dumps` takes them. Decimals are strings; unknown is None."""
        fields = asdict(self)
        for name in ("input_cost_usd", "next_turn_cost_usd"):
            fields[name] = None if fields[name] is None else format(fields[name], "f")
        losses = [asdict(loss) | {"kind": str(loss.kind), "severity": str(loss.severity)} for loss in self.losses]
        return fields | {
            "fits": self.fits,
            "reasons": list(self.reasons),
            "refusals": list(map(str, self.refusals)),
            "losses": losses,
            "next_turn_cost_status": str(self.next_turn_cost_status),
        }

    def to_json(self) -> str:
        """Return `as_dict` as one line of JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        cost = "price unknown" if self.input_cost_usd is None else f"{_usd(self.input_cost_usd)} to read"
        possible = "possible" if self.fits else "refused"
        size = f"about {self.input_tokens:,} of {self.max_context_tokens:,} tokens"
        lines = [f"{self.model}: {possible}, {size}, {cost}"]
        if self.present_tokens is not None:
            lines.append(f"  now: about {self.present_tokens:,} tokens on {self.present_model}")
        lines.append(f"  next turn: {self._describe_next_turn()}")
        lines += [f"  refused: {reason}" for reason in self.reasons]
        lost = [loss for loss in self.losses if loss.severity is Severity.WARNING]
        changed = len(self.losses) - len(lost)
        lines += [f"  lost: {loss.kind}: {loss.reason}" for loss in lost]
        if changed:
            lines.append(f"  {changed} changes of form only")
        if not self.losses and self.fits:
            lines.append("  nothing is lost")
        return "\n".join(lines)

    def _describe_next_turn(self) -> str:
        answer = "" if self.answer_tokens is None else f" with an answer of {self.answer_tokens:,} tokens"
        if self.next_turn_cost_status is CostStatus.FREE:
            return f"free{answer}"
        if self.next_turn_cost_usd is None:
            before_first_reply = self.next_turn_cost_status is CostStatus.PARTIAL and self.answer_tokens is None
            return "price unknown before a first answer" if before_first_reply else f"price unknown{answer}"
        prefix = "at least " if self.next_turn_cost_status is CostStatus.PARTIAL else ""
        return f"{prefix}{_usd(self.next_turn_cost_usd)}{answer}"


def _usd(cost: Decimal) -> str:
    """Format an amount. One above 0 is never shown as 0."""
    return f"under ${_MIN_SHOWN_USD:f}" if 0 < cost < _MIN_SHOWN_USD else f"about ${cost:.6f}"


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
    answer: int | None,
) -> Preview:
    """Project the history without sending anything. ``context`` should be a copy: its map may get new ids.
    ``answer`` is the expected output of a reply, in tokens."""
    tokens = adapter.estimate_input_tokens(history, tools)
    refused = {
        **_missing_capabilities(adapter, history, tools, options),
        **_context_overflow(adapter, tokens, options.max_output_tokens),
    }
    reasons = [f"{why}: {name}" for name, why in refused.items()]
    losses: tuple[Loss, ...] = ()
    try:
        filled = with_files(history)
        losses = adapter.to_wire([*filled, _PLACEHOLDER_PROMPT], tools, options.with_context(context)).losses
    except (ProjectionError, RequestError) as error:
        reasons.append(str(error))
    model = str(adapter.model_id)
    input_price = prices.price(model, TokenUsage(input_tokens=tokens), at)
    turn = _price_next_turn(input_price, answer, lambda usage: prices.price(model, usage, at))
    return Preview(
        model=model,
        reasons=tuple(reasons),
        losses=losses,
        input_tokens=tokens,
        max_context_tokens=adapter.capabilities.max_context_tokens,
        input_cost_usd=input_price.cost_usd,
        refusals=tuple(refused),
        max_output_tokens=options.max_output_tokens,
        answer_tokens=answer,
        next_turn_cost_usd=turn.cost_usd,
        next_turn_cost_status=turn.cost_status,
    )


_PLACEHOLDER_PROMPT = Message.user("…")
"""The next prompt follows the history, so the swap does not depend on how the history ends."""


def _price_next_turn(input_price: Usage, answer: int | None, price: Callable[[TokenUsage], Usage]) -> Usage:
    """Return the price of reading and answering. Before the first reply, only free and unpriced are known."""
    if answer is not None:
        return price(TokenUsage(input_tokens=input_price.input_tokens, output_tokens=answer))
    if input_price.cost_status in (CostStatus.FREE, CostStatus.UNPRICED):
        return input_price
    return input_price.model_copy(update={"cost_usd": None, "cost_status": CostStatus.PARTIAL})


def _missing_capabilities(
    adapter: Adapter, history: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> dict[Refusal, str]:
    """Return the capabilities that the session needs and the model lacks, with the reasons."""
    capabilities, found = adapter.capabilities, {}
    if not capabilities.supports_images and any(_has_image(message.content) for message in history):
        found[Refusal.NO_VISION_SUPPORT] = "the history holds images"
    if not capabilities.supports_tools and not all(tool.RUN_BY_PROVIDER for tool in tools):
        found[Refusal.NO_TOOL_SUPPORT] = "the session has tools"
    if not capabilities.supports_system_prompt and any(message.role is Role.SYSTEM for message in history):
        found[Refusal.NO_SYSTEM_PROMPT_SUPPORT] = "the history holds a system prompt"
    if options.output_schema is not None and not capabilities.supports_structured_output:
        found[Refusal.NO_STRUCTURED_OUTPUT_SUPPORT] = "the session asks for a schema"
    return found


def _context_overflow(adapter: Adapter, tokens: int, max_output_tokens: int | None) -> dict[Refusal, str]:
    window = adapter.capabilities.max_context_tokens
    if tokens + (max_output_tokens or 0) <= window:
        return {}
    answer = f" and an answer may take {max_output_tokens:,}" if max_output_tokens else ""
    advice = f'session.compact("{adapter.model_id}") makes it shorter'
    why = f"the history is about {tokens:,} tokens{answer}, the window is {window:,} ({advice})"
    return {Refusal.EXCEEDS_CONTEXT_WINDOW: why}


def _has_image(blocks: Sequence[ContentBlock]) -> bool:
    return any(
        isinstance(block, ImageBlock) or (isinstance(block, ToolResultBlock) and _has_image(block.content))
        for block in blocks
    )

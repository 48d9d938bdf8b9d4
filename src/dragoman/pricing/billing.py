"""The cost of one reply: exact decimal arithmetic over its disjoint buckets. Source: docs/reference/pricing.md#cost."""

from decimal import Decimal

from dragoman.canonical.usage import CostStatus, TokenUsage, Usage, extend_usage
from dragoman.pricing.quote import EXACT, Quote

_ZERO = Decimal(0)
_BUCKETS = ("input_tokens", "cached_input_tokens", "cache_creation_input_tokens", "output_tokens")
# A tool's count of calls has three possible names: web_search, web_search_requests, web_search_calls.
_CALL_SUFFIXES = ("_requests", "_calls", "_call")


def apply_quote(usage: TokenUsage, quote: Quote, version: str, *, batch: bool) -> Usage:
    """Return the usage, priced by a quote. ``batch`` marks it as the usage of a batch.

    ``unpriced`` names the buckets without a known price, tool calls as ``server_tools.<name>``, and then the counts
    that the reply reported in an unreadable form. If no price is known, the cost is None, never 0.
    """
    total, known, unpriced = _price_tokens(usage, quote)
    unpriced += usage.unread
    if quote.request is not None:
        total = EXACT.add(total, quote.request.scaleb(-3, EXACT))
        known = True
    if usage.server_tools:
        rates = quote.tools or {}
        for name, calls in usage.server_tools.items():
            if not calls:
                continue
            rate = rates.get(name)
            if rate is None and (rate := rates.get(_tool_name(name))) is None:
                unpriced.append(f"server_tools.{name}")
            else:
                total = EXACT.add(total, EXACT.multiply(rate, calls).scaleb(-3, EXACT))
                known = True
    if not unpriced and quote.steps:
        status, known = CostStatus.FREE if quote.free and not total else CostStatus.PRICED, True
    else:
        if quote.unknown:
            unpriced.append(quote.unknown)
        status = CostStatus.PARTIAL if known or quote.unknown else CostStatus.UNPRICED
    figures: dict[str, object] = {
        "cost_usd": total if known else None,
        "cost_status": status,
        "unpriced": tuple(unpriced),
        "pricing_version": version,
    }
    if batch:
        figures["pricing_mode"] = "batch"
    # Validation would take most of the 20 microseconds that pricing a reply may take.
    return extend_usage(usage, figures)


def _price_tokens(usage: TokenUsage, quote: Quote) -> tuple[Decimal, bool, list[str]]:
    """Return the sum over the buckets, whether any of them has a rate, and those that have none.

    A subset larger than its bucket contradicts it (such as audio that was read from a cache). The part of it that fits
    is charged at its own rate, and its name is added to the unpriced ones.
    """
    if not quote.steps:
        return _ZERO, False, [field for field in _BUCKETS if getattr(usage, field)]
    buckets = quote.steps[0][1]
    if len(quote.steps) > 1:
        prompt = usage.prompt_tokens
        buckets = [buckets, *(step_buckets for threshold, step_buckets in quote.steps if prompt > threshold)][-1]
    total, known = _ZERO, False
    unpriced: list[str] = []
    counts = usage.__dict__
    for field, rate, parts in buckets:
        remaining = counts[field]
        for part, part_rate in parts:
            if count := counts[part]:
                if count > remaining:
                    unpriced.append(part)
                    count = remaining
                total = EXACT.add(total, EXACT.multiply(part_rate, count))
                remaining -= count
                known = True
        if remaining:
            if rate is None:
                unpriced.append(field)
            else:
                total = EXACT.add(total, EXACT.multiply(rate, remaining))
                known = True
    return total, known, unpriced


def _tool_name(name: str) -> str:
    for suffix in _CALL_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name

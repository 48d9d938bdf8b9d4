"""Costs against genai-prices, an independent calculator with the same public prices, for the models that it knows."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from genai_prices import Usage, calc_price, extract_usage

from dragoman import Message
from tests.conformance.adapters import NOW, prices
from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings.oracle.expected import Expected
from tests.conformance.scope import model_name
from tests.exchanges import RecordedExchange

_EXTRACTORS: dict[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "default"),
    "openai-responses": ("openai", "responses"),
    "openai-chat": ("openai", "chat"),
    "google": ("google", "default"),
    "google-vertex": ("google", "default"),
    "google-interactions": ("google", "default"),
    "cohere": ("cohere", "default"),
    "bedrock": ("aws", "default"),
    "azure-openai": ("azure", "chat"),
    "groq": ("groq", "default"),
    "deepseek": ("deepseek", "chat"),
    "xai": ("x-ai", "chat"),
}
"""The provider and the flavour of reply by which genai-prices knows a recorded provider."""
_NAMELESS = frozenset({"cohere", "bedrock"})
"""Providers whose replies do not name the model, or not by the name that has the price."""


def judge(exchange: RecordedExchange, expected: Expected, message: Message) -> Iterator[Outcome]:
    """Nothing if we have no price table, or the oracle has no price."""
    bill = expected.bill
    if _is_special(exchange.response):
        return
    if exchange.provider in _NAMELESS:
        bill = {**bill, "model": model_name(exchange).partition(":")[2]}
    due = oracle_price(exchange.provider, bill)
    if prices() is None or due is None:
        return
    cost = message.usage.cost_usd if message.usage else None
    status = message.usage.cost_status if message.usage else None
    same = cost == due
    yield Outcome(exchange, Aspect.COST, () if same else (Difference("cost", f"{due} -> {cost} ({status})"),))


def _is_special(reply: Any) -> bool:
    """Whether Bedrock served the reply at rates that genai-prices lacks: those of a tier, or of low latency."""
    if not isinstance(reply, dict):
        return False
    tier = (reply.get("serviceTier") or {}).get("type", "default")
    latency = (reply.get("performanceConfig") or {}).get("latency", "standard")
    return (tier, latency) != ("default", "standard")


def _searches(bill: dict[str, Any], *, listed: bool) -> int:
    """The searches that the reply counts, otherwise those in its output; xAI's are counted in the usage."""
    counted = ((bill.get("tool_usage") or {}).get("web_search") or {}).get("num_requests")
    if not listed or counted is not None or "server_side_tool_usage_details" in bill["usage"]:
        return counted or 0
    actions = [item.get("action") for item in bill.get("output", ()) if item.get("type") == "web_search_call"]
    return sum(action is None or action["type"] == "search" for action in actions)


_USD_PER_TICK = Decimal("1e-10")


def oracle_price(provider: str, bill: dict[str, Any]) -> Decimal | None:
    """The price that genai-prices calculates, None if it does not know the provider or the model. It has no prices of
    xAI's tools: there the provider's own figure counts.
    """
    if provider not in _EXTRACTORS or not bill.get("usage"):
        return None
    if any((bill["usage"].get("server_side_tool_usage_details") or {}).values()):
        ticks = bill["usage"].get("cost_in_usd_ticks")
        return None if ticks is None else Decimal(ticks) * _USD_PER_TICK
    name, flavour = _EXTRACTORS[provider]
    if provider == "bedrock" and "input_tokens" in bill["usage"]:
        flavour = "anthropic"
    if flavour == "chat" and "input_tokens" in bill["usage"]:
        flavour = "responses"
    try:
        extracted = extract_usage(bill, provider_id=name, api_flavor=flavour)
        usage = extracted.usage
        # It does not read tool_usage, and prices a tier only by argument: the reply names the tier.
        if searches := _searches(bill, listed=flavour == "responses"):
            usage = usage + Usage(web_searches=searches)
        if stored := flavour == "responses" and sum(item.get("type") == "file_search_call" for item in bill["output"]):
            usage = usage + Usage(storage_searches=stored)
        tier = {"service_tier": str(bill["service_tier"])} if bill.get("service_tier") else None
        return calc_price(
            usage,
            str(bill["model"]),
            provider_id=name,
            genai_request_timestamp=NOW,
            price_context=tier,
        ).total_price
    except (LookupError, ValueError):
        return None

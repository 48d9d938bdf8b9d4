"""Token counts of a chat reply (wire reference 8.6)."""

import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dragoman.canonical.usage import TokenUsage
from dragoman_openai.chat.dialect import Dialect, first, lookup

logger = logging.getLogger("dragoman.adapter")


def usage(native: Mapping[str, Any], dialect: Dialect) -> TokenUsage | None:
    """The counts of a reply or a chunk, made disjoint; None where it holds none.

    prompt_tokens includes what was read from or written to a cache, completion_tokens includes reasoning.
    """
    counts = next((found for path in dialect.usage if (found := lookup(native, path))), None)
    if not counts or counts.get("prompt_tokens") is None:
        return None
    prompt = counts["prompt_tokens"]
    output = counts.get("completion_tokens") or 0
    total = counts.get("total_tokens")
    reasoning = lookup(counts, "completion_tokens_details.reasoning_tokens")
    audio = lookup(counts, "prompt_tokens_details.audio_tokens")
    beside = (total or 0) - prompt - output
    if dialect.reasoning_beside or (dialect.reasoning_beside is None and reasoning and beside == reasoning):
        output += reasoning or 0
    elif beside > 0 and beside == audio:
        prompt += beside  # then audio was counted beside the prompt
    elif dialect.reasoning_beside is None and beside > 0 and reasoning is None:
        output += beside  # reasoning that only the total tells of
    cached, written = first(counts, dialect.cached_tokens) or 0, first(counts, dialect.cache_write_tokens) or 0
    if cached + written > prompt:
        logger.warning("%d cached tokens are more than the %d of the prompt: what is over is left out", cached, prompt)
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
    return TokenUsage(
        input_tokens=prompt - cached - written,
        output_tokens=output,
        cached_input_tokens=cached,
        cache_creation_input_tokens=written,
        reasoning_tokens=reasoning,
        audio_input_tokens=audio,
        audio_output_tokens=lookup(counts, "completion_tokens_details.audio_tokens"),
        image_input_tokens=lookup(counts, "prompt_tokens_details.image_tokens"),
        image_output_tokens=lookup(counts, "completion_tokens_details.image_tokens"),
        server_tools=_server_tools(counts, dialect),
        service_tier=native.get("service_tier") or counts.get("service_tier"),
        reported_total=total,
        reported_cost_usd=_cost(counts, dialect),
        raw=counts,
    )


def _server_tools(counts: Mapping[str, Any], dialect: Dialect) -> dict[str, int]:
    counted = lookup(counts, dialect.server_tools) if dialect.server_tools else None
    return {name: count for name, count in counted.items() if count} if isinstance(counted, dict) else {}


def _cost(counts: Mapping[str, Any], dialect: Dialect) -> Decimal | None:
    given = lookup(counts, dialect.cost) if dialect.cost else None
    return None if given is None else Decimal(str(given)) * dialect.cost_unit

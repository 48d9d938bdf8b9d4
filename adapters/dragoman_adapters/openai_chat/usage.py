"""Token counts of a chat reply (wire reference 8.6)."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.replies.usage_reader import UsageReader
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.openai_chat.dialect import Dialect, first_filled


def decode_usage(native: Mapping[str, Any], dialect: Dialect) -> TokenUsage | None:
    """The counts of a reply or a chunk, made disjoint; None where it holds none.

    prompt_tokens includes what was read from or written to a cache, completion_tokens includes reasoning.
    """
    count = UsageReader.of(first_filled(native, dialect.usage))
    if count is None or count.native.get("prompt_tokens") is None:
        return None
    prompt, output = count("prompt_tokens"), count.required("completion_tokens")
    total = count.optional("total_tokens")
    reasoning = count.optional("completion_tokens_details.reasoning_tokens")
    audio = count.optional("prompt_tokens_details.audio_tokens")
    outside = (total or 0) - prompt - output
    if not count.unread:
        if dialect.reasoning_beside or (dialect.reasoning_beside is None and reasoning and outside == reasoning):
            output += reasoning or 0
        elif outside > 0 and outside == audio:
            prompt += outside  # then audio was counted beside the prompt
        elif dialect.reasoning_beside is None and outside > 0 and reasoning is None:
            output += outside  # reasoning that only the total tells of
    cached, cache_writes = count(*dialect.cached_tokens), count(*dialect.cache_write_tokens)
    rest = count.uncached(prompt, cached, cache_writes)
    cached = min(cached, prompt)
    return TokenUsage(
        input_tokens=rest,
        output_tokens=output,
        cached_input_tokens=cached,
        cache_creation_input_tokens=min(cache_writes, prompt - cached),
        reasoning_tokens=reasoning,
        audio_input_tokens=audio,
        audio_output_tokens=count.optional("completion_tokens_details.audio_tokens"),
        image_input_tokens=count.optional("prompt_tokens_details.image_tokens"),
        image_output_tokens=count.optional("completion_tokens_details.image_tokens"),
        server_tools=count.counts_by_name(dialect.server_tools) if dialect.server_tools else {},
        service_tier=UsageReader(native).text("service_tier") or count.text("service_tier"),
        reported_total=total,
        reported_cost_usd=count.dollars(dialect.cost, dialect.cost_unit) if dialect.cost else None,
        unread=count.unread,
        raw=dict(count.native),
    )

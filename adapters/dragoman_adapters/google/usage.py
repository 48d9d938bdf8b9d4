"""Token counts (wire reference 8.6): what is cached lies inside the prompt; thoughts and tools' prompts lie beside."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.replies.usage_reader import UsageReader
from dragoman.canonical.usage import TokenUsage

_MODALITIES = ("", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT")
_TRAFFIC = ("", "ON_DEMAND", "PROVISIONED_THROUGHPUT")
"""By their numbers in Google's protocol buffers."""


def usage(native: Mapping[str, Any] | None, searches: Mapping[str, int]) -> TokenUsage | None:
    """The counts of a reply; None where they say nothing of the prompt. ``searches`` are billed beside the tokens.

    A count that is missing is zero: Google leaves those out.
    """
    count = UsageReader.of(native)
    if count is None or native is None or native.get("promptTokenCount") is None:
        return None
    prompt, cached, thoughts = count("promptTokenCount"), count("cachedContentTokenCount"), "thoughtsTokenCount"
    media = _ModalityCounts(count)
    return TokenUsage(
        input_tokens=count.uncached(prompt, cached) + count("toolUsePromptTokenCount"),
        cached_input_tokens=cached,
        output_tokens=count("candidatesTokenCount") + count(thoughts),
        reasoning_tokens=count.optional(thoughts),
        audio_input_tokens=media.new_items("AUDIO"),
        image_input_tokens=media.new_items("IMAGE"),
        cached_audio_input_tokens=media.of("cacheTokensDetails", "AUDIO"),
        cached_image_input_tokens=media.of("cacheTokensDetails", "IMAGE"),
        audio_output_tokens=media.of("candidatesTokensDetails", "AUDIO"),
        image_output_tokens=media.of("candidatesTokensDetails", "IMAGE"),
        server_tools=dict(searches),
        service_tier=count.text("serviceTier") or _service_tier(native.get("trafficType")),
        reported_total=count.optional("totalTokenCount"),
        unread=count.unread,
        raw=dict(native),
    )


class _ModalityCounts:
    """The tokens of one medium within a count; None where the reply does not say."""

    def __init__(self, count: UsageReader) -> None:
        self._count = count

    def of(self, details: str, medium: str) -> int | None:
        listed = self._count.objects(details)
        if not listed:
            return None
        found = (each.get("tokenCount") for each in listed if _enum_name(each.get("modality"), _MODALITIES) == medium)
        return sum(self._count.count_at(details, each) for each in found)

    def new_items(self, medium: str) -> int | None:
        """Of the prompt, tools' prompts included, without what was read from a cache."""
        sent = self.of("promptTokensDetails", medium)
        if sent is None:
            return None
        tools = self.of("toolUsePromptTokensDetails", medium) or 0
        return max(0, sent + tools - (self.of("cacheTokensDetails", medium) or 0))


def _service_tier(traffic: Any) -> str | None:
    """Vertex AI's kind of traffic, in the words in which a tier is asked for where there are some."""
    word = _enum_name(traffic, _TRAFFIC)
    return word.removeprefix("ON_DEMAND_").lower() if word and word.startswith("ON_DEMAND_") else word


def _enum_name(value: Any, words: tuple[str, ...]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return words[value] or None if 0 <= value < len(words) else str(value)
    return value if isinstance(value, str) and value else None

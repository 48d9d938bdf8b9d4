"""Token counts (wire reference 8.6): what is cached lies inside the prompt; thoughts and tools' prompts lie beside."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.usage import TokenUsage

_MODALITIES = ("", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT")
_TRAFFIC = ("", "ON_DEMAND", "PROVISIONED_THROUGHPUT")
"""By their numbers in Google's protocol buffers."""


def usage(native: Mapping[str, Any] | None, searches: Mapping[str, int]) -> TokenUsage | None:
    """The counts of a reply; None where they say nothing of the prompt. ``searches`` are billed beside the tokens."""
    if not native or "promptTokenCount" not in native:
        return None
    count = _Counts(native)
    prompt, cached, thoughts = count("promptTokenCount"), count("cachedContentTokenCount"), count("thoughtsTokenCount")
    return TokenUsage(
        input_tokens=max(0, prompt - cached) + count("toolUsePromptTokenCount"),
        cached_input_tokens=cached,
        output_tokens=count("candidatesTokenCount") + thoughts,
        reasoning_tokens=native.get("thoughtsTokenCount"),
        audio_input_tokens=count.fresh("AUDIO"),
        image_input_tokens=count.fresh("IMAGE"),
        audio_output_tokens=count.of("candidatesTokensDetails", "AUDIO"),
        image_output_tokens=count.of("candidatesTokensDetails", "IMAGE"),
        server_tools=dict(searches),
        service_tier=native.get("serviceTier") or _tier(native.get("trafficType")),
        reported_total=native.get("totalTokenCount"),
        raw=dict(native),
    )


class _Counts:
    """Counts by name, and by medium within a count; Google leaves out those that are zero."""

    def __init__(self, native: Mapping[str, Any]) -> None:
        self._native = native

    def __call__(self, name: str) -> int:
        return self._native.get(name) or 0

    def of(self, details: str, medium: str) -> int | None:
        """The tokens of one medium; None where the reply does not say."""
        listed = self._native.get(details)
        if not listed:
            return None
        return sum(each.get("tokenCount") or 0 for each in listed if _word(each.get("modality"), _MODALITIES) == medium)

    def fresh(self, medium: str) -> int | None:
        """Of the prompt, tools' prompts included, without what was read from a cache."""
        sent = self.of("promptTokensDetails", medium)
        if sent is None:
            return None
        tools = self.of("toolUsePromptTokensDetails", medium) or 0
        return max(0, sent + tools - (self.of("cacheTokensDetails", medium) or 0))


def _tier(traffic: Any) -> str | None:
    """Vertex AI's kind of traffic, in the words in which a tier is asked for where there are some."""
    word = _word(traffic, _TRAFFIC)
    return word.removeprefix("ON_DEMAND_").lower() if word and word.startswith("ON_DEMAND_") else word


def _word(value: Any, words: tuple[str, ...]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return words[value] or None if 0 <= value < len(words) else str(value)
    return value if isinstance(value, str) and value else None

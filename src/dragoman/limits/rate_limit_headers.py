"""What a provider's reply tells of its own limits.

anthropic-ratelimit-*: https://platform.claude.com/docs/en/api/rate-limits; x-ratelimit-*-requests and -tokens, which
others have taken over: https://platform.openai.com/docs/guides/rate-limits.
"""

from collections.abc import Mapping

from dragoman.limits.limit import Unit

_REMAINING: dict[Unit, tuple[str, ...]] = {
    "requests": ("anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining-requests"),
    "tokens": ("anthropic-ratelimit-tokens-remaining", "x-ratelimit-remaining-tokens"),
}


def read_remaining(headers: Mapping[str, str]) -> dict[Unit, int]:
    """How much may still be used now, as far as the reply tells. What is no number tells nothing."""
    found: dict[Unit, int] = {}
    for unit, names in _REMAINING.items():
        values = [
            int(value) for name in names if (value := headers.get(name, "").strip()).isascii() and value.isdecimal()
        ]
        if values:
            found[unit] = min(values)
    return found

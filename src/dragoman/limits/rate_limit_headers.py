"""Reads the rate-limit headers of a reply.

anthropic-ratelimit-*: https://platform.claude.com/docs/en/api/rate-limits; x-ratelimit-*-requests and -tokens, which
other providers use too: https://platform.openai.com/docs/guides/rate-limits.
"""

from collections.abc import Mapping

from dragoman.limits.limit import Unit

_REMAINING: dict[Unit, tuple[str, ...]] = {
    "requests": ("anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining-requests"),
    "tokens": ("anthropic-ratelimit-tokens-remaining", "x-ratelimit-remaining-tokens"),
}


def read_remaining(headers: Mapping[str, str]) -> dict[Unit, int]:
    """Return how much may still be used now, by unit. Values that are not numbers are ignored."""
    found: dict[Unit, int] = {}
    for unit, names in _REMAINING.items():
        values = [
            int(value) for name in names if (value := headers.get(name, "").strip()).isascii() and value.isdecimal()
        ]
        if values:
            found[unit] = min(values)
    return found

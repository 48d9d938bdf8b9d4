"""Reads the remaining quota, and when it resets, from the headers of a reply.

anthropic-ratelimit-* with RFC 3339 times: https://platform.claude.com/docs/en/api/rate-limits; x-ratelimit-*-requests
and -tokens with durations such as 6m0s and 17ms, which other providers use too:
https://platform.openai.com/docs/guides/rate-limits.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

Unit = Literal["requests", "tokens"]

_UNITS: tuple[Unit, ...] = ("requests", "tokens")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)?")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "": 1.0}
_MAX_RESET = 3_600.0


def read_remaining(headers: Mapping[str, str]) -> dict[Unit, int]:
    """Return how much may still be used now, by unit. Values that are not numbers are ignored."""
    found: dict[Unit, int] = {}
    for unit in _UNITS:
        names = (f"anthropic-ratelimit-{unit}-remaining", f"x-ratelimit-remaining-{unit}")
        values = [
            int(value) for name in names if (value := headers.get(name, "").strip()).isascii() and value.isdecimal()
        ]
        if values:
            found[unit] = min(values)
    return found


def remaining_requests(headers: Mapping[str, str], tokens: float, now: datetime) -> tuple[int, float | None] | None:
    """Return the number of requests of ``tokens`` tokens that the remaining quota allows, and the seconds until it
    resets.

    None if the reply has no such headers; the seconds are None if it does not state them.
    """
    remaining_by_unit = read_remaining(headers)
    if not remaining_by_unit:
        return None
    requests_by_unit = {
        unit: count if unit == "requests" else int(count / max(tokens, 1.0))
        for unit, count in remaining_by_unit.items()
    }
    narrowest = min(requests_by_unit, key=lambda unit: requests_by_unit[unit])
    waits = [
        wait
        for name in (f"anthropic-ratelimit-{narrowest}-reset", f"x-ratelimit-reset-{narrowest}")
        if (value := headers.get(name)) is not None and (wait := seconds_until_reset(value, now)) is not None
    ]
    return requests_by_unit[narrowest], min(waits, default=None)


def seconds_until_reset(value: str, now: datetime) -> float | None:
    """Return the seconds from now until a duration or time in a header, at most an hour; None if it is neither."""
    value = value.strip()
    parts = _PART.findall(value)
    if parts and "".join(number + unit for number, unit in parts) == value:
        wait = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    else:
        try:
            reset_at = datetime.fromisoformat(value)
        except ValueError:
            return None
        wait = ((reset_at if reset_at.tzinfo else reset_at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(wait, 0.0), _MAX_RESET) if math.isfinite(wait) else None

"""Limits and budgets: requests and tokens in a span of time, in one process or over many; money and tokens spent.

Each name is loaded when it is first used: a session needs budgets, and seldom limits.
"""

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.limits.bounds import max_usage
    from dragoman.limits.budget import Budget
    from dragoman.limits.limit import Limit
    from dragoman.limits.limits import Grant, Limits
    from dragoman.limits.reservation import (
        Governor,
        LimitReachedError,
        LimitsUnavailableError,
        MaxUsage,
        MeasureUsage,
        Reservation,
    )

__all__ = [
    "Budget",
    "Governor",
    "Grant",
    "Limit",
    "LimitReachedError",
    "Limits",
    "LimitsUnavailableError",
    "MaxUsage",
    "MeasureUsage",
    "Reservation",
    "max_usage",
]

_EXPORTS = {
    "limits.bounds": ("max_usage",),
    "limits.budget": ("Budget",),
    "limits.limit": ("Limit",),
    "limits.limits": ("Grant", "Limits"),
    "limits.reservation": (
        "Governor",
        "LimitReachedError",
        "LimitsUnavailableError",
        "MaxUsage",
        "MeasureUsage",
        "Reservation",
    ),
}

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _EXPORTS)

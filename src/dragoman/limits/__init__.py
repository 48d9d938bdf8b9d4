"""Limits and budgets: requests and tokens in a span of time, in one process or over many; money and tokens spent.

Each name is loaded when it is first used: a session needs budgets, and seldom limits.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_MODULE_OF = {"Budget": "budget", "Limit": "limit", "Grant": "limits", "Limits": "limits", "max_usage": "bounds"}


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF.get(name, 'reservation')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

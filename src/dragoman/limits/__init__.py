"""Limits and budgets: requests and tokens in a span of time, in one process or over many; money and tokens spent.

Each name is loaded when it is first used: a session needs budgets, and seldom limits.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.limits.bounds import max_usage
    from dragoman.limits.budget import Budget
    from dragoman.limits.errors import LimitReachedError, LimitsUnavailableError
    from dragoman.limits.limit import Limit
    from dragoman.limits.limits import Grant, Limits
    from dragoman.limits.reservation import Governor, Reservation
    from dragoman.limits.usage import MaxUsage, MeasureUsage

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
    "budget": ("Budget",),
    "errors": ("LimitReachedError", "LimitsUnavailableError"),
    "limit": ("Limit",),
    "limits": ("Grant", "Limits"),
    "reservation": ("Governor", "Reservation"),
    "bounds": ("max_usage",),
    "usage": ("MaxUsage", "MeasureUsage"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

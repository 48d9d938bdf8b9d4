"""Limits: requests and tokens in a span of time, for providers and models, in one process or over many."""

from dragoman.limits.errors import LimitReachedError, LimitsUnavailableError
from dragoman.limits.limit import Limit
from dragoman.limits.limits import Grant, Limits

__all__ = ["Grant", "Limit", "LimitReachedError", "Limits", "LimitsUnavailableError"]

"""The cost of many usages at once, in SQL."""

from dragoman.pricing.analytics.usages import Replies, Usages

__all__ = ["Replies", "Usages"]

"""The cost of many usages at once, in SQL."""

from dragoman.pricing.analytics.replies import Replies
from dragoman.pricing.analytics.usages import Usages

__all__ = ["Replies", "Usages"]

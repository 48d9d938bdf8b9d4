"""Who may use the gateway."""

from dragoman_gateway.access.contract import Access, AttemptMiddleware, Caller, Middleware, Prices, Question
from dragoman_gateway.access.open_access import OpenAccess

__all__ = ["Access", "AttemptMiddleware", "Caller", "Middleware", "OpenAccess", "Prices", "Question"]

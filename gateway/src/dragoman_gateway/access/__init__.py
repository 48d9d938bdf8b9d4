"""Who may use the gateway."""

from dragoman_gateway.access.contract import Access, Caller, Middleware
from dragoman_gateway.access.open_access import OpenAccess

__all__ = ["Access", "Caller", "Middleware", "OpenAccess"]

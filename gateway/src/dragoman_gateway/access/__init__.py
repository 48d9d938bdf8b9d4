"""Access control: who may use the gateway."""

from dragoman_gateway.access.contract import Access, Caller, Prices
from dragoman_gateway.access.open_access import OpenAccess
from dragoman_gateway.access.page_rules import PageRules

__all__ = ["Access", "Caller", "OpenAccess", "PageRules", "Prices"]

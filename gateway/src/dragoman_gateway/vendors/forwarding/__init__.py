"""Addresses of a client's own vendor that are forwarded as they are, if the operator has opened them."""

import re

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors.forwarding.endpoint import ForwardingEndpoint
from dragoman_gateway.wires.forwarded import Address, Vendor, addresses, is_client_of

__all__ = ["routes"]

_PARAMETER = re.compile(r"\{\w+\}")


class _OpenRoute(Route):
    """A route that exists while its address is open, for the clients of its vendor."""

    def __init__(self, gateway: Gateway, address: Address, others: tuple[Vendor, ...]) -> None:
        """``others`` are further vendors with the same address."""
        endpoint: ASGIApp = ForwardingEndpoint(gateway, address)
        super().__init__(address.path, endpoint, methods=[address.method])
        self._gateway = gateway
        self._address = address
        self._others = others

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not self._address.is_open(self._gateway.current.settings.forward):
            return Match.NONE, {}
        match, child = super().matches(scope)
        if match is Match.NONE or not self._others:
            return match, child
        # A client is one of this vendor by a header, else by an id that only one vendor makes.
        vendor, ids = self._address.vendor, tuple(map(str, child["path_params"].values()))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if b"key=" in scope["query_string"]:  # where Google's clients may write it
            headers.setdefault("x-goog-api-key", "")
        if vendor.client:
            is_ours = is_client_of(vendor, headers, ids)
        else:
            is_ours = not any(is_client_of(each, headers, ids) for each in self._others)
        return (match, child) if is_ours else (Match.NONE, {})


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of all addresses of the table."""
    found: list[Route] = []
    for address in addresses():
        same = (each.vendor for each in addresses() if _shape(each) == _shape(address))
        found.append(_OpenRoute(gateway, address, tuple(each for each in same if each is not address.vendor)))
    return found


def _shape(address: Address) -> tuple[str, str]:
    return address.method, _PARAMETER.sub("{}", address.path)

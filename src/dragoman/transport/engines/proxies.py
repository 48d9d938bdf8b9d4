"""The proxy of an address: as given, or from the environment, as Python's own urllib reads it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dragoman.adapter.errors import ConfigurationError
from dragoman.transport.engines.engine import ADDRESS_FORM, is_proxy_address, proxy_environment

if TYPE_CHECKING:
    import httpx

_NO_PROXY = "no"
"""Python's key for the list of hosts without a proxy."""


@dataclass(frozen=True, slots=True, repr=False)
class Proxies:
    """Proxies by the scheme of the address, or ``all``. It has no repr: a proxy's address may hold a password."""

    by_use: Mapping[str, str]

    def find(self, url: "httpx.URL") -> str | None:
        """Return the proxy for an address, with its scheme; None for a direct connection.

        Raises ConfigurationError, with the name of the variable, if the environment's is not an address.
        """
        if not self.by_use:
            return None
        use = url.scheme if self.by_use.get(url.scheme) else "all"
        proxy = self.by_use.get(use)
        if proxy is None or (_NO_PROXY in self.by_use and proxy_bypass(url.netloc.decode("ascii"))):
            return None
        address = proxy if "://" in proxy else f"http://{proxy}"
        if not is_proxy_address(address):
            # The variable that urllib reads it from; Windows and macOS have settings of their own.
            names = (f"{use}_proxy", f"{use}_proxy".upper())
            source = next((name for name in names if os.environ.get(name)), "the system's settings")
            raise ConfigurationError(f"the proxy in {source} {ADDRESS_FORM}")
        return address

    def schemes(self) -> set[str]:
        """Return the schemes of the proxies themselves. Without one it is http, as in curl."""
        parts = (proxy.lower().partition("://") for use, proxy in self.by_use.items() if use != _NO_PROXY)
        return {scheme if mark else "http" for scheme, mark, _ in parts}


def find_proxies(proxy: str | None) -> Proxies:
    """Return the given proxy for every address, or those of the environment."""
    return _read_environment(proxy_environment()) if proxy is None else Proxies({"all": proxy})


@lru_cache(maxsize=16)
def _read_environment(_: tuple[str | None, ...]) -> Proxies:
    """Return the proxies of the environment, which the argument identifies."""
    found = getproxies()
    return Proxies({use: found[use] for use in ("http", "https", "all", _NO_PROXY) if found.get(use)})


def proxy_server(address: str | None) -> str:
    """Return host and port of a proxy, for errors: its address may hold a password. Empty without a proxy."""
    if address is None:
        return ""
    parts = urlsplit(address)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port}" if parts.port else f"{host}"

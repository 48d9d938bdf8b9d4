"""Selects the HTTP library: httpx, its successor httpx2, or aiohttp, each behind the same few methods.

A caller may name one. By default an async transport uses aiohttp if it is installed (the extra ``dragoman[speed]``),
and everything else uses httpx. If an engine lacks a feature, httpx is used; if the caller named that engine, it is an
error.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import urlsplit

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.transport.call import AsyncResponse, Call, SyncResponse

if TYPE_CHECKING:
    import ssl

    import httpx

ENGINE_VARIABLE = "DRAGOMAN_ENGINE"
"""Names the engine of every transport of the process that can use it; the others use httpx."""
_PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})
ADDRESS_FORM = "must be an address such as http://host:3128, with http, https or socks5"
"""What an error says of an address that is none."""
_PROXY_VARIABLES = tuple(
    name for use in ("http", "https", "all", "no") for name in (f"{use}_proxy", f"{use}_proxy".upper())
)


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSettings:
    """How connections are made. It has no repr: a proxy's address may hold a password.

    ``proxy`` is its address; None means HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. ``verify`` holds the trusted
    certificates and the caller's own; None means those of the certifi package, or of SSL_CERT_FILE. ``http2``: whether
    HTTP/2 is offered.
    """

    proxy: str | None = None
    verify: "ssl.SSLContext | None" = None
    http2: bool = False


def is_proxy_address(address: str) -> bool:
    """Whether a proxy can have that address: a scheme that the engines support, a host, and a port if any."""
    try:
        parts = urlsplit(address)
        return "://" in address and parts.scheme in _PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def proxy_environment() -> tuple[str | None, ...]:
    """Return the variables that a proxy is read from: connections that they made are not for others."""
    return tuple(map(os.environ.get, _PROXY_VARIABLES))


class Client(Protocol):
    """Some connections of one HTTP library."""

    def send(self, call: Call) -> SyncResponse:
        """Make one attempt. Returns the response before its body, compressed; redirects are not followed."""

    def close(self) -> None: ...


class AsyncClient(Protocol):
    """The async `Client`."""

    @property
    def open_calls(self) -> int:
        """The calls that hold a connection or wait for one, as the library counts them; 0 if it never loses one."""

    async def send(self, call: Call) -> AsyncResponse: ...

    async def aclose(self) -> None: ...


class Engine(ABC):
    """One HTTP library: creates clients, and names missing features."""

    name: ClassVar[str]
    install_hint: ClassVar[str]
    """What to install if it is missing."""

    @abstractmethod
    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        """Return the required features that it lacks, in a few words; empty if it has all."""

    @abstractmethod
    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        """Return the maximum of connections per client that keeps it fast; None for no maximum."""

    @abstractmethod
    def async_client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> AsyncClient:
        """Return a client with at most ``size`` connections, for the origin of an address. Raises
        ConfigurationError."""

    @abstractmethod
    def async_sender(self, client: Any) -> Callable[[Call], Awaitable[AsyncResponse]]:
        """Return what makes one attempt through a caller's own async client, as `send` of the engine's does."""

    def client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> Client:
        """The sync `async_client`. `choose_engine` returns no engine without it for sync calls, nor without the next
        one."""
        raise NotImplementedError

    def sender(self, client: Any) -> Callable[[Call], SyncResponse]:
        """The sync `async_sender`."""
        raise NotImplementedError


@cache
def default_ssl_context(library: str, *, http2: bool = False) -> "ssl.SSLContext":
    """Return the trusted certificates, read once for all clients of a library.

    Each library has its own context, because it sets the offered HTTP versions in it.
    """
    context: ssl.SSLContext = import_module(library).create_ssl_context()
    return context


_ENGINE_CLASSES = {
    "aiohttp": "dragoman.transport.engines.aiohttp_engine:AiohttpEngine",
    "httpx": "dragoman.transport.engines.httpx_engine:HttpxEngine",
    "httpx2": "dragoman.transport.engines.httpx_engine:Httpx2Engine",
}
"""The classes by the name of the library. Only the selected one is imported."""
ENGINES = tuple(_ENGINE_CLASSES)
"""All of them, which async calls can use."""
_SYNC_ENGINES = ("httpx", "httpx2")


def choose_engine(
    client: object,
    requested: str | None,
    connection_settings: ConnectionSettings,
    environ: Mapping[str, str],
    *,
    asynchronous: bool,
) -> Engine:
    """Return the engine of the caller's client, else the requested one, else that of the environment, else the fastest.

    Raises ConfigurationError if these contradict each other, and MissingExtraError if the engine is not installed.
    """
    names, fastest = (ENGINES, "aiohttp") if asynchronous else (_SYNC_ENGINES, "httpx")
    if requested is not None:
        _validate_name(requested, names, "engine")
    if client is not None:
        return _engine_for_client(client, names, requested, connection_settings)
    if requested is not None:
        if missing := _load_engine(requested).missing_feature(connection_settings):
            raise ConfigurationError(f"the engine {requested} has no {missing}: omit engine to use httpx")
        return _load_engine(requested)
    configured = environ.get(ENGINE_VARIABLE, "").strip()
    if configured:
        _validate_name(configured, ENGINES, ENGINE_VARIABLE)
    name = configured or fastest
    is_usable = name in names and _is_installed(name) and not _load_engine(name).missing_feature(connection_settings)
    return _load_engine(name if is_usable else "httpx")


def _engine_for_client(
    client: object, names: tuple[str, ...], requested: str | None, connection_settings: ConnectionSettings
) -> Engine:
    packages = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    name = next((name for name in _ENGINE_CLASSES if name in packages), "httpx")
    given = [
        each.name for each in fields(ConnectionSettings) if getattr(connection_settings, each.name) != each.default
    ]
    if given:
        raise ConfigurationError(f"a client has its own {' and '.join(given)}: set that on the client")
    if requested not in (None, name):
        raise ConfigurationError(f"the client is of {name}, but the engine is {requested}: pass only one of them")
    if name not in names:
        raise ConfigurationError(f"a client of {name} is asynchronous: pass it to an async session or transport")
    return _load_engine(name)


def _validate_name(name: str, names: tuple[str, ...], setting: str) -> None:
    if name not in names:
        qualifier = "for synchronous calls " if name in ENGINES else ""
        raise ConfigurationError(f"{setting} is {name!r:.40}; {qualifier}there are {', '.join(names)}")
    if not _is_installed(name):
        raise MissingExtraError(f'the engine {name} is not installed: pip install "{_load_engine(name).install_hint}"')


@cache
def _load_engine(name: str) -> Engine:
    module, _, kind = _ENGINE_CLASSES[name].partition(":")
    engine: Engine = getattr(import_module(module), kind)()
    return engine


@cache
def _is_installed(library: str) -> bool:
    return find_spec(library) is not None

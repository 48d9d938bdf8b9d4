"""Which library carries the bytes: httpx, its continuation httpx2, or aiohttp, each behind the same few methods.

A caller may name one. Else an async transport takes aiohttp where it is installed, which the extra ``dragoman[speed]``
does, and httpx everywhere else. What an engine lacks goes to httpx; where the caller named that engine, it is an error.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.transport.call import AsyncResponse, Call, SyncResponse

if TYPE_CHECKING:
    import ssl

ENGINE_VARIABLE = "DRAGOMAN_ENGINE"
"""Names the engine of every transport of the process that can use it; the others go over httpx."""
_PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSettings:
    """How connections are made. It has no repr: a proxy's address may hold a password.

    ``proxy``: its address; None is what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. ``verify``: the
    certificates that are trusted, and the caller's own; None is those of the certifi package, or of SSL_CERT_FILE.
    ``http2``: whether HTTP/2 is offered to the other side.
    """

    proxy: str | None = None
    verify: "ssl.SSLContext | None" = None
    http2: bool = False

    def __post_init__(self) -> None:
        if self.proxy is not None and ("://" not in self.proxy or proxy_scheme(self.proxy) not in _PROXY_SCHEMES):
            raise ConfigurationError("a proxy is an address such as http://host:3128; there are http, https and socks5")
        if self.verify is not None and not hasattr(self.verify, "wrap_socket"):
            raise ConfigurationError(
                "verify is an ssl.SSLContext, such as ssl.create_default_context(cafile=...), "
                f"not {type(self.verify).__name__}"
            )

    @property
    def non_defaults(self) -> list[str]:
        """The names of what is not as usual."""
        fields = ConnectionSettings.__dataclass_fields__
        return [name for name, field in fields.items() if getattr(self, name) != field.default]


def proxy_scheme(address: str) -> str:
    """The scheme of a proxy's address; one in the environment without a scheme is spoken to in HTTP, as curl does."""
    try:
        return urlsplit(address).scheme if "://" in address else "http"
    except ValueError:
        return ""


class Engine(ABC):
    """One HTTP library: it makes clients, sends with them, and says what it lacks."""

    name: ClassVar[str]
    leaks_on_double_cancel: ClassVar[bool] = False
    """Whether a client may lose a connection when a task is cancelled twice, and has to be replaced then."""
    install_hint: ClassVar[str]
    """What to install where it is missing."""

    @abstractmethod
    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        """What it cannot do of what is wanted, in a few words; empty where it can do all."""

    @abstractmethod
    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        """The most connections to one client, so that it stays fast; None for as many as there may be."""

    @abstractmethod
    def async_client(self, size: int, connection_settings: ConnectionSettings) -> Any:
        """A client of so many connections. Raises ConfigurationError."""

    def wrap_client(self, client: Any) -> Any:
        """The caller's own client, as `send_async` takes it."""
        return client

    @abstractmethod
    async def send_async(self, client: Any, call: Call) -> AsyncResponse:
        """One attempt: the response, its body still to come, undecompressed; redirects are not followed."""


class SyncEngine(Engine):
    """An engine that sends without await, too."""

    @abstractmethod
    def client(self, size: int, connection_settings: ConnectionSettings) -> Any:
        """A client with at most ``size`` connections. Raises ConfigurationError."""

    @abstractmethod
    def send(self, client: Any, call: Call) -> SyncResponse:
        """`send_async`, without await."""


@cache
def default_ssl_context(library: str, *, http2: bool = False) -> "ssl.SSLContext":
    """The certificates that are trusted, read once for all clients of a kind.

    Each kind has its own, because a library notes in it which versions of HTTP it offers.
    """
    context: ssl.SSLContext = import_module(library).create_ssl_context()
    return context


_ENGINE_CLASSES = {
    "aiohttp": "dragoman.transport.engines.aiohttp_engine:AiohttpEngine",
    "httpx": "dragoman.transport.engines.httpx_engine:HttpxEngine",
    "httpx2": "dragoman.transport.engines.httpx_engine:Httpx2Engine",
}
"""By the name of the library. Only the one that is taken is imported."""
_ASYNC_ENGINES = tuple(_ENGINE_CLASSES)
_SYNC_ENGINES = ("httpx", "httpx2")


def choose_sync_engine(
    client: object, requested: str | None, connection_settings: ConnectionSettings, environ: Mapping[str, str]
) -> SyncEngine:
    """The engine for calls without await; see `async_engine`."""
    return cast("SyncEngine", _choose_engine(_SYNC_ENGINES, "httpx", client, requested, connection_settings, environ))


def choose_async_engine(
    client: object, requested: str | None, connection_settings: ConnectionSettings, environ: Mapping[str, str]
) -> Engine:
    """The engine of the own client, else the one that was asked for, or that the environment names, or the fastest.

    Raises ConfigurationError where they contradict each other, and MissingExtraError for one that is not installed.
    """
    return _choose_engine(_ASYNC_ENGINES, "aiohttp", client, requested, connection_settings, environ)


def _choose_engine(
    names: tuple[str, ...],
    fastest: str,
    client: object,
    requested: str | None,
    connection_settings: ConnectionSettings,
    environ: Mapping[str, str],
) -> Engine:
    if requested is not None:
        _validate_name(requested, names, "engine")
    if client is not None:
        return _engine_for_client(client, names, requested, connection_settings)
    if requested is not None:
        if missing := _load_engine(requested).missing_feature(connection_settings):
            raise ConfigurationError(f"the engine {requested} has no {missing}: leave engine out, and httpx is taken")
        return _load_engine(requested)
    configured = environ.get(ENGINE_VARIABLE, "").strip()
    if configured:
        _validate_name(configured, _ASYNC_ENGINES, ENGINE_VARIABLE)
    name = configured or fastest
    is_usable = name in names and _is_installed(name) and not _load_engine(name).missing_feature(connection_settings)
    return _load_engine(name if is_usable else "httpx")


def _engine_for_client(
    client: object, names: tuple[str, ...], requested: str | None, connection_settings: ConnectionSettings
) -> Engine:
    packages = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    name = next((name for name in _ENGINE_CLASSES if name in packages), "httpx")
    if connection_settings.non_defaults:
        raise ConfigurationError(
            f"a client brings its own {' and '.join(connection_settings.non_defaults)}: set that where it is made"
        )
    if requested not in (None, name):
        raise ConfigurationError(f"the client is one of {name}, and the engine {requested}: leave one of them out")
    if name not in names:
        raise ConfigurationError(f"a client of {name} is for those who await: give it to an async session or transport")
    return _load_engine(name)


def _validate_name(name: str, names: tuple[str, ...], setting: str) -> None:
    if name not in names:
        qualifier = "without await " if name in _ASYNC_ENGINES else ""
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

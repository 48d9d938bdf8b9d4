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
from dragoman.transport.call import AsyncResponse, Call

if TYPE_CHECKING:
    import ssl

    from dragoman.transport.httpx_engine import HttpxEngine

ENGINE_VARIABLE = "DRAGOMAN_ENGINE"
"""Names the engine of every transport of the process that can use it; the others go over httpx."""
_PROXIES = frozenset({"http", "https", "socks5", "socks5h"})


@dataclass(frozen=True, slots=True, repr=False)
class Wiring:
    """How connections are made. It has no repr: a proxy's address may hold a password.

    ``proxy``: its address; None is what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. ``verify``: the
    certificates that are trusted, and the caller's own; None is those of the certifi package, or of SSL_CERT_FILE.
    ``http2``: whether HTTP/2 is offered to the other side.
    """

    proxy: str | None = None
    verify: "ssl.SSLContext | None" = None
    http2: bool = False

    def __post_init__(self) -> None:
        if self.proxy is not None and ("://" not in self.proxy or scheme_of(self.proxy) not in _PROXIES):
            raise ConfigurationError("a proxy is an address such as http://host:3128; there are http, https and socks5")
        if self.verify is not None and not hasattr(self.verify, "wrap_socket"):
            raise ConfigurationError(
                "verify is an ssl.SSLContext, such as ssl.create_default_context(cafile=...), "
                f"not {type(self.verify).__name__}"
            )

    @property
    def own(self) -> list[str]:
        """The names of what is not as usual."""
        usual = Wiring.__dataclass_fields__
        return [name for name, field in usual.items() if getattr(self, name) != field.default]


def scheme_of(address: str) -> str:
    """The scheme of a proxy's address; one in the environment without a scheme is spoken to in HTTP, as curl does."""
    try:
        return urlsplit(address).scheme if "://" in address else "http"
    except ValueError:
        return ""


class Engine(ABC):
    """One HTTP library: it makes clients, sends with them, and says what it lacks."""

    name: ClassVar[str]
    spoils: ClassVar[bool] = False
    """Whether a client may lose a connection when a task is cancelled twice, and has to be replaced then."""
    needs: ClassVar[str]
    """What to install where it is missing."""

    @abstractmethod
    def lacks(self, wiring: Wiring) -> str:
        """What it cannot do of what is wanted, in a few words; empty where it can do all."""

    @abstractmethod
    def client_size(self, wiring: Wiring) -> int | None:
        """The most connections to one client, so that it stays fast; None for as many as there may be."""

    @abstractmethod
    def async_client(self, size: int, wiring: Wiring) -> Any:
        """A client of so many connections. Raises ConfigurationError."""

    def borrowed(self, client: Any) -> Any:
        """The caller's own client, as `send_async` takes it."""
        return client

    @abstractmethod
    async def send_async(self, client: Any, call: Call) -> AsyncResponse:
        """One attempt: the response, its body still to come, undecompressed; redirects are not followed."""


_CLASSES = {
    "aiohttp": "dragoman.transport.aiohttp_engine:AiohttpEngine",
    "httpx": "dragoman.transport.httpx_engine:HttpxEngine",
    "httpx2": "dragoman.transport.httpx_engine:Httpx2Engine",
}
"""By the name of the library. Only the one that is taken is imported."""
_ASYNC = tuple(_CLASSES)
_SYNC = ("httpx", "httpx2")


def sync_engine(client: object, asked: str | None, wiring: Wiring, environ: Mapping[str, str]) -> "HttpxEngine":
    """The engine for calls without await; see `async_engine`."""
    return cast("HttpxEngine", _engine(_SYNC, "httpx", client, asked, wiring, environ))


def async_engine(client: object, asked: str | None, wiring: Wiring, environ: Mapping[str, str]) -> Engine:
    """The engine of the own client, else the one that was asked for, or that the environment names, or the fastest.

    Raises ConfigurationError where they contradict each other, and MissingExtraError for one that is not installed.
    """
    return _engine(_ASYNC, "aiohttp", client, asked, wiring, environ)


def _engine(
    names: tuple[str, ...],
    fastest: str,
    client: object,
    asked: str | None,
    wiring: Wiring,
    environ: Mapping[str, str],
) -> Engine:
    if asked is not None:
        _check(asked, names, "engine")
    if client is not None:
        return _engine_of(client, names, asked, wiring)
    if asked is not None:
        if lack := _made(asked).lacks(wiring):
            raise ConfigurationError(f"the engine {asked} has no {lack}: leave engine out, and httpx is taken")
        return _made(asked)
    wanted = environ.get(ENGINE_VARIABLE, "").strip()
    if wanted:
        _check(wanted, _ASYNC, ENGINE_VARIABLE)
    name = wanted or fastest
    usable = name in names and _installed(name) and not _made(name).lacks(wiring)
    return _made(name if usable else "httpx")


def _engine_of(client: object, names: tuple[str, ...], asked: str | None, wiring: Wiring) -> Engine:
    roots = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    name = next((name for name in _CLASSES if name in roots), "httpx")
    if wiring.own:
        raise ConfigurationError(f"a client brings its own {' and '.join(wiring.own)}: set that where it is made")
    if asked not in (None, name):
        raise ConfigurationError(f"the client is one of {name}, and the engine {asked}: leave one of them out")
    if name not in names:
        raise ConfigurationError(f"a client of {name} is for those who await: give it to an async session or transport")
    return _made(name)


def _check(name: str, names: tuple[str, ...], what: str) -> None:
    if name not in names:
        here = "without await " if name in _ASYNC else ""
        raise ConfigurationError(f"{what} is {name!r:.40}; {here}there are {', '.join(names)}")
    if not _installed(name):
        raise MissingExtraError(f'the engine {name} is not installed: pip install "{_made(name).needs}"')


@cache
def _made(name: str) -> Engine:
    module, _, kind = _CLASSES[name].partition(":")
    made: Engine = getattr(import_module(module), kind)()
    return made


@cache
def _installed(library: str) -> bool:
    return find_spec(library) is not None

"""How requests reach a model: over HTTP, through a vendor's own client, or in this process."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, overload

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.wire import AttemptRecord
from dragoman.credentials.contract import CLOUD_SETTINGS
from dragoman.lazy_names import lazy_names
from dragoman.transport.engines.shared_pools import close_idle_connections, close_idle_connections_async
from dragoman.transport.http import AsyncHttpTransport, HttpTransport
from dragoman.transport.retry import RetryPolicy, Timing
from dragoman.transport.retrying_transport import TASK_HEADERS
from dragoman.transport.settings import ProviderSettings, vendor_of

if TYPE_CHECKING:
    from dragoman.transport.aws import SigV4Auth
    from dragoman.transport.contract import AsyncStreamedReply, AsyncTransport, StreamedReply, Transport
    from dragoman.transport.exchanges import HttpExchange
    from dragoman.transport.fetch import FetchedMedia, Fetcher, FetchError
    from dragoman.transport.vendor import AsyncVendorTransport, VendorTransport

__all__ = [
    "TASK_HEADERS",
    "AsyncHttpTransport",
    "AsyncStreamedReply",
    "AsyncTransport",
    "AsyncVendorTransport",
    "AttemptRecord",
    "FetchError",
    "FetchedMedia",
    "Fetcher",
    "HttpExchange",
    "HttpTransport",
    "ProviderSettings",
    "RetryPolicy",
    "SigV4Auth",
    "StreamedReply",
    "Timing",
    "Transport",
    "VendorTransport",
    "close_idle_connections",
    "close_idle_connections_async",
    "register_transport",
    "transport_for",
]

_LOADED_ON_USE = {
    "transport.aws": ("SigV4Auth",),
    "transport.contract": ("AsyncStreamedReply", "AsyncTransport", "StreamedReply", "Transport"),
    "transport.exchanges": ("HttpExchange",),
    "transport.fetch": ("FetchError", "FetchedMedia", "Fetcher"),
    "transport.vendor": ("AsyncVendorTransport", "VendorTransport"),
}
"""Names that most programs do not use, by their modules."""

_factories: dict[str, Callable[..., Any]] = {}
_factory_settings: dict[str, frozenset[str] | None] = {}


def register_transport(name: str, factory: Callable[..., Any], *, settings: Iterable[str] | None = None) -> None:
    """Register a transport in this process, for adapters whose ``transport`` is that name.

    ``factory`` is called with ``asynchronous`` and a provider's settings, and returns a Transport or an AsyncTransport.
    ``settings`` are the names of its settings besides those of `ProviderSettings`, so that others are refused; None
    accepts any.
    """
    _factories[name] = factory
    _factory_settings[name] = None if settings is None else frozenset(settings)


def registered_setting_names() -> frozenset[str] | None:
    """Return the names of the settings of all registered transports, or None if one accepts any."""
    if None in _factory_settings.values():
        return None
    return frozenset(name for names in _factory_settings.values() for name in names or ())


@overload
def transport_for(adapter: Adapter, *, asynchronous: Literal[False] = False, **settings: Any) -> "Transport": ...
@overload
def transport_for(adapter: Adapter, *, asynchronous: Literal[True], **settings: Any) -> "AsyncTransport": ...
@overload
def transport_for(adapter: Adapter, *, asynchronous: bool, **settings: Any) -> "Transport | AsyncTransport": ...


def transport_for(adapter: Adapter, *, asynchronous: bool = False, **settings: Any) -> "Transport | AsyncTransport":
    """Return the transport that an adapter names, created with these settings.

    A ``client`` of anthropic, openai or ollama in the settings selects a vendor transport. Raises ConfigurationError if
    the adapter names an unknown transport, or if the settings do not fit.
    """
    try:
        if adapter.transport != "http":  # only HTTP has exchanges to show
            settings = {name: value for name, value in settings.items() if name != "on_exchange"}
        if (factory := _factories.get(adapter.transport) or _installed(adapter.transport)) is not None:
            transport: Transport | AsyncTransport = factory(asynchronous=asynchronous, **settings)
            return transport
        if adapter.transport != "http":
            raise ConfigurationError(
                f"{adapter!r} needs the transport {adapter.transport!r}, which is neither registered nor installed"
            )
        if not CLOUD_SETTINGS.isdisjoint(settings):
            from dragoman.credentials.clouds import check_kind  # imported late: most programs have a key

            given = check_kind(adapter.provider, adapter.endpoint.credentials, settings)
            settings = {name: value for name, value in settings.items() if name not in CLOUD_SETTINGS} | {
                "cloud": given
            }
        if vendor_of(settings.get("client")) is not None:
            from dragoman.transport import vendor  # imported late: few programs have a vendor's client

            return vendor.AsyncVendorTransport(**settings) if asynchronous else vendor.VendorTransport(**settings)
        return AsyncHttpTransport(**settings) if asynchronous else HttpTransport(**settings)
    except TypeError as error:
        raise ConfigurationError(f"the settings of {adapter.provider} do not fit its transport: {error}") from None


@cache
def _installed(name: str) -> Callable[..., Any] | None:
    """Return the factory of a transport that a distribution brings, an entry point of ``dragoman.transports``."""
    if name == "http":
        return None
    from importlib.metadata import entry_points  # imported late: most programs use HTTP alone

    found = next(iter(entry_points(group="dragoman.transports", name=name)), None)
    return None if found is None else found.load()


if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _LOADED_ON_USE)

"""httpx, and its successor httpx2, which has the same names."""

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.transport.call import AsyncResponse, Call, SyncResponse
from dragoman.transport.engines.engine import ConnectionSettings, SyncEngine, default_ssl_context
from dragoman.transport.engines.pool import IDLE_SECONDS

if TYPE_CHECKING:
    import httpx

_CONNECTIONS_PER_CLIENT = 2
"""Connections per HTTP/1.1 client."""


class HttpxEngine(SyncEngine):
    """The engine of the default install, sync and async.

    httpx checks every connection of a client whenever a request starts or ends, so the cost per request grows with the
    number in flight. A client is cheap (3 KiB); a hundred concurrent calls run over six times faster through fifty
    clients of two connections than through one of a hundred.
    """

    name: ClassVar[str] = "httpx"
    leaks_on_double_cancel: ClassVar[bool] = True
    install_hint: ClassVar[str] = "httpx"

    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        return ""

    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        # An HTTP/2 connection carries many calls, if they all use the same client.
        return None if connection_settings.http2 else _CONNECTIONS_PER_CLIENT

    def client(self, size: int, connection_settings: ConnectionSettings) -> "httpx.Client":
        client: httpx.Client = self._create_client("Client", size, connection_settings)
        return client

    def async_client(self, size: int, connection_settings: ConnectionSettings) -> "httpx.AsyncClient":
        client: httpx.AsyncClient = self._create_client("AsyncClient", size, connection_settings)
        return client

    def send(self, client: "httpx.Client", call: Call) -> SyncResponse:
        return client.send(self._build_request(client, call), stream=True, follow_redirects=False)

    async def send_async(self, client: "httpx.AsyncClient", call: Call) -> AsyncResponse:
        return await client.send(self._build_request(client, call), stream=True, follow_redirects=False)

    def url(self, url: "httpx.URL") -> Any:
        """Return a validated address as this library's class."""
        return url

    def _build_request(self, client: "httpx.Client | httpx.AsyncClient", call: Call) -> "httpx.Request":
        prepared = call.prepared
        return client.build_request(
            prepared.method,
            self.url(prepared.url),
            headers=prepared.headers,
            content=prepared.body,
            extensions={"timeout": call.new_attempt()},
        )

    def _create_client(self, class_name: str, size: int, connection_settings: ConnectionSettings) -> Any:
        library = importlib.import_module(self.name)
        limits = library.Limits(max_connections=size, max_keepalive_connections=size, keepalive_expiry=IDLE_SECONDS)
        try:
            return getattr(library, class_name)(
                verify=connection_settings.verify or default_ssl_context(self.name, http2=connection_settings.http2),
                limits=limits,
                proxy=connection_settings.proxy,
                http2=connection_settings.http2,
            )
        except ImportError as error:  # h2 for HTTP/2, socksio for SOCKS; the message names the extra of httpx
            raise ConfigurationError(str(error)) from None


class Httpx2Engine(HttpxEngine):
    """The same classes from another package."""

    name: ClassVar[str] = "httpx2"
    install_hint: ClassVar[str] = "httpx2"

    def url(self, url: "httpx.URL") -> Any:
        return _to_httpx2_url(url)


@lru_cache(maxsize=256)
def _to_httpx2_url(url: "httpx.URL") -> Any:
    return importlib.import_module("httpx2").URL(str(url))

"""httpx, and httpx2, which goes on with it under the same names."""

import importlib
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.transport.call import AsyncResponse, Call, SyncResponse
from dragoman.transport.engines import Engine, Wiring
from dragoman.transport.pool import IDLE

if TYPE_CHECKING:
    import ssl

    import httpx

_SMALL = 2
"""Connections to a client of HTTP/1.1."""


class HttpxEngine(Engine):
    """The engine of the default install, with and without await.

    httpx looks at every connection of a client whenever a request starts or ends, so that the cost of a request grows
    with the square of what is under way. A client is cheap (3 KiB); a hundred calls at once run over six times faster
    through fifty clients of two connections than through one of a hundred.
    """

    name: ClassVar[str] = "httpx"
    spoils: ClassVar[bool] = True
    needs: ClassVar[str] = "httpx"

    def lacks(self, wiring: Wiring) -> str:
        return ""

    def client_size(self, wiring: Wiring) -> int | None:
        # Over HTTP/2 a connection carries many calls, if they all go through the one client that has it.
        return None if wiring.http2 else _SMALL

    def client(self, size: int, wiring: Wiring) -> "httpx.Client":
        made: httpx.Client = self._make("Client", size, wiring)
        return made

    def async_client(self, size: int, wiring: Wiring) -> "httpx.AsyncClient":
        made: httpx.AsyncClient = self._make("AsyncClient", size, wiring)
        return made

    def send(self, client: "httpx.Client", call: Call) -> SyncResponse:
        return client.send(self._request(client, call), stream=True, follow_redirects=False)

    async def send_async(self, client: "httpx.AsyncClient", call: Call) -> AsyncResponse:
        return await client.send(self._request(client, call), stream=True, follow_redirects=False)

    def url(self, checked: "httpx.URL") -> Any:
        """A checked address as this library has it."""
        return checked

    def _request(self, client: "httpx.Client | httpx.AsyncClient", call: Call) -> "httpx.Request":
        prepared = call.prepared
        return client.build_request(
            prepared.method,
            self.url(prepared.url),
            headers=prepared.headers,
            content=prepared.body,
            extensions={"timeout": call.new_attempt()},
        )

    def _make(self, kind: str, size: int, wiring: Wiring) -> Any:
        library = importlib.import_module(self.name)
        limits = library.Limits(max_connections=size, max_keepalive_connections=size, keepalive_expiry=IDLE)
        try:
            return getattr(library, kind)(
                verify=wiring.verify or trusted(self.name, http2=wiring.http2),
                limits=limits,
                proxy=wiring.proxy,
                http2=wiring.http2,
            )
        except ImportError as error:  # h2 for HTTP/2, socksio for SOCKS; the message names the extra of httpx
            raise ConfigurationError(str(error)) from None


class Httpx2Engine(HttpxEngine):
    """The same classes from another package."""

    name: ClassVar[str] = "httpx2"
    needs: ClassVar[str] = "httpx2"

    def url(self, checked: "httpx.URL") -> Any:
        return _url_of_httpx2(checked)


@lru_cache(maxsize=256)
def _url_of_httpx2(checked: "httpx.URL") -> Any:
    return importlib.import_module("httpx2").URL(str(checked))


@cache
def trusted(library: str, *, http2: bool = False) -> "ssl.SSLContext":
    """The certificates that are trusted, read once for all clients of a kind.

    Each kind has its own, because a library notes in it which versions of HTTP it offers.
    """
    context: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return context

"""Sends through the caller's own official client: its keys, clouds, proxies and middleware; our encoding and decoding.

The client sends the adapter's request unchanged and returns the response unparsed. Its own retries and redirects are
off for these requests, because two retry loops multiply.
"""

import contextlib
import importlib
import inspect
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar, Unpack

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.forks import ProcessCheck
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.target import Target
from dragoman.transport.call import (
    ACCEPT_ENCODING,
    AsyncResponse,
    Call,
    PreparedRequest,
    SyncResponse,
    server_of,
    validate_headers,
    validate_path,
)
from dragoman.transport.retrying_transport import AsyncRetryingTransport, RetryingTransport, TransportBase
from dragoman.transport.settings import TransportSettings, packages_of, vendor_of


class _VendorTransport(TransportBase):
    """What the sync and the async transport share."""

    _asynchronous: ClassVar[bool]

    def __init__(self, client: Any, **settings: Unpack[TransportSettings]) -> None:
        settings.setdefault("timeout", None)
        super().__init__(**settings)
        vendor = vendor_of(client)
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        if vendor is None:
            raise ConfigurationError(f"{kind} is not a client of anthropic, openai or ollama")
        if not hasattr(client, "_client"):
            raise ConfigurationError(f"{kind} contains no HTTP client: is the {vendor} package too old or too new?")
        if inspect.iscoroutinefunction(client._client.send) is not self._asynchronous:
            expected, other = ("an async", "") if self._asynchronous else ("a sync", "Async")
            raise ConfigurationError(f"{kind} is not {expected} client: pass it to {other}VendorTransport")
        self._sender = _OllamaSender(client) if vendor == "ollama" else _StainlessSender(client)
        self._process = ProcessCheck()

    def _prepare(self, adapter: Adapter, request: WireRequest) -> PreparedRequest:
        if request.method != "POST":
            raise RequestError(f"a vendor's client supports only POST, not {request.method:.20}")
        headers = {
            "accept-encoding": "identity" if request.stream else ACCEPT_ENCODING,
            "content-type": "application/json",
            **validate_headers(request.headers),
        }
        path, sender = validate_path(request.path), self._sender
        return PreparedRequest(
            "POST", path, headers, request.body, request.stream, sender.key, sender.server, sender.target, path
        )


class VendorTransport(_VendorTransport, RetryingTransport):
    """Sends requests through an `anthropic.Anthropic`, an `openai.OpenAI`, an `ollama.Client` or a subclass.

    The caller owns the client; it is not closed here. Without ``timeout`` its own time limits apply. Raises
    ConfigurationError for any other client, or an async one.
    """

    _asynchronous = False

    @contextlib.contextmanager
    def _open(self, call: Call) -> Iterator[SyncResponse]:
        self._process.warn_after_fork()
        try:
            response = self._sender.send(call)
        except Exception as raised:
            response = _error_response(raised)
        try:
            yield response
        finally:
            response.close()


class AsyncVendorTransport(_VendorTransport, AsyncRetryingTransport):
    """The async `VendorTransport`, through the vendor's async client."""

    _asynchronous = True

    @contextlib.asynccontextmanager
    async def _open(self, call: Call) -> AsyncIterator[AsyncResponse]:
        self._process.warn_after_fork()
        try:
            response = await self._sender.send(call)
        except Exception as raised:
            response = _error_response(raised)
        try:
            yield response
        finally:
            await response.aclose()


def _error_response(exception: Exception) -> Any:
    """Return the failing response inside a client's exception; any other exception is raised."""
    response = getattr(exception, "response", None)
    if response is None or not hasattr(response, "status_code"):
        raise exception
    return response


class _StainlessSender:
    """The clients of anthropic and openai, which the same generator produces.

    Clients for a cloud (Azure, Vertex, Bedrock) take the model from the body to build the address, so they get the body
    as an object and encode it again; all others get the bytes. ``key`` is known so that errors can mask it.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        key = getattr(client, "api_key", None)
        self.key = ApiKey(key) if isinstance(key, str) and key else None
        self.server, self.target = _address(client)
        packages = packages_of(client._client)
        self._http = importlib.import_module("httpx" if "httpx" in packages else "httpx2")
        self._needs_parsed_body = any(".lib." in base.__module__ for base in type(client).__mro__) or bool(
            getattr(client, "_provider", None)
        )

    def send(self, call: Call) -> Any:
        """Return the response, or an awaitable of it."""
        prepared = call.prepared
        options: dict[str, Any] = {"headers": prepared.headers, "max_retries": 0, "follow_redirects": False}
        if not math.isinf(call.retry_state.timeout):
            options["timeout"] = self._http.Timeout(**call.time_limits())
        body: Mapping[str, Any] = (
            {"body": wirejson.loads_object(prepared.body, what="the request")}
            if self._needs_parsed_body
            else {"content": prepared.body}
        )
        return self._client.post(
            prepared.url, cast_to=self._http.Response, options=options, stream=True, stream_cls=None, **body
        )


class _OllamaSender:
    """ollama's client rebuilds bodies and drops fields, so its inner httpx client is used, with its address."""

    def __init__(self, client: Any) -> None:
        self._http = client._client
        key = self._http.headers.get("authorization", "").removeprefix("Bearer ")
        self.key = ApiKey(key) if key else None
        self.server, self.target = _address(self._http)

    def send(self, call: Call) -> Any:
        """Return the response, or an awaitable of it."""
        prepared = call.prepared
        timing = {} if math.isinf(call.retry_state.timeout) else {"extensions": {"timeout": call.time_limits()}}
        request = self._http.build_request(
            prepared.method, prepared.url, headers=prepared.headers, content=prepared.body, **timing
        )
        return self._http.send(request, stream=True, follow_redirects=False)


def _address(client: Any) -> tuple[str, Target | None]:
    """Return host and port of a client's address, and the address itself, for errors; nothing if it has none yet."""
    url: Any = getattr(client, "base_url", None)
    if not getattr(url, "host", None):
        return "", None
    base_url = f"{url.scheme}://{url.netloc.decode('ascii')}{url.path.rstrip('/')}"
    return server_of(url), Target(base_url, None, setting="base_url")

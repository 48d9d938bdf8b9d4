"""One call, for sync and async transports: what is sent, and what is received. No I/O.

A header value or a path must not become another header or path. httpx builds requests from values with line ends;
whether they are refused below depends on the engine. So they are refused here for every engine.
"""

import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote_to_bytes

from dragoman.adapter.contract import Adapter, Endpoint
from dragoman.adapter.errors import (
    ConfigurationError,
    DragomanError,
    FrameTooLargeError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestError,
    RequestTimeoutError,
    UnclassifiedError,
    UnexpectedPageError,
)
from dragoman.adapter.known_keys import remember_key
from dragoman.adapter.wire import Headers, Upload, WireRequest, WireResponse
from dragoman.credentials.contract import ApiKey, mask_bytes
from dragoman.credentials.target import Target
from dragoman.transport.retry import RetryState, TimeLeft

if TYPE_CHECKING:
    import httpx

    from dragoman.transport.exchanges import ExchangeRecorder
    from dragoman.transport.inflate import Inflater

MISSED = frozenset({400, 404, 405, 501})
"""Statuses of a server that may be another one than the caller means."""
ERROR_BODY_CAP = 256 * 1024
"""Bytes read of a failing reply; error messages are shorter."""
_NO_HEADERS = Headers()
_PAGE_TYPES = ("text/html", "application/xhtml")
_NOT_COMPLETE = "the reply was not complete in time: raise timeout if the model may take longer"

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_PATH = re.compile(r"/[A-Za-z0-9!$%&'()*+,\-./:;=@_~]*(?:\?[A-Za-z0-9!$%&'()*+,\-./:;=?@_~]*)?")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")
_TRANSPORT_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive", "expect"}
) | {"accept-encoding"}
"""Headers that set the destination, length or encoding of a message: only the transport sets them."""

ACCEPT_ENCODING = "gzip, deflate"
"""The compressions that `inflate` reads."""


class RawResponse(Protocol):
    """The members that httpx and httpx2 share, as far as they are used here."""

    status_code: int

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def is_stream_consumed(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def content(self) -> bytes: ...
    @property
    def extensions(self) -> Mapping[str, Any]: ...


class SyncResponse(RawResponse, Protocol):
    def iter_raw(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class AsyncResponse(RawResponse, Protocol):
    def aiter_raw(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


def validate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names. Raises RequestError for invalid headers and those that only the
    transport sets.
    """
    checked: dict[str, str] = {}
    for name, value in headers.items():
        lower = _validate_name(name)
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise RequestError(f"the header {name} has a value with line ends, control or non-ASCII characters")
        if lower in _TRANSPORT_HEADERS:
            raise RequestError(f"the header {name} belongs to the transport and cannot be set")
        checked[lower] = value
    return checked


@lru_cache(maxsize=256)
def _validate_name(name: str) -> str:
    """Return the name of a header in lower case."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RequestError(f"{name!r:.80} is not the name of a header")
    return name.lower()


@lru_cache(maxsize=16)
def validate_method(method: str) -> str:
    if not (method.isascii() and method.isalpha() and method.isupper()):
        raise RequestError(f"{method!r:.40} is not the name of an HTTP method")
    return method


@lru_cache(maxsize=256)
def validate_path(path: str) -> str:
    """Return the path unchanged. Raises RequestError if it could resolve to another place."""
    if not _PATH.fullmatch(path) or path.startswith("//"):
        raise RequestError(f"{path!r:.120} is not a path: does it hold a model name that is not allowed in URLs?")
    decoded_path = unquote_to_bytes(path.partition("?")[0])
    if _CONTROL.search(unquote_to_bytes(path)) or {b".", b".."} & set(decoded_path.split(b"/")):
        raise RequestError(f"{path!r:.120} contains . or .. segments or the like: write the plain path")
    return path


def full_url(base_url: str, path: str) -> "httpx.URL":
    """Join base URL and path. Raises RequestError and ConfigurationError; see `validate_path`."""
    import httpx

    try:
        url = httpx.URL(base_url + validate_path(path))
        _ = url.host  # Decodes an international name, which may be invalid.
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError("the base URL has an invalid host") from None
    return url


def http_headers(request: WireRequest, target: Target) -> dict[str, str]:
    """Return all headers of a request. Those of the request itself win, its key included."""
    headers = {
        "user-agent": user_agent(),
        "accept": "application/json",
        "accept-encoding": "identity" if request.stream else ACCEPT_ENCODING,
        "content-type": "application/json",
        **validate_headers(request.headers),
    }
    for name, value in target.headers.items():
        headers[name] = headers.get(name) or value
    return headers


def remember_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers of a caller's settings, by lower-case names. Values that may be secret are masked in errors."""
    from dragoman.canonical.extensions.headers import is_sensitive  # imported late: few programs set headers

    checked = validate_headers(headers)
    for name, value in checked.items():
        if is_sensitive(name):
            remember_key(value)
    return checked


@cache
def user_agent() -> str:
    return f"dragoman/{version('dragoman')}"


def has_own_credential(headers: Mapping[str, str], endpoint: Endpoint) -> bool:
    """Whether the caller has set a header that the endpoint reads a credential from."""
    names = (endpoint.key_header.lower(), *endpoint.credential_headers)
    return any(value and name.lower() in names for name, value in headers.items())


def validate_timeout(seconds: float) -> float:
    """Return the time limit. Raises RequestError for a time limit that is not a positive number."""
    if not seconds > 0:
        raise RequestError(f"a timeout must be a number of seconds greater than 0, not {seconds!r}")
    return seconds


def server_of(url: Any) -> str:
    """Return host and port of an address, for errors."""
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{port}"


class Access(Protocol):
    """Credentials of one call that are fetched; `dragoman.transport.authorization` implements it."""

    def authorize(self, call: "Call", /) -> None: ...

    async def authorize_async(self, call: "Call", /) -> None: ...

    def may_renew(self, error: Any, /) -> bool: ...

    def name_skew(self, error: object, headers: Mapping[str, str], /) -> None: ...


@dataclass(slots=True, eq=False, repr=False)  # one that is frozen takes several times as long to make
class PreparedRequest:
    """A validated request with its key, which nothing changes. It has no repr: headers hold the key, the body the
    conversation.
    """

    method: str
    url: Any
    headers: dict[str, str]
    body: bytes
    stream: bool
    key: ApiKey | None = None
    server: str = ""
    """Host and port, for errors."""
    target: Target | None = None
    """What ``url`` was made from, with ``path``, for errors; None if a client of the caller has the address."""
    path: str = ""
    access: "Access | None" = None
    """Fetches what proves who asks, before each attempt. Headers, key and perhaps the address follow from it."""
    terms: dict[str, str] | None = None
    """Receives the host of the address, if its prices differ."""
    priced_hosts: str | None = None
    upload: Upload | None = None
    """Sent in place of ``body``, once."""

    def note_host(self) -> None:
        """Add the host to ``terms``, if its prices differ."""
        if self.terms is not None and self.priced_hosts and self.url.host.endswith(self.priced_hosts):
            self.terms["host"] = self.url.host


@dataclass(slots=True)
class Call:
    """The state of one call. ``headers`` are those of the current attempt's reply."""

    adapter: Adapter
    prepared: PreparedRequest
    retry_state: RetryState
    connect_timeout: float
    body_cap: int
    one_attempt: bool = False
    """Whether the caller decides on retries."""
    any_type: bool = False
    """Whether the reply may be a page."""
    headers: Headers = field(default_factory=Headers)
    is_page: bool = False
    """Whether the reply is a page for a browser: no API answers with one."""
    delivered: bool = False
    """Whether the caller has received any of its chunks."""
    proxy: str = ""
    """Host and port of the proxy of the current attempt, for errors."""
    recorder: "ExchangeRecorder | None" = None

    def time_limits(self) -> dict[str, float | None]:
        """Return the attempt's time limits in seconds, under httpx's names."""
        if math.isinf(self.retry_state.timeout):
            return {"connect": self.connect_timeout, "read": None, "write": None, "pool": None}
        left = TimeLeft(self.retry_state)
        to_connect = TimeLeft(self.retry_state, self.connect_timeout)
        return {"connect": to_connect, "read": left, "write": left, "pool": left}

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline of the whole call, or of the beginning of its stream; None without one."""
        left = self.retry_state.remaining
        return None if left == math.inf else max(left, 0.0)

    @property
    def idle_timeout(self) -> float | None:
        """Seconds without content after which a stream has stalled, with or without keep-alives."""
        return None if math.isinf(self.retry_state.timeout) else self.retry_state.timeout

    def set_headers(self, response: RawResponse) -> Headers:
        """Store the reply's headers."""
        self.headers = Headers(response.headers)
        is_page = self.headers.get("content-type", "").lower().startswith(_PAGE_TYPES)
        self.is_page = is_page and not self.any_type
        if self.recorder is not None:
            self.recorder.receive_head(response.status_code, self.headers)
        return self.headers

    def new_inflater(self, response: RawResponse) -> "Inflater | None":
        """Return the decompressor of the body; None if it is plain, or was decompressed by whoever read it first."""
        encoding = self.headers.get("content-encoding")
        if encoding is None or response.is_stream_consumed:
            return None
        from dragoman.transport.inflate import STREAM_RATIO, inflater_for  # imported late: many bodies are plain

        return inflater_for(encoding, max_ratio=STREAM_RATIO if self.prepared.stream else None)

    def classify(self, status: int, body: bytes) -> WireResponse | DragomanError:
        """Return the reply, or the error that it means."""
        if status < 300 and self.is_page:
            from dragoman.transport.failures import page_error  # imported late, as below

            target, path = self.prepared.target, self.prepared.path.partition("?")[0]
            address = self.prepared.server if target is None else f"{target.base_url}{path}"
            return self._with_hint(
                page_error(status, body, self.headers["content-type"], address, self.adapter.provider)
            )
        if status < 300:
            self.retry_state.record_success(status)
            if self.recorder is not None:
                self.recorder.end()
            return WireResponse(status, body, self.headers, self.retry_state.attempts)
        if status < 400:
            return UnclassifiedError(
                "the provider's address has moved, but redirects are not followed, because they would send the key "
                "and the conversation there: set base_url to the new address",
                provider=self.adapter.provider,
                status=status,
            )
        error = self.adapter.error(status, body, self.headers)
        error.provider = error.provider or self.adapter.provider
        return self._with_hint(error)

    def _with_hint(self, error: ProviderError) -> ProviderError:
        """Add the full address and the likely mistake in it, if the error is of the address."""
        prepared = self.prepared
        of_the_address = error.status is None or error.status in MISSED or isinstance(error, UnexpectedPageError)
        if of_the_address and prepared.target is not None:
            from dragoman.transport.failures import explain

            error.hint = explain(error, prepared.method, prepared.target, prepared.path, self.adapter, self.proxy)
        return error

    def to_error(self, exception: Exception) -> DragomanError:
        """Return the error that an exception during an attempt means. Bugs are raised unchanged."""
        from dragoman.transport.failures import as_error, at_server  # imported late: most calls succeed

        server = f"{self.prepared.server} through the proxy {self.proxy}" if self.proxy else self.prepared.server
        error = as_error(exception, self.adapter.provider, self.prepared.key, server)
        if error is None:
            raise exception
        if isinstance(error, RequestTimeoutError) and self.headers and not self.prepared.stream:
            error = RequestTimeoutError(at_server(server, _NOT_COMPLETE))
        if isinstance(error, ProviderError):
            error.provider = error.provider or self.adapter.provider
            if self.headers:
                error.sent = True
            if isinstance(error, NetworkError) and not self.headers:
                self._with_hint(error)
        return error

    def next_wait(self, error: DragomanError) -> float | None:
        """End an attempt, and return the seconds until the next one. Raises the error if there is none here.

        Call it outside the exception handler: chained to our error, a library's exception would carry the request, and
        with it the key, into every traceback. None means at once: the provider refused the credentials, and others may
        help. That belongs to the same attempt, which has reserved once: a refused request costs nothing.
        """
        if self.recorder is not None:
            self.recorder.end(error)
        access, wait = self.prepared.access, None
        if access is not None:
            access.name_skew(error, self.headers)
        if access is None or not access.may_renew(error):
            wait = self.retry_state.record_failure(error, self.headers) if isinstance(error, ProviderError) else None
            if wait is None or self.one_attempt:
                raise error
        self.headers, self.is_page = _NO_HEADERS, False  # what this reply said is not said of the next one
        return wait

    def on_stream_error(self, error: DragomanError) -> DragomanError:
        """Return the error of a reply that broke off after it had begun."""
        if isinstance(error, ProviderError):
            self.retry_state.record_break(error)
        if self.recorder is not None:
            self.recorder.error = error
        return error


class BodyReader:
    """Reads a whole reply's body: decompressed, within the time limit and the size cap."""

    def __init__(self, call: Call, response: RawResponse) -> None:
        self._call = call
        self._is_error = response.status_code >= 300 or call.is_page
        self._cap = ERROR_BODY_CAP if self._is_error else call.body_cap
        try:
            self._inflater = call.new_inflater(response)
        except MalformedReplyError:
            if not self._is_error:
                raise
            self._inflater = None
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, raw: bytes) -> bool:
        """Return whether to read on. Raises FrameTooLargeError and RequestTimeoutError."""
        if self._call.retry_state.remaining <= 0:
            raise RequestTimeoutError(_NOT_COMPLETE)
        for piece in (raw,) if self._inflater is None else self._inflater.feed(raw):
            self._size += len(piece)
            self._pieces.append(piece)
            if self._call.recorder is not None:
                self._call.recorder.receive(piece)
            if self._size > self._cap:
                if self._is_error:
                    return False
                raise FrameTooLargeError(f"the reply is larger than {self._cap} bytes: raise body_cap to allow it")
        return True

    def finish(self) -> bytes:
        """Return the body. Raises StreamTruncatedError if its compressed data is incomplete."""
        if self._is_error:
            return self._error_body()
        if self._inflater is not None:
            self._inflater.finish()
        return b"".join(self._pieces)

    def on_error(self, exception: Exception) -> bytes:
        """Handle a broken read: of a failing reply the part that arrived is enough; otherwise raise the exception."""
        from dragoman.transport.failures import as_error

        if self._is_error and as_error(exception, self._call.adapter.provider) is not None:
            return self._error_body()
        raise exception

    def _error_body(self) -> bytes:
        return mask_bytes(self._call.prepared.key, b"".join(self._pieces)[: self._cap])

"""Validates a request before it is sent: a header value or a path must not become another header or path.

httpx builds requests from values with line ends; whether they are refused below depends on the engine. So they are
refused here for every engine.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.known_keys import remember_key
from dragoman.adapter.wire import WireRequest
from dragoman.credentials.target import Target

if TYPE_CHECKING:
    import httpx

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


def http_headers(request: WireRequest, endpoint: Endpoint, target: Target) -> dict[str, str]:
    """Return all headers of a request. Those of the request itself win, its key included."""
    headers = {
        "user-agent": user_agent(),
        "accept": "application/json",
        "accept-encoding": "identity" if request.stream else ACCEPT_ENCODING,
        "content-type": "application/json",
        **validate_headers(request.headers),
    }
    name, prefix = endpoint.key_header.lower(), endpoint.key_prefix
    if target.is_bearer:
        name, prefix = "authorization", "Bearer "
    if target.key is not None and not headers.get(name):
        headers[name] = prefix + target.key.reveal()
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
    if not headers:
        return False
    names = (endpoint.key_header.lower(), *endpoint.credential_headers)
    return any(value and name.lower() in names for name, value in headers.items())

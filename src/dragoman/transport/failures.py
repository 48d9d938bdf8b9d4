"""From what an HTTP library or a vendor's client raises to our own errors.

The classes are told apart by name: httpx and its continuation httpx2 have the same names and are not the same classes,
and of no library is it known whether it is installed. The library's exception is not chained to ours: it holds the
request, and that holds the key.
"""

import re

from dragoman.adapter.errors import (
    ConfigurationError,
    DragomanError,
    MalformedReplyError,
    NetworkError,
    RequestError,
    RequestTimeoutError,
    mask_secrets,
)
from dragoman.transport.credentials import ApiKey

_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp"})
_CONNECTION_ERRORS = frozenset({"TransportError", "StreamError", "NetworkError", "ProtocolError", "ClientError"})
_BACKEND_LIBRARIES = frozenset({"anyio"})
"""Whose exceptions httpx lets through now and then, when TLS ends badly."""
_VENDOR_PACKAGES = frozenset({"anthropic", "openai", "ollama"})
_URL_SECRETS = re.compile(r"(?<=://)[^/\s@]*@|\?\S+")
_MAX_TEXT = 300

_NO_DATA = "nothing arrived in time: raise timeout if the model may take longer"
_TIMEOUTS = {
    "ConnectTimeout": "no connection was made in time",
    "ConnectionTimeoutError": "no connection was made or became free in time: raise max_connections if all are in use",
    "PoolTimeout": "no connection became free in time: raise max_connections, or read and leave streams sooner",
    "WriteTimeout": "the request could not be written in time",
}


def as_error(raised: Exception, provider: str, key: ApiKey | None = None) -> DragomanError | None:
    """The error that an exception means; None where it is no failure of a request but a bug, which should show.

    The exception's text may repeat what the provider sent; the key is taken out of it.
    """
    if isinstance(raised, DragomanError):
        return raised
    class_names = _class_names(raised, _HTTP_LIBRARIES)
    if "TimeoutException" in class_names or isinstance(raised, TimeoutError):
        message = next((text for name, text in _TIMEOUTS.items() if name in class_names), _NO_DATA)
        return RequestTimeoutError(message, provider=provider)
    if "DecodingError" in class_names:
        return MalformedReplyError(_describe("the reply could not be decoded", raised, key), provider=provider)
    if class_names & {"LocalProtocolError", "UnsupportedProtocol", "InvalidURL"}:
        return RequestError(f"the request cannot be sent: {type(raised).__name__}")
    if class_names & _CONNECTION_ERRORS or isinstance(raised, OSError) or _class_names(raised, _BACKEND_LIBRARIES):
        return NetworkError(_describe("the connection failed", raised, key), provider=provider)
    return _vendor_error(raised, provider, key)


def _vendor_error(raised: Exception, provider: str, key: ApiKey | None) -> DragomanError | None:
    class_names = _class_names(raised, _VENDOR_PACKAGES)
    if "APITimeoutError" in class_names:
        return RequestTimeoutError(_NO_DATA, provider=provider)
    if "APIConnectionError" in class_names:
        cause = raised.__cause__
        inner = as_error(cause, provider, key) if isinstance(cause, Exception) else None
        return inner or NetworkError(_describe("the connection failed", raised, key), provider=provider)
    if class_names or (isinstance(raised, TypeError) and "authentication" in str(raised)):
        return ConfigurationError(_describe("the client refuses to send the request", raised, key))
    return None


def _class_names(raised: Exception, libraries: frozenset[str]) -> set[str]:
    return {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.partition(".")[0] in libraries}


def _describe(problem: str, raised: Exception, key: ApiKey | None) -> str:
    text = str(raised) if key is None else key.mask(str(raised))
    text = _URL_SECRETS.sub("***", text).strip()
    return mask_secrets(f"{problem}: {type(raised).__name__}{f': {text[:_MAX_TEXT]}' if text else ''}")

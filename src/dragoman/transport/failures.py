"""From what an HTTP library or a vendor's client raises to our own errors.

The classes are told apart by name, because httpx and its continuation httpx2 have the same names and are not the same
classes. The library's exception is not chained to ours: it holds the request, and that holds the key.
"""

import re
import ssl

from dragoman.adapter.errors import (
    ConfigurationError,
    DragomanError,
    MalformedReplyError,
    NetworkError,
    RequestError,
    RequestTimeoutError,
    mask_secrets,
)

_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
_VENDORS = frozenset({"anthropic", "openai", "ollama"})
_URL_SECRETS = re.compile(r"(?<=://)[^/\s@]*@|\?\S+")
_MAX_TEXT = 300

_TIMEOUTS = {
    "ConnectTimeout": "no connection was made in time",
    "PoolTimeout": "no connection became free in time: raise max_connections, or read and leave streams sooner",
    "WriteTimeout": "the request could not be written in time",
}


def as_error(raised: Exception, provider: str) -> DragomanError | None:
    """The error that an exception means; None where it is no failure of a request but a bug, which should show."""
    if isinstance(raised, DragomanError):
        return raised
    kinds = _names(raised, _HTTP_LIBRARIES)
    if "TimeoutException" in kinds or isinstance(raised, TimeoutError):
        said = next((text for name, text in _TIMEOUTS.items() if name in kinds), "nothing arrived in time")
        return RequestTimeoutError(said, provider=provider)
    if "DecodingError" in kinds:
        return MalformedReplyError(_told("the reply could not be decoded", raised), provider=provider)
    if kinds & {"LocalProtocolError", "UnsupportedProtocol", "InvalidURL"}:
        return RequestError(f"the request cannot be sent: {type(raised).__name__}")
    if kinds & {"TransportError", "StreamError", "NetworkError", "ProtocolError"} or isinstance(
        raised, (OSError, ssl.SSLError)
    ):
        return NetworkError(_told("the connection failed", raised), provider=provider)
    return _vendor_error(raised, provider)


def _vendor_error(raised: Exception, provider: str) -> DragomanError | None:
    kinds = _names(raised, _VENDORS)
    if "APITimeoutError" in kinds:
        return RequestTimeoutError("nothing arrived in time", provider=provider)
    if "APIConnectionError" in kinds:
        cause = raised.__cause__
        inner = as_error(cause, provider) if isinstance(cause, Exception) else None
        return inner or NetworkError(_told("the connection failed", raised), provider=provider)
    if kinds or (isinstance(raised, TypeError) and "authentication" in str(raised)):
        return ConfigurationError(_told("the client refuses to send the request", raised))
    return None


def _names(raised: Exception, libraries: frozenset[str]) -> set[str]:
    return {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.partition(".")[0] in libraries}


def _told(what: str, raised: Exception) -> str:
    text = _URL_SECRETS.sub("***", str(raised)).strip()
    return mask_secrets(f"{what}: {type(raised).__name__}{f': {text[:_MAX_TEXT]}' if text else ''}")

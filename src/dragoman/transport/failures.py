"""What a failed attempt means: the error of an exception, the address in full, and the likely mistake in it.

Exceptions of HTTP libraries and vendor clients become our errors. Their classes are recognized by name: httpx and its
successor httpx2 have the same names for different classes, and any of the libraries may be missing. Our error is not
chained to theirs, because theirs holds the request and with it the key.
"""

import re

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import (
    ConfigurationError,
    DragomanError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestError,
    RequestTimeoutError,
    UnexpectedPageError,
    mask_secrets,
)
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.target import Target

_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp"})
_CONNECTION_ERRORS = frozenset({"TransportError", "StreamError", "NetworkError", "ProtocolError", "ClientError"})
_BACKEND_LIBRARIES = frozenset({"anyio"})
"""httpx sometimes lets their exceptions through, when TLS ends badly."""
_VENDOR_PACKAGES = frozenset({"anthropic", "openai", "ollama"})
_URL_SECRETS = re.compile(r"(?<=://)[^/\s@]*@|\?\S+")
_MAX_TEXT = 300
_MAX_PAGE = 16 * 1024
_PAGE_MARKUP = re.compile(r"(?is)<(script|style)\b.*?(</\1>|$)|<[^>]*>?")
_NO_DATA = "nothing arrived in time: raise timeout if the model may take longer"
_NEVER_CONNECTED = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "ClientConnectorError", "ConnectionTimeoutError"}
)
"""Exceptions from before a request is written."""
_TIMEOUTS = {
    "ConnectTimeout": "no connection was made in time",
    "ConnectionTimeoutError": "no connection was made or became free in time: raise max_connections if all are in use",
    "PoolTimeout": "no connection became free in time: raise max_connections, or close streams sooner",
    "WriteTimeout": "the request could not be written in time",
}
_VERSION = re.compile(r"/v\d\w*$")
_VERSIONS = re.compile(r"(?:/.*)?/v\d\w*/(?:.*/)?v\d\w*/")
_ENDPOINT = re.compile(
    r"/(?:chat/completions|completions|responses|messages|embeddings|api/chat|api/generate|models(?:/[^/]*enerateContent)?)$"
)
_OF_THE_MODEL = re.compile(
    r"model\b.{0,120}(?:not (?:be )?found|not exist|not_found|no access|unknown)|(?:unknown|no|no such) model",
    re.DOTALL,
)
_PLAIN_SERVER = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|(?:wrong version number|record layer failure)")
_UNTRUSTED = re.compile(r"certificate.verify.failed", re.IGNORECASE)
_UNKNOWN_HOST = re.compile(
    r"has no address|name or service|getaddrinfo|nodename|no address|failure in name|cannot connect to host .* \[name",
    re.IGNORECASE,
)
_OTHER_WIRES = (
    ("/responses", "the server has Chat Completions only: use openai-chat:{model} or compatible:{model}"),
    ("/messages", "the server does not speak Anthropic's API: use compatible:{model} for OpenAI's"),
    ("/api/chat", "the server does not speak Ollama's own API: use compatible:{model} for OpenAI's"),
    ("enerateContent", "the server does not speak Google's API: use compatible:{model} for OpenAI's"),
    ("/chat/completions", "the server speaks another API: use openai:{model}, anthropic:{model} or ollama:{model}"),
)
"""By a part of a request's path: which API the server may have instead."""


class ConnectError(ConnectionError):
    """No connection was made; for an engine whose own exception shows too much."""


def as_error(exception: Exception, provider: str, key: ApiKey | None = None, server: str = "") -> DragomanError | None:
    """Return the error that an exception means; None if it is a bug, not a failed request.

    Masks the API key in the exception's text. ``server`` is host and port, which the error names.
    """
    if isinstance(exception, DragomanError):
        return exception
    class_names = _class_names(exception, _HTTP_LIBRARIES)
    if "TimeoutException" in class_names or isinstance(exception, TimeoutError):
        message = next((text for name, text in _TIMEOUTS.items() if name in class_names), _NO_DATA)
        timed_out = RequestTimeoutError(at_server(server, message), provider=provider)
        if class_names & _NEVER_CONNECTED:
            timed_out.sent = False
        return timed_out
    if "DecodingError" in class_names:
        problem = at_server(server, "the reply could not be decoded")
        return MalformedReplyError(_describe(problem, exception, key), provider=provider)
    if class_names & {"LocalProtocolError", "UnsupportedProtocol", "InvalidURL"}:
        return RequestError(f"the request cannot be sent: {type(exception).__name__}")
    if (
        class_names & _CONNECTION_ERRORS
        or isinstance(exception, OSError)
        or _class_names(exception, _BACKEND_LIBRARIES)
    ):
        error = NetworkError(_describe(_failed_connection(server), exception, key), provider=provider)
        never_connected = class_names & _NEVER_CONNECTED or isinstance(
            exception, (ConnectError, ConnectionRefusedError)
        )
        error.sent = False if never_connected else None
        return error
    return _vendor_error(exception, provider, key, server)


def _vendor_error(exception: Exception, provider: str, key: ApiKey | None, server: str) -> DragomanError | None:
    class_names = _class_names(exception, _VENDOR_PACKAGES)
    if "APITimeoutError" in class_names:
        return RequestTimeoutError(at_server(server, _NO_DATA), provider=provider)
    if "APIConnectionError" in class_names:
        cause = exception.__cause__
        inner = as_error(cause, provider, key, server) if isinstance(cause, Exception) else None
        return inner or NetworkError(_describe(_failed_connection(server), exception, key), provider=provider)
    if class_names or (isinstance(exception, TypeError) and "authentication" in str(exception)):
        return ConfigurationError(_describe("the client refuses to send the request", exception, key))
    return None


def _class_names(exception: Exception, libraries: frozenset[str]) -> set[str]:
    return {kind.__name__ for kind in type(exception).__mro__ if kind.__module__.partition(".")[0] in libraries}


def at_server(server: str, problem: str) -> str:
    """Put the server's host and port before a problem."""
    return f"{server}: {problem}" if server else problem


def _failed_connection(server: str) -> str:
    return f"the connection to {server} failed" if server else "the connection failed"


def _describe(problem: str, exception: Exception, key: ApiKey | None) -> str:
    text = str(exception) if key is None else key.mask(str(exception))
    text = _URL_SECRETS.sub("***", text).strip()
    return mask_secrets(f"{problem}: {type(exception).__name__}{f': {text[:_MAX_TEXT]}' if text else ''}")


def page_error(status: int, body: bytes, kind: str, address: str, provider: str) -> UnexpectedPageError:
    """Return the error of a page that came in place of a reply, from a proxy, a login or a wrong path."""
    words = " ".join(_PAGE_MARKUP.sub(" ", body[:_MAX_PAGE].decode("utf-8", "replace")).split())
    return UnexpectedPageError(
        f"{address} answered with a page ({kind:.80}), "
        f"not with a reply: check base_url, the proxy and the network. The page begins: {words[:_MAX_TEXT]}",
        provider=provider,
        status=status,
    )


def explain(error: ProviderError, method: str, target: Target, path: str, adapter: Adapter, proxy: str) -> str | None:
    """Return the full address and the likely cause of an error that may concern it; None for any other error."""
    if error.status is None:
        cause = _of_connection(error, target, through_proxy=bool(proxy))
    elif isinstance(error, UnexpectedPageError):
        cause = _of_path(target, path, adapter.endpoint.base_url, adapter.model)
    elif error.status == 400:
        if "HTTPS port" not in error.message:
            return None
        cause = _write(target, _with_scheme(target.base_url, "https"))
    elif _OF_THE_MODEL.search(error.message.lower()):
        cause = ""
    else:
        cause = _of_path(target, path, adapter.endpoint.base_url, adapter.model)
    asked = f"{method} {target.base_url}{path.partition('?')[0]}"
    return f"{asked}: {cause}" if cause else asked


def _of_path(target: Target, path: str, default: str, model: str) -> str:
    base, setting = target.base_url, target.setting
    if not setting:
        return "the provider has no such path, or no such model"
    versioned = re.match(r"/v\d", path) is not None
    if found := _ENDPOINT.search(base):
        root = base[: found.start()]
        return f"{setting} has a whole endpoint: {_write(target, _VERSION.sub('', root) if versioned else root)}"
    if _VERSIONS.match(_path_of(base) + path):
        return f"{setting} has the version that the path has already: {_write(target, _VERSION.sub('', base))}"
    given, usual = _path_of(base), _path_of(default)
    if usual and not given:
        return f"{setting} lacks {usual}: {_write(target, base + usual)}"
    causes = [next((text.format(model=model) for part, text in _OTHER_WIRES if part in path), "")]
    if given != usual:
        written = _write(target, base.removesuffix(given) + usual)
        causes.insert(0, f"{setting} has the path {given}, and not {usual or 'an empty one'}: {written}")
    return "; or ".join(filter(None, causes)) or f"{setting} has a wrong path"


def _of_connection(error: ProviderError, target: Target, *, through_proxy: bool) -> str:
    message, setting = error.message, target.setting or "the network"
    if _PLAIN_SERVER.search(message):
        return f"the server does not speak TLS: {_write(target, _with_scheme(target.base_url, 'http'))}"
    if _UNTRUSTED.search(message):
        return (
            "its certificate is not trusted: give the authority's, as in"
            " verify=ssl.create_default_context(cafile=...), or in SSL_CERT_FILE"
        )
    if through_proxy:
        return "check the address of the proxy, or except this host in NO_PROXY"
    if _UNKNOWN_HOST.search(message):
        return f"no computer has that name: check the host in {setting}"
    if error.sent is False:
        return f"nothing answers there: start the server, or check host and port in {setting}"
    if target.base_url.startswith("http://") and target.setting:
        written = _write(target, _with_scheme(target.base_url, "https"))
        return f"the server ended the connection; if it speaks TLS, {written}"
    return "the server ended the connection without an answer"


def _write(target: Target, base_url: str) -> str:
    shown = repr(base_url) if target.setting == "base_url" else base_url
    return f"write {target.setting or 'base_url'}={shown}"


def _with_scheme(base_url: str, scheme: str) -> str:
    return f"{scheme}://{base_url.partition('://')[2]}"


def _path_of(base_url: str) -> str:
    """Return the path of a base URL, from its first slash; empty if it has none."""
    _, slash, path = base_url.partition("://")[2].partition("/")
    return slash + path

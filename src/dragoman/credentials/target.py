"""Finds the base URL and key of a request. A key is sent only to the origin that it was given for."""

import os
import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from dragoman.adapter.contract import Adapter, Endpoint
from dragoman.adapter.errors import ConfigurationError, MissingKeyError
from dragoman.credentials.api_key import ApiKey, validate_key
from dragoman.credentials.stored_keys import StoredKeys

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[0-9a-f:.]*:[0-9a-f:.]*|(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
"""A name or an IPv6 address, in lower case. Others cause exceptions deep in the libraries, or worse."""
_BRACKETS = re.compile(r"\[[^\[\]]*\](?::.*)?|[^\[\]]*")
"""Brackets only around an IPv6 address. Text next to them would be ignored, and change the host."""
_PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that a server listens on; people also use them as addresses to call."""


class Target(NamedTuple):
    """A base URL without a trailing slash, and its key, if any."""

    base_url: str
    key: ApiKey | None


class TargetFinder:
    """Finds key and base URL for an adapter: as given, else from the environment, else as stored or from the endpoint.

    A key that `dragoman keys set` stored is used only with the environment of the process.

    A given key or URL belongs to one service. Once used for an adapter, it is refused for an adapter of another
    service, because a key would be sent to the wrong party.
    """

    def __init__(
        self,
        api_key: str | ApiKey | None = None,
        base_url: str | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._key = None if api_key is None else validate_key(ApiKey.wrap(api_key), "the given API key")
        self._base_url = base_url
        self._environ = environ
        self._service: str | None = None

    def target(self, adapter: Adapter, *, keyless: bool = False) -> Target:
        """Return the address and the key for an adapter. Raises MissingKeyError, and ConfigurationError for a base URL
        or key that cannot be used.

        ``keyless``: the request has its own key, so none is looked up.
        """
        endpoint = adapter.endpoint
        self._bind(endpoint, adapter.provider)
        key = None if keyless else self._find_key(endpoint, adapter.provider)
        return Target(self._find_base_url(endpoint, adapter.provider), key)

    def _bind(self, endpoint: Endpoint, provider: str) -> None:
        if self._key is None and self._base_url is None:
            return
        if self._service is None:
            self._service = endpoint.base_url
        elif self._service != endpoint.base_url:
            raise ConfigurationError(
                f"this transport's key or base URL was given for {self._service}, but {provider} is another service: "
                "create a separate transport for it"
            )

    def _find_key(self, endpoint: Endpoint, provider: str) -> ApiKey | None:
        if self._key is not None:
            return self._key
        for variable in endpoint.key_variables:
            if key := self._environ.get(variable, "").strip():
                return validate_key(ApiKey(key), f"the API key in {variable}")
        if self._environ is os.environ and takes_key(endpoint) and (stored := StoredKeys().get(provider)):
            return stored
        if endpoint.key_required:
            names = " or ".join(endpoint.key_variables)
            hint = f"set {names}, or pass api_key=" if names else "pass api_key="
            raise MissingKeyError(f"no API key for {provider}: {hint}, or store one with: dragoman keys set {provider}")
        return None

    def _find_base_url(self, endpoint: Endpoint, provider: str) -> str:
        if self._base_url is not None:
            return validate_base_url(self._base_url, endpoint.base_url)
        variable = endpoint.base_url_variable
        if variable and (value := self._environ.get(variable, "").strip()):
            return validate_base_url(value, endpoint.base_url)
        if not endpoint.base_url:
            hint = f"set {variable}, or pass base_url=" if variable else "pass base_url="
            raise ConfigurationError(f"no address for {provider}: {hint}")
        return validate_base_url(_PLACEHOLDER.sub(partial(self._fill_placeholder, provider), endpoint.base_url))

    def _fill_placeholder(self, provider: str, placeholder: re.Match[str]) -> str:
        """Return the environment's value for a name in an address, without a trailing slash."""
        variable = placeholder[1]
        value = self._environ.get(variable, "").strip().rstrip("/")
        if not value:
            raise ConfigurationError(f"no address for {provider}: set {variable}, or pass base_url=")
        return value


def takes_key(endpoint: Endpoint) -> bool:
    """Whether a key may be sent to the endpoint."""
    return endpoint.key_required or bool(endpoint.key_variables)


@lru_cache(maxsize=64)
def validate_base_url(text: str, default: str = "") -> str:
    """Return the base URL without a trailing slash.

    Without a scheme, as in ``OLLAMA_HOST=gpu-box``, it takes scheme, port and path from the default. Raises
    ConfigurationError if it is not an http URL, or has a user name, a query, a fragment or ``..`` in its path. The
    message does not repeat the text: it may hold a password.
    """
    text = text.strip()
    if not _PRINTABLE.fullmatch(text) or "\\" in text:
        raise ConfigurationError("the base URL holds blanks, backslashes or non-ASCII characters")
    parts = _split_url(text if "://" in text else f"//{text}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            "the base URL holds a user name, a query or a fragment: give scheme, host and path only"
        )
    if not _BRACKETS.fullmatch(parts.netloc):
        raise ConfigurationError("the base URL has brackets where no address begins or ends")
    host = parts.hostname
    port = _port(parts)
    scheme, path = parts.scheme, parts.path
    if not scheme and default:
        default_parts = _split_url(default)
        host, port = host or default_parts.hostname, port or default_parts.port
        scheme, path = default_parts.scheme, path.rstrip("/") or default_parts.path
    if scheme not in ("http", "https") or not host or not _HOST.fullmatch(host):
        raise ConfigurationError("the base URL is not of the form https://host or http://host")
    if {".", ".."} & set(unquote(path).split("/")):
        raise ConfigurationError("the base URL has . or .. segments or the like in its path: write the plain path")
    host = _LOOPBACK.get(host, host)
    host_text = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host_text}{f':{port}' if port else ''}{path}".rstrip("/")


def _split_url(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ConfigurationError("the base URL cannot be read") from None


def _port(parts: Any) -> int | None:
    try:
        port: int | None = parts.port
    except ValueError:
        raise ConfigurationError("the base URL has a port that is not a number up to 65535") from None
    return port

"""Finds the base URL and key of a request. A key is sent only to the origin that it was given for."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from dragoman.adapter.contract import Adapter, Endpoint
from dragoman.adapter.errors import ConfigurationError, MissingKeyError
from dragoman.adapter.registry import adapter_class, is_provider
from dragoman.credentials.contract import IDENTITY_SETTINGS, ApiKey, validate_key

if TYPE_CHECKING:
    from dragoman.credentials.cached import CachedCredentials
    from dragoman.credentials.contract import Authorization
    from dragoman.credentials.given import GivenCredentials

_SETTING_OF = {"AWS_REGION": "region", "GOOGLE_CLOUD_PROJECT": "project"}
"""The setting that stands for a variable in an address."""
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[0-9a-f:.]*:[0-9a-f:.]*|(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
"""A name or an IPv6 address, in lower case. Others cause exceptions deep in the libraries, or worse."""
_BRACKETS = re.compile(r"\[[^\[\]]*\](?::.*)?|[^\[\]]*")
"""Brackets only around an IPv6 address. Text next to them would be ignored, and change the host."""
_PLACEHOLDER = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
HOST_AND_PATH = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d{1,5})?(?:/[\w./-]*)?")
"""What is probably a host, with a port or a path, and no secret."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that a server listens on; people also use them as addresses to call."""


@dataclass(frozen=True, slots=True)
class Target:
    """A base URL without a trailing slash, and its key or credentials, if any.

    The base URL is empty if a part of it is known with the credentials only; see `TargetFinder.complete`.
    """

    base_url: str
    key: ApiKey | None
    credentials: "CachedCredentials | None" = None
    setting: str = ""
    """What the base URL is from: ``base_url``, or a variable; empty if it is the provider's own."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What carries the key, by lower-case names."""


_Found = tuple[ApiKey | None, "CachedCredentials | None", bool]


class TargetFinder:
    """Finds key and base URL for an adapter: as given, else from the environment, else as stored or from the endpoint.

    A key that `dragoman keys set` stored is used only with the environment of the process.

    A given key or URL belongs to one service. Once used for an adapter, it is refused for an adapter of another
    service, because a key would be sent to the wrong party.

    ``credentials`` are in place of a key. ``cloud`` are the settings of `CLOUD_SETTINGS`. The credentials that a
    cloud's own library finds are used only with the environment of the process, too.
    """

    def __init__(
        self,
        api_key: str | ApiKey | None = None,
        base_url: str | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        credentials: "GivenCredentials | None" = None,
        cloud: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if api_key is not None and credentials is not None:
            raise ConfigurationError("both api_key and credentials are given: keep one of them")
        self._key = None if api_key is None else validate_key(ApiKey.wrap(api_key), "the given API key")
        self._base_url = base_url
        self._environ = environ
        self._credentials = credentials
        self._cloud = {name: value for name, value in cloud.items() if value}
        self._service: str | None = None
        self._last: tuple[Endpoint, int, Target] | None = None
        """The last target with a key, and the hash of the variables that it is from: most requests have the same."""

    def target(self, adapter: Adapter, *, keyless: bool = False) -> Target:
        """Return the address and the key for an adapter. Raises MissingKeyError, and ConfigurationError for a base URL
        or key that cannot be used.

        ``keyless``: the request has its own key, so none is looked up.
        """
        endpoint = adapter.endpoint
        if self._service != endpoint.base_url and (self._key or self._base_url is not None or self._credentials):
            if self._service is not None:
                raise ConfigurationError(
                    f"this transport's key or base URL was given for {self._service}, but {adapter.provider} is another"
                    " service: create a separate transport for it"
                )
            self._service = endpoint.base_url
        if keyless:
            return self._new_target(adapter, None)
        if self._credentials is not None:
            return self._new_target(adapter, None, self._credentials.for_scope(endpoint.scope))
        if self._key is None and not IDENTITY_SETTINGS.isdisjoint(self._cloud):
            return self._new_target(adapter, None, self._find_cloud(endpoint, adapter.provider))
        names = () if self._key else (*endpoint.key_variables, *endpoint.token_variables)
        # Of the variables only the hash is kept: no traceback shows a key.
        read = hash(tuple(map(self._environ.get, (*names, endpoint.base_url_variable or ""))))
        if self._last is not None and self._last[0] is endpoint and self._last[1] == read:
            return self._last[2]
        key, credentials, is_bearer = self._key, None, False
        if key is None:
            key, credentials, is_bearer = self._find_key(endpoint, adapter.provider)
        target = self._new_target(adapter, key, credentials, is_bearer=is_bearer)
        is_given = self._key is not None or any(self._environ.get(each, "").strip() for each in names)
        if is_given and not self._cloud and "{" not in endpoint.base_url:
            self._last = endpoint, read, target  # nothing else can change it
        return target

    def _new_target(
        self,
        adapter: Adapter,
        key: ApiKey | None,
        credentials: "CachedCredentials | None" = None,
        *,
        is_bearer: bool = False,
    ) -> Target:
        endpoint = adapter.endpoint
        base_url, setting = self._find_base_url(endpoint, adapter.provider, credentials)
        if key is None:
            return Target(base_url, None, credentials, setting)
        name, prefix = ("authorization", "Bearer ") if is_bearer else (endpoint.key_header.lower(), endpoint.key_prefix)
        return Target(base_url, key, None, setting, {name: prefix + key.reveal()})

    def complete(self, adapter: Adapter, authorization: "Authorization") -> str:
        """Return the base URL with what is known with the credentials. Raises ConfigurationError."""
        base_url, _ = self._find_base_url(adapter.endpoint, adapter.provider, None, authorization)
        return base_url

    def explain_missing(self, adapter: Adapter, error: MissingKeyError) -> MissingKeyError:
        """Return the error of credentials that were not found. If nothing says which to use, a key is an answer too."""
        if self._credentials is not None or not IDENTITY_SETTINGS.isdisjoint(self._cloud):
            return MissingKeyError(f"{adapter.provider}: {error}")
        return missing_key(adapter.endpoint, adapter.provider, str(error), is_own=self._environ is os.environ)

    def _find_cloud(self, endpoint: Endpoint, provider: str) -> "CachedCredentials":
        if endpoint.credentials is None:
            names = ", ".join(sorted(self._cloud))
            raise ConfigurationError(f"{provider} takes keys and does not use {names}")
        from dragoman.credentials.clouds import cloud_credentials  # imported late: most programs have a key

        scope = endpoint.scope
        if endpoint.credentials == "anthropic":  # they are exchanged at the address itself
            scope, _ = self._find_base_url(endpoint, "anthropic")
        return cloud_credentials(endpoint.credentials, scope, self._cloud)

    def _find_key(self, endpoint: Endpoint, provider: str) -> _Found:
        """Return a key, or the credentials that are used without one, and whether the key is a token."""
        for variables, is_bearer in ((endpoint.key_variables, False), (endpoint.token_variables, True)):
            for variable in variables:
                if key := self._environ.get(variable, "").strip():
                    return validate_key(ApiKey(key), f"the API key in {variable}"), None, is_bearer
        is_own = self._environ is os.environ
        if is_own and takes_key(endpoint):
            from dragoman.credentials.stored_keys import StoredKeys  # imported late: most keys are in the environment

            if stored := StoredKeys().get(provider):
                return stored, None, False
        if is_own and (kind := endpoint.credentials) is not None:
            from dragoman.credentials.clouds import is_configured

            if is_configured(kind):
                return None, self._find_cloud(endpoint, provider), False
        if endpoint.key_required:
            raise missing_key(endpoint, provider, is_own=is_own)
        return None, None, False

    def _find_base_url(
        self,
        endpoint: Endpoint,
        provider: str,
        credentials: "CachedCredentials | None" = None,
        authorization: "Authorization | None" = None,
    ) -> tuple[str, str]:
        """Return the base URL, and what it is from. It is empty if a part is missing that the credentials may know."""
        if self._base_url is not None:
            return validate_base_url(self._base_url, endpoint.base_url), "base_url"
        variable = endpoint.base_url_variable
        if variable and (value := self._environ.get(variable, "").strip()):
            check_scheme(value, endpoint.base_url, variable)
            return validate_base_url(value, endpoint.base_url), variable
        if not endpoint.base_url:
            hint = f"set {variable}, or pass base_url=" if variable else "pass base_url="
            raise ConfigurationError(f"no address for {provider}: {hint}")
        template = endpoint.base_url
        if endpoint.cloud_base_url and (credentials or authorization or self._cloud):
            template = endpoint.cloud_base_url
        if "{" not in template:
            return validate_base_url(template), ""
        from dragoman.credentials.clouds import address_variables

        known = address_variables(endpoint.credentials, self._cloud, self._environ)
        if authorization is not None:
            known = {**authorization.variables, **known}
        needed = _PLACEHOLDER.findall(template)
        values = {each: known.get(each) or self._environ.get(each, "").strip().rstrip("/") for each in needed}
        if missing := [each for each in needed if not values[each]]:
            if credentials is not None:
                return "", ""
            setting = _SETTING_OF.get(missing[0], "base_url")
            raise ConfigurationError(f"no address for {provider}: set {missing[0]}, or pass {setting}=")
        return validate_base_url(_PLACEHOLDER.sub(lambda found: values[found[1]], template)), ""


def missing_key(endpoint: Endpoint, provider: str, without: str = "", *, is_own: bool = True) -> MissingKeyError:
    """Return the error of a request without a key. ``without`` says why there are no other credentials, ``is_own``
    whether stored keys count."""
    names = " or ".join((*endpoint.key_variables, *endpoint.token_variables))
    hint = f"set {names}, or pass api_key=" if names else "pass api_key="
    kind = endpoint.credentials
    if not without and kind is not None:
        from dragoman.credentials.clouds import CLOUDS, is_installed

        if not is_installed(kind):
            without = f'{CLOUDS[kind].name} credentials need: pip install "dragoman[{CLOUDS[kind].extra}]"'
    siblings = stored_siblings(endpoint, provider) if is_own else ()
    elsewhere = f" (one is stored for {siblings[0]}, and used for that name only)" if siblings else ""
    stored = f"store one with: dragoman keys set {provider}{elsewhere}"
    return MissingKeyError(f"no API key for {provider}: {hint}, or {stored}{f'; {without}' if without else ''}")


def stored_siblings(endpoint: Endpoint, provider: str) -> list[str]:
    """Return the providers with a stored key whose variables are those of the endpoint, such as openai for
    openai-chat."""
    if not endpoint.key_variables:
        return []
    from dragoman.credentials.stored_keys import StoredKeys

    return [
        name
        for name in StoredKeys().places()
        if name != provider
        and is_provider(name)
        and adapter_class(name).endpoint.key_variables == endpoint.key_variables
    ]


def check_scheme(value: str, default: str, setting: str) -> None:
    """Raise ConfigurationError for an address without a scheme, if it would become https: a server such as
    ``localhost:4111/v1`` rarely supports TLS."""
    if "://" in value or not default.startswith("https://") or not HOST_AND_PATH.fullmatch(value):
        return
    raise ConfigurationError(f"{setting} has no scheme: write {setting}={likely_scheme(value)}://{value}")


def likely_scheme(address: str) -> str:
    """Return http for the addresses of this machine and of private networks, else https."""
    try:
        host = urlsplit(f"//{address}").hostname or ""
        return "http" if ipaddress.ip_address(host).is_private else "https"
    except ValueError:
        return "http" if host == "localhost" or "." not in host else "https"


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
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigurationError("the base URL has a port that is not a number up to 65535") from None
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

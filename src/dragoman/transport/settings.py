"""The settings of a provider: their names, types and checks. docs/client.md has them as a table."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import check_names, nearest_name
from dragoman.credentials.api_key import UNUSABLE_KEY, ApiKey
from dragoman.credentials.clouds import is_place
from dragoman.transport.retry import RetryPolicy, Timing

if TYPE_CHECKING:
    import ssl

    from dragoman.transport.exchanges import ExchangeHook


class ProviderSettings(TypedDict, total=False):
    """The settings of one provider, in ``providers={"anthropic": {...}}``."""

    api_key: str | ApiKey | Callable[[], Any] | None
    """The key, or a function that returns it; by default that of the provider's environment variable."""
    credentials: Any
    """What proves to the provider who asks, in place of a key: a function, `dragoman.credentials.Credentials`, or an
    object of azure-core, google-auth, botocore, boto3 or openai."""
    profile: str | None
    """AWS: the profile, in place of AWS_PROFILE."""
    region: str | None
    """AWS: the region, in place of AWS_REGION."""
    role_arn: str | None
    """AWS: a role to assume with the credentials that are found."""
    project: str | None
    """Google Cloud: the project, in place of GOOGLE_CLOUD_PROJECT."""
    location: str | None
    """Google Cloud: the location, in place of GOOGLE_CLOUD_LOCATION; by default ``global``."""
    credentials_file: str | None
    """Google Cloud: a file with credentials, in place of GOOGLE_APPLICATION_CREDENTIALS."""
    impersonate: str | None
    """Google Cloud: the e-mail address of a service account to act as."""
    tenant: str | None
    """Microsoft Entra: the tenant, in place of AZURE_TENANT_ID."""
    client_id: str | None
    """Microsoft Entra: the application or the managed identity, in place of AZURE_CLIENT_ID."""
    managed_identity: bool | None
    """Microsoft Entra: whether to use the managed identity of this machine and nothing else."""
    headers: Mapping[str, str] | None
    """Headers of each request; those of the request itself win."""
    base_url: str | None
    """The address, with its scheme; by default the provider's own, or that of its environment variable."""
    client: Any
    """An httpx or aiohttp client, or the provider's official client. It is used as it is, and not closed."""
    timeout: float | None
    """Seconds for a whole call, with its retries and waits; for a stream, until it begins, and then the maximum of
    silence. The default is 600; None means no limit."""
    connect_timeout: float
    """Seconds to open one connection, name lookup and TLS included. The default is 5."""
    max_retries: int
    """Retries after the first attempt. The default is 2."""
    retry: RetryPolicy | None
    """All about retries, in place of ``max_retries``."""
    proxy: str | None
    """The address of a proxy; by default that of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""
    verify: "ssl.SSLContext | None"
    """The trusted certificates and the caller's own."""
    http2: bool
    """Whether HTTP/2 is offered; it needs ``httpx[http2]``."""
    max_connections: int
    """The maximum of connections to one host. The default is 512; further calls wait in order."""
    engine: str | None
    """The HTTP library: httpx, httpx2 or aiohttp."""
    body_cap: int
    """The maximum of bytes, decompressed, of a whole reply. The default is 64 MiB."""
    timing: Timing | None
    """Clock, sleep and randomness, for tests."""
    environ: Mapping[str, str]
    """The variables that keys and addresses come from, in place of the process's own."""
    on_exchange: "ExchangeHook | None"
    """Receives each attempt of a request as it went over the wire, without secrets, for debugging."""
    notify: Callable[[str], None]
    """Receives the slow steps of a model in this process, such as its download."""


Providers = Mapping[str, ProviderSettings | Mapping[str, Any]]
"""The settings of several providers, by name."""


def seal_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a session with each API key wrapped, so that no traceback shows it. Never raises."""
    sealed = dict(settings)
    if isinstance(sealed.get("api_key"), str):
        sealed["api_key"] = ApiKey(sealed["api_key"])
    if isinstance(sealed.get("providers"), Mapping):
        sealed["providers"] = {
            name: seal_keys(each) if isinstance(each, Mapping) else each for name, each in sealed["providers"].items()
        }
    return sealed


def read_provider_settings(
    provider: str, settings: Mapping[str, Any], *, extra_names: frozenset[str] | None = frozenset()
) -> dict[str, Any]:
    """Return the checked settings of a provider, as its transport takes them.

    ``extra_names`` are those of transports that a program registered; None accepts every name. Raises
    ConfigurationError for an unknown name, with the nearest one, and for a value that cannot be used. No error shows a
    value: it may be secret.
    """
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"providers[{provider!r}] must be a mapping of settings, not {_describe(settings)}")
    read: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _CHECKS:
            _check(provider, name, value)
        elif extra_names is not None and name not in extra_names:
            check_names({str(name): value}, _CHECKS, f"setting in providers[{provider!r}]", provider=provider)
        read[name] = value
    if callable(read.get("api_key")) and not isinstance(read["api_key"], ApiKey):
        if read.get("credentials") is not None:
            raise ConfigurationError(f"providers[{provider!r}] has both api_key and credentials: keep one of them")
        read["credentials"] = read.pop("api_key")
    if read.get("credentials") is not None:
        read["credentials"] = _share(read["credentials"])
    if "max_retries" in read:
        retries = read.pop("max_retries")
        if read.get("retry") is not None:
            raise ConfigurationError(f"providers[{provider!r}] has both retry and max_retries: keep one of them")
        read["retry"] = RetryPolicy(max_retries=retries)
    return read


def _share(credentials: Any) -> Any:
    """Return credentials that all transports with these settings ask once."""
    from dragoman.credentials.given import GivenCredentials  # imported late: most programs have a key

    return GivenCredentials.wrap(credentials)


def check_transport_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a value of a transport's settings that cannot be used."""
    for name, value in settings.items():
        if name in _CHECKS:
            _check(None, name, value)


def _check(provider: str | None, name: str, value: Any) -> None:
    if problem := _CHECKS[name](value):
        place = name if provider is None else f"providers[{provider!r}][{name!r}]"
        raise ConfigurationError(f"{place} {problem}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _seconds(value: Any) -> str | None:
    return None if _is_number(value) and value > 0 else f"must be a number of seconds greater than 0{_but(value)}"


def _seconds_or_none(value: Any) -> str | None:
    return None if value is None else _seconds(value)


def _count(least: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return None if whole and value >= least else f"must be a whole number, at least {least}{_but(value)}"

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"must be True or False{_but(value)}"


def _key(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, ApiKey)):
        is_function = callable(value) and not isinstance(value, type)
        return None if is_function else f"must be a text or a function that returns it, not {_describe(value)}"
    return None if ApiKey.wrap(value).is_usable else UNUSABLE_KEY


def _credentials(value: Any) -> str | None:
    if value is None:
        return None
    from dragoman.credentials.given import ACCEPTED, GivenCredentials, is_accepted  # imported late, as above

    if isinstance(value, GivenCredentials) or is_accepted(value):
        return None
    return f"must be {ACCEPTED}, not {_describe(value)}"


def _text_or_none(value: Any) -> str | None:
    return None if value is None or (isinstance(value, str) and value) else f"must be a text{_but(value)}"


def _flag_or_none(value: Any) -> str | None:
    return None if value is None else _flag(value)


def _place(name: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None or not isinstance(value, str):
            return _text_or_none(value)
        return None if is_place(name, value) else f"is not the name of a {name}"

    return check


def _headers(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return f"must be a mapping{_but(value)}"
    from dragoman.transport.request_validation import validate_headers  # imported late: few programs set headers

    try:
        validate_headers(value)
    except RequestError as error:
        return f"cannot be sent: {error}"
    return None


def _address(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return f"must be a URL such as https://host/v1, not {_describe(value)}"
    text = value.strip()
    if "://" in text:
        return _base_url(text)
    from dragoman.credentials.target import HOST_AND_PATH, likely_scheme  # as in _base_url

    if not HOST_AND_PATH.fullmatch(text):  # it may be a key in the wrong place
        return "must be a URL such as https://host/v1"
    return f"has no scheme: write {likely_scheme(text)}://{text}"


def _base_url(text: str) -> str | None:
    from dragoman.credentials.target import validate_base_url  # imported late: few programs give an address

    try:
        validate_base_url(text)
    except ConfigurationError as error:
        return str(error).removeprefix("the base URL ")
    return None


def _proxy(value: Any) -> str | None:
    if value is None:
        return None
    from dragoman.transport.engines.proxies import ADDRESS_FORM, is_proxy_address  # imported late, as are the engines

    return None if isinstance(value, str) and is_proxy_address(value) else ADDRESS_FORM


def _engine(value: Any) -> str | None:
    if value is None:
        return None
    from dragoman.transport.engines.engine import ENGINES

    if isinstance(value, str):
        return None if value in ENGINES else f"is none of the engines{nearest_name(value, ENGINES)}"
    return f"must be one of {', '.join(ENGINES)}, not {_describe(value)}"


def _tls(value: Any) -> str | None:
    if value is None or hasattr(value, "wrap_socket"):
        return None
    return f"must be an ssl.SSLContext, such as ssl.create_default_context(cafile=...), not {_describe(value)}"


def _client(value: Any) -> str | None:
    """Refuse what can be no client. Whether a client fits the calls is known with the first of them."""
    if isinstance(value, (type, str, bytes, int, float, Mapping, Sequence)):
        return f"must be a client such as httpx.Client(...), not {_describe(value)}"
    packages = {each.__module__.partition(".")[0] for each in type(value).__mro__}
    if value is None or packages & _HTTP_LIBRARIES or any(hasattr(value, name) for name in _CLIENT_ATTRIBUTES):
        return None
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return (
        f"must be a client of httpx or aiohttp, or one of anthropic, openai or ollama, not {kind}: pass what it asks"
        " with in 'api_key' or 'credentials'"
    )


_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "aiohttp"})
_CLIENT_ATTRIBUTES = ("send", "request", "_client")
"""Each client of HTTP has the first or the second, and each official one that can be used the third."""


def _mapping(value: Any) -> str | None:
    return None if isinstance(value, Mapping) else f"must be a mapping{_but(value)}"


def _instance(kind: type) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return None if value is None or isinstance(value, kind) else f"must be a {kind.__name__}{_but(value)}"

    return check


def _callable(value: Any) -> str | None:
    return None if callable(value) else f"must be a function{_but(value)}"


def _callable_or_none(value: Any) -> str | None:
    return None if value is None else _callable(value)


def _but(value: Any) -> str:
    """Name a wrong value: numbers as they are, anything else by its class only."""
    return f", not {value!r:.40}" if _is_number(value) else f", not {_describe(value)}"


def _describe(value: Any) -> str:
    return f"a value of the class {type(value).__name__}"


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "api_key": _key,
    "credentials": _credentials,
    "profile": _text_or_none,
    "region": _place("region"),
    "role_arn": _text_or_none,
    "project": _place("project"),
    "location": _place("location"),
    "credentials_file": _text_or_none,
    "impersonate": _text_or_none,
    "tenant": _text_or_none,
    "client_id": _text_or_none,
    "managed_identity": _flag_or_none,
    "headers": _headers,
    "base_url": _address,
    "client": _client,
    "timeout": _seconds_or_none,
    "connect_timeout": _seconds,
    "max_retries": _count(0),
    "retry": _instance(RetryPolicy),
    "proxy": _proxy,
    "verify": _tls,
    "http2": _flag,
    "max_connections": _count(1),
    "engine": _engine,
    "body_cap": _count(1),
    "timing": _instance(Timing),
    "environ": _mapping,
    "on_exchange": _callable_or_none,
    "notify": _callable,
}

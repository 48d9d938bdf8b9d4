"""The settings of a provider: their names, types and checks. docs/client.md has them as a table."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import check_names, nearest_name
from dragoman.credentials.contract import UNUSABLE_KEY, ApiKey
from dragoman.transport.retry import RetryPolicy, Timing

if TYPE_CHECKING:
    import ssl

    from dragoman.transport.exchanges import ExchangeHook


VENDORS = ("anthropic", "openai", "ollama")


def vendor_of(client: object) -> str | None:
    """Return the vendor of a client: anthropic, openai or ollama; None for any other."""
    packages = packages_of(client)
    return next((vendor for vendor in VENDORS if vendor in packages), None)


def packages_of(client: object) -> list[str]:
    """Return the packages of the classes of a client: a program may derive its own class from a library's."""
    return [base.__module__.partition(".")[0] for base in type(client).__mro__]


Check = Callable[[Any], str | None]
"""Returns what is wrong with the value of a setting."""


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _must_be(kind: str, fits: Callable[[Any], bool]) -> Check:
    return lambda value: None if fits(value) else f"must be {kind}{_but(value)}"


def _instance(kind: type) -> Check:
    return _must_be(f"a {kind.__name__}", lambda value: isinstance(value, kind))


def _count(least: int) -> Check:
    return _must_be(
        f"a whole number, at least {least}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


_seconds = _must_be("a number of seconds greater than 0", lambda value: _is_number(value) and value > 0)
_flag = _must_be("True or False", lambda value: isinstance(value, bool))
_text = _must_be("a text", lambda value: isinstance(value, str) and value != "")
_mapping = _must_be("a mapping", lambda value: isinstance(value, Mapping))
_callable = _must_be("a function", callable)
_tls = _must_be(
    "an ssl.SSLContext, such as ssl.create_default_context(cafile=...)", lambda value: hasattr(value, "wrap_socket")
)


def _key(value: Any) -> str | None:
    if not isinstance(value, (str, ApiKey)):
        is_function = callable(value) and not isinstance(value, type)
        return None if is_function else f"must be a text or a function that returns it, not {_describe(value)}"
    return None if ApiKey.wrap(value).is_usable else UNUSABLE_KEY


def _credentials(value: Any) -> str | None:
    # Imported late: most programs have a key.
    from dragoman.credentials.given import ACCEPTED, GivenCredentials, is_accepted

    if isinstance(value, GivenCredentials) or is_accepted(value):
        return None
    return f"must be {ACCEPTED}, not {_describe(value)}"


def _place(name: str) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return _text(value)
        from dragoman.credentials.clouds import is_place  # imported late: most programs have a key

        return None if is_place(name, value) else f"is not the name of a {name}"

    return check


def _headers(value: Any) -> str | None:
    if problem := _mapping(value):
        return problem
    from dragoman.transport.call import validate_headers  # imported late: few programs set headers

    try:
        validate_headers(value)
    except RequestError as error:
        return f"cannot be sent: {error}"
    return None


def _address(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"must be a URL such as https://host/v1, not {_describe(value)}"
    # Imported late: few programs give an address.
    from dragoman.credentials.target import HOST_AND_PATH, likely_scheme, validate_base_url

    text = value.strip()
    if "://" in text:
        try:
            validate_base_url(text)
        except ConfigurationError as error:
            return str(error).removeprefix("the base URL ")
        return None
    if not HOST_AND_PATH.fullmatch(text):  # it may be a key in the wrong place
        return "must be a URL such as https://host/v1"
    return f"has no scheme: write {likely_scheme(text)}://{text}"


def _proxy(value: Any) -> str | None:
    from dragoman.transport.engines.engine import ADDRESS_FORM, is_proxy_address  # imported late, as are the engines

    return None if isinstance(value, str) and is_proxy_address(value) else ADDRESS_FORM


def _engine(value: Any) -> str | None:
    from dragoman.transport.engines.engine import ENGINES

    if isinstance(value, str):
        return None if value in ENGINES else f"is none of the engines{nearest_name(value, ENGINES)}"
    return f"must be one of {', '.join(ENGINES)}, not {_describe(value)}"


def _client(value: Any) -> str | None:
    """Refuse what can be no client. Whether a client fits the calls is known with the first of them."""
    if isinstance(value, (type, str, bytes, int, float, Mapping, Sequence)):
        return f"must be a client such as httpx.Client(...), not {_describe(value)}"
    is_of_library = not _HTTP_LIBRARIES.isdisjoint(packages_of(value))
    if value is None or is_of_library or any(hasattr(value, name) for name in _CLIENT_ATTRIBUTES):
        return None
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return (
        f"must be a client of httpx or aiohttp, or one of anthropic, openai or ollama, not {kind}: pass what it asks"
        " with in 'api_key' or 'credentials'"
    )


_HTTP_LIBRARIES = frozenset({"httpx", "httpx2", "aiohttp"})
_CLIENT_ATTRIBUTES = ("send", "request", "_client")
"""Each client of HTTP has the first or the second, and each official one that can be used the third."""


def _but(value: Any) -> str:
    """Name a wrong value: numbers as they are, anything else by its class only."""
    return f", not {value!r:.40}" if _is_number(value) else f", not {_describe(value)}"


def _describe(value: Any) -> str:
    return f"a value of the class {type(value).__name__}"


class TransportSettings(TypedDict, total=False):
    """The settings of every HTTP transport."""

    timeout: Annotated[float | None, _or_none(_seconds)]
    """Seconds for a whole call, with its retries and waits; for a stream, until it begins, and then the maximum of
    silence. The default is 600; None means no limit."""
    connect_timeout: Annotated[float, _seconds]
    """Seconds to open one connection, name lookup and TLS included. The default is 5."""
    retry: Annotated[RetryPolicy | None, _or_none(_instance(RetryPolicy))]
    """All about retries, in place of ``max_retries``."""
    body_cap: Annotated[int, _count(1)]
    """The maximum of bytes, decompressed, of a whole reply. The default is 64 MiB."""
    timing: Annotated[Timing | None, _or_none(_instance(Timing))]
    """Clock, sleep and randomness, for tests."""
    on_exchange: Annotated["ExchangeHook | None", _or_none(_callable)]
    """Receives each attempt of a request as it went over the wire, without secrets, for debugging."""
    headers: Annotated[Mapping[str, str] | None, _or_none(_headers)]
    """Headers of each request; those of the request itself win."""


# Args repeats the sentences of the fields, for editors: `python -m tests.upkeep.settings` writes it.
class ProviderSettings(TransportSettings, total=False):
    """The settings of one provider, in ``providers={"anthropic": {...}}``.

    Args:
        api_key: The key, or a function that returns it; by default that of the provider's environment variable.
        credentials: What proves to the provider who asks, in place of a key: a function,
            `dragoman.credentials.Credentials`, or an object of azure-core, google-auth, botocore, boto3 or openai.

        profile: AWS: the profile, in place of AWS_PROFILE.
        region: AWS: the region, in place of AWS_REGION.
        role_arn: AWS: a role to assume with the credentials that are found.

        project: Google Cloud: the project, in place of GOOGLE_CLOUD_PROJECT.
        location: Google Cloud: the location, in place of GOOGLE_CLOUD_LOCATION; by default ``global``.
        credentials_file: Google Cloud: a file with credentials, in place of GOOGLE_APPLICATION_CREDENTIALS.
        impersonate: Google Cloud: the e-mail address of a service account to act as.

        tenant: Microsoft Entra: the tenant, in place of AZURE_TENANT_ID.
        client_id: Microsoft Entra: the application or the managed identity, in place of AZURE_CLIENT_ID.
        managed_identity: Microsoft Entra: whether to use the managed identity of this machine and nothing else.

        base_url: The address, with its scheme; by default the provider's own, or that of its environment variable.

        client: An httpx or aiohttp client, or the provider's official client.

        max_retries: Retries after the first attempt.

        proxy: The address of a proxy; by default that of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
        verify: The trusted certificates and the caller's own.
        http2: Whether HTTP/2 is offered; it needs ``httpx[http2]``.
        max_connections: The maximum of connections to one host.
        engine: The HTTP library: httpx, httpx2 or aiohttp.

        environ: The variables that keys and addresses come from, in place of the process's own.
        notify: Receives the slow steps of a model in this process, such as its download.

        timeout: Seconds for a whole call, with its retries and waits; for a stream, until it begins, and then the
            maximum of silence.
        connect_timeout: Seconds to open one connection, name lookup and TLS included.
        retry: All about retries, in place of ``max_retries``.
        body_cap: The maximum of bytes, decompressed, of a whole reply.
        timing: Clock, sleep and randomness, for tests.
        on_exchange: Receives each attempt of a request as it went over the wire, without secrets, for debugging.
        headers: Headers of each request; those of the request itself win.
    """

    api_key: Annotated[str | ApiKey | Callable[[], Any] | None, _or_none(_key)]
    """The key, or a function that returns it; by default that of the provider's environment variable."""
    credentials: Annotated[Any, _or_none(_credentials)]
    """What proves to the provider who asks, in place of a key: a function, `dragoman.credentials.Credentials`, or an
    object of azure-core, google-auth, botocore, boto3 or openai."""

    profile: Annotated[str | None, _or_none(_text)]
    """AWS: the profile, in place of AWS_PROFILE."""
    region: Annotated[str | None, _or_none(_place("region"))]
    """AWS: the region, in place of AWS_REGION."""
    role_arn: Annotated[str | None, _or_none(_text)]
    """AWS: a role to assume with the credentials that are found."""

    project: Annotated[str | None, _or_none(_place("project"))]
    """Google Cloud: the project, in place of GOOGLE_CLOUD_PROJECT."""
    location: Annotated[str | None, _or_none(_place("location"))]
    """Google Cloud: the location, in place of GOOGLE_CLOUD_LOCATION; by default ``global``."""
    credentials_file: Annotated[str | None, _or_none(_text)]
    """Google Cloud: a file with credentials, in place of GOOGLE_APPLICATION_CREDENTIALS."""
    impersonate: Annotated[str | None, _or_none(_text)]
    """Google Cloud: the e-mail address of a service account to act as."""

    tenant: Annotated[str | None, _or_none(_text)]
    """Microsoft Entra: the tenant, in place of AZURE_TENANT_ID."""
    client_id: Annotated[str | None, _or_none(_text)]
    """Microsoft Entra: the application or the managed identity, in place of AZURE_CLIENT_ID."""
    managed_identity: Annotated[bool | None, _or_none(_flag)]
    """Microsoft Entra: whether to use the managed identity of this machine and nothing else."""

    base_url: Annotated[str | None, _or_none(_address)]
    """The address, with its scheme; by default the provider's own, or that of its environment variable."""

    client: Annotated[Any, _client]
    """An httpx or aiohttp client, or the provider's official client. It is used as it is, and not closed."""

    max_retries: Annotated[int, _count(0)]
    """Retries after the first attempt. The default is 2."""

    proxy: Annotated[str | None, _or_none(_proxy)]
    """The address of a proxy; by default that of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""
    verify: Annotated["ssl.SSLContext | None", _or_none(_tls)]
    """The trusted certificates and the caller's own."""
    http2: Annotated[bool, _flag]
    """Whether HTTP/2 is offered; it needs ``httpx[http2]``."""
    max_connections: Annotated[int, _count(1)]
    """The maximum of connections to one host. The default is 512; further calls wait in order."""
    engine: Annotated[str | None, _or_none(_engine)]
    """The HTTP library: httpx, httpx2 or aiohttp."""

    environ: Annotated[Mapping[str, str], _mapping]
    """The variables that keys and addresses come from, in place of the process's own."""
    notify: Annotated[Callable[[str], None], _callable]
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
        from dragoman.credentials.given import GivenCredentials  # imported late, as above

        # All transports with these settings ask the credentials once.
        read["credentials"] = GivenCredentials.wrap(read["credentials"])
    if "max_retries" in read:
        retries = read.pop("max_retries")
        if read.get("retry") is not None:
            raise ConfigurationError(f"providers[{provider!r}] has both retry and max_retries: keep one of them")
        read["retry"] = RetryPolicy(max_retries=retries)
    return read


def check_transport_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a value of a transport's settings that cannot be used, among values by their names;
    others may be there too."""
    for name, value in settings.items():
        if name in _CHECKS:
            _check(None, name, value)


def _check(provider: str | None, name: str, value: Any) -> None:
    if problem := _CHECKS[name](value):
        place = name if provider is None else f"providers[{provider!r}][{name!r}]"
        raise ConfigurationError(f"{place} {problem}")


_CHECKS: Mapping[str, Check] = {
    name: accepted.__metadata__[0] for name, accepted in ProviderSettings.__annotations__.items()
}
"""The check of each setting, which stands with its type."""

"""Checks that connect: to the addresses of providers, to a store on a server, and to Redis. No key is sent.

And checks of credentials other than keys: which would be used, and until when they are valid. None is ever shown.
"""

import os
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from dragoman.adapter.errors import ConfigurationError, DragomanError, mask_secrets
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.cli.doctor.local_checks import Finding, Findings, note, ok, problem, set_variable, show_address
from dragoman.credentials.clouds import CLOUDS, check_kind, find_source, is_installed
from dragoman.credentials.contract import IDENTITY_SETTINGS
from dragoman.credentials.given import GivenCredentials
from dragoman.credentials.stored_keys import StoredKeys
from dragoman.credentials.target import TargetFinder

_TIMEOUT = 5.0
"""Seconds for one address."""
_MAX_SKEW = 300
"""Seconds between the clocks: signed requests are refused from here on."""
_SECONDS = 15.0
"""For the credentials of one provider."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address that requests go to, and the settings of its provider."""

    provider: str
    base_url: str
    settings: Mapping[str, Any]


def find_places(settings: Mapping[str, Mapping[str, Any]]) -> tuple[list[Place], list[Finding]]:
    """Return the addresses of the providers with a key or an address of their own, and what is wrong with others."""
    try:
        stored = StoredKeys().places()
    except ConfigurationError:  # reported with the keys
        stored = {}
    places, wrong = [], []
    for provider in providers():
        own = settings.get(provider, {})
        adapter = adapter_class(provider)
        variable = adapter.endpoint.base_url_variable
        has_address = own.get("base_url") or (variable and os.environ.get(variable, "").strip())
        if adapter.transport != "http" or not (has_address or provider in stored or set_variable(provider)):
            continue
        try:
            model = get_adapter(f"{provider}:{next(iter(adapter.listed_models), 'any')}")
            target = TargetFinder(base_url=own.get("base_url")).target(model, keyless=True)
        except DragomanError as error:
            wrong.append(problem("address", f"{provider}: {error}", "set the address of the provider"))
        else:
            places.append(Place(provider, target.base_url, own))
    return places, wrong


def check_places(places: Iterable[Place]) -> Findings:
    """Request each address without a key. Any reply shows that it can be reached."""
    skews = []
    for place in places:
        shown = f"{place.provider}: {show_address(place.base_url)}"
        try:
            verify, proxy = place.settings.get("verify"), place.settings.get("proxy")
            with (
                httpx.Client(proxy=proxy, verify=True if verify is None else verify, timeout=_TIMEOUT) as client,
                client.stream("GET", place.base_url) as reply,
            ):
                pass  # its body is not read
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            why = mask_secrets(str(error)) or type(error).__name__
            yield problem("address", f"{shown} cannot be reached: {why}", _advise(error))
            continue
        yield ok("address", f"{shown} replies ({reply.status_code})")
        with suppress(KeyError, ValueError):  # not every server sends its time
            at = parsedate_to_datetime(reply.headers["date"])
            skews.append((datetime.now(UTC) - (at if at.tzinfo else at.replace(tzinfo=UTC))).total_seconds())
    if skews:
        skew = min(skews, key=abs)
        if abs(skew) > _MAX_SKEW:
            text = f"it differs by {abs(skew):,.0f} seconds from the clocks of the providers"
            yield problem("clock", text, "set the clock: signed requests are refused otherwise")
        else:
            yield ok("clock", "as those of the providers")


def _advise(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "set SSL_CERT_FILE, or ca_file in dragoman.toml, if your network has certificates of its own"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ProxyError):
        return "check the proxy"
    return "check the address, the network and the proxy; a server on this computer has to run"


def check_server_store(url: str) -> Findings:
    """Open a store on a server, without writing to it."""
    from dragoman.store import Store

    try:
        with Store(url, read_only=True, timeout=_TIMEOUT) as store:
            store.list(limit=1)
    except DragomanError as error:
        yield problem("store", mask_secrets(str(error)), "check the URL, the server and its password")
    else:
        yield ok("store", f"{show_address(url)} can be read")


def check_redis(url: str) -> Findings:
    """Ping the server of shared limits."""
    try:
        import redis
    except ModuleNotFoundError:
        yield problem("redis", "its client is not installed", "pip install 'dragoman[redis]'")
        return
    scheme, separator, rest = url.partition("://")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    try:
        with redis.Redis.from_url(
            f"{scheme}{separator}{rest}", socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        ) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        yield problem("redis", f"{show_address(url)}: {mask_secrets(str(error))}", "check the URL and the server")
    else:
        yield ok("redis", f"{show_address(url)} replies")


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """What a provider's requests would be authorized with. ``settings`` are those of the configuration file."""

    provider: str
    text: str
    settings: Mapping[str, Any]


def find_sources(settings: Mapping[str, Mapping[str, Any]]) -> list[CredentialSource]:
    """Return the sources that settings, variables and files name. Nothing is fetched, run or imported."""
    found = []
    for provider in providers():
        own = settings.get(provider, {})
        endpoint = adapter_class(provider).endpoint
        if (given := own.get("credentials")) is not None:
            found.append(CredentialSource(provider, GivenCredentials.wrap(given).for_scope(endpoint.scope).name, own))
            continue
        chosen = {name: value for name, value in own.items() if name in IDENTITY_SETTINGS}
        if endpoint.credentials is None or (set_variable(provider) is not None and not chosen):
            continue
        if source := find_source(endpoint.credentials, chosen, os.environ):
            found.append(CredentialSource(provider, f"{CLOUDS[endpoint.credentials].name}, {source}", own))
    return found


def check_sources(sources: Iterable[CredentialSource]) -> Findings:
    """Say which credentials would be used, and whether their library is installed."""
    for source in sources:
        kind = None if "credentials" in source.settings else adapter_class(source.provider).endpoint.credentials
        if kind is not None and not is_installed(kind):
            advice = f"pip install 'dragoman[{CLOUDS[kind].extra}]'"
            yield note("credentials", f"{source.provider}: {source.text}: its library is not installed", advice)
        else:
            yield ok("credentials", f"{source.provider}: {source.text}")


def fetch_credentials(sources: Iterable[CredentialSource]) -> Findings:
    """Fetch each of them, and say until when they are valid. Nothing is sent to a provider."""
    for source in sources:
        own = source.settings
        model = get_adapter(f"{source.provider}:{next(iter(adapter_class(source.provider).listed_models), 'any')}")
        try:
            given = own.get("credentials")
            finder = TargetFinder(
                base_url=own.get("base_url"),
                credentials=None if given is None else GivenCredentials.wrap(given),
                cloud=check_kind(source.provider, model.endpoint.credentials, own),
            )
            credentials = finder.target(model).credentials
            if credentials is None:
                continue
            authorization = credentials.get(_SECONDS)
        except DragomanError as error:
            yield problem("credentials", f"{source.provider}: {error}", "do what the message says")
            continue
        origin = f" ({authorization.source})" if authorization.source and given is None else ""
        until = "without an end"
        if (expires_at := authorization.expires_at) is not None:
            minutes = (expires_at - datetime.now(UTC)).total_seconds() / 60
            shown = expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
            until = f"valid until {shown}, for {minutes:,.0f} minutes"
            if minutes < 0:
                until = f"but they ended at {shown}: is the clock of this computer right?"
        yield ok("credentials", f"{source.provider}: {source.text}{origin}: fetched, {until}")

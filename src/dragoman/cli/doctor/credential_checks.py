"""Checks of credentials other than keys: which would be used, and until when they are valid. None is ever shown."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.cli.doctor.findings import Finding, Findings, State
from dragoman.cli.doctor.local_checks import set_variable
from dragoman.credentials.clouds import CLOUDS, IDENTITY_SETTINGS, check_kind, find_source, is_installed
from dragoman.credentials.given import GivenCredentials
from dragoman.credentials.target import TargetFinder

_SECONDS = 15.0
"""For the credentials of one provider."""


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
        text = _source_of(adapter_class(provider).endpoint, own, has_key=set_variable(provider) is not None)
        if text:
            found.append(CredentialSource(provider, text, own))
    return found


def _source_of(endpoint: Endpoint, own: Mapping[str, Any], *, has_key: bool) -> str:
    if (given := own.get("credentials")) is not None:
        return GivenCredentials.wrap(given).for_scope(endpoint.scope).name
    chosen = {name: value for name, value in own.items() if name in IDENTITY_SETTINGS}
    if endpoint.credentials is None or (has_key and not chosen):
        return ""
    source = find_source(endpoint.credentials, chosen, os.environ)
    return f"{CLOUDS[endpoint.credentials].name}, {source}" if source else ""


def check_sources(sources: Iterable[CredentialSource]) -> Findings:
    """Say which credentials would be used, and whether their library is installed."""
    for source in sources:
        kind = None if "credentials" in source.settings else adapter_class(source.provider).endpoint.credentials
        if kind is not None and not is_installed(kind):
            advice = f"pip install 'dragoman[{CLOUDS[kind].extra}]'"
            yield Finding(
                State.NOTE, "credentials", f"{source.provider}: {source.text}: its library is not installed", advice
            )
        else:
            yield Finding(State.OK, "credentials", f"{source.provider}: {source.text}")


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
            yield Finding(State.PROBLEM, "credentials", f"{source.provider}: {error}", "do what the message says")
            continue
        origin = f" ({authorization.source})" if authorization.source and given is None else ""
        until = _until(authorization.expires_at)
        yield Finding(State.OK, "credentials", f"{source.provider}: {source.text}{origin}: fetched, {until}")


def _until(expires_at: datetime | None) -> str:
    if expires_at is None:
        return "without an end"
    minutes = (expires_at - datetime.now(UTC)).total_seconds() / 60
    shown = expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if minutes < 0:
        return f"but they ended at {shown}: is the clock of this computer right?"
    return f"valid until {shown}, for {minutes:,.0f} minutes"

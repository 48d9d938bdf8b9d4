"""The settings of several providers: checked, and merged."""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.adapter import registry
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import nearest_name
from dragoman.credentials.clouds import IDENTITY_SETTINGS
from dragoman.transport import registered_setting_names
from dragoman.transport.settings import read_provider_settings

_IDENTITY = IDENTITY_SETTINGS | {"api_key", "credentials"}


def read_providers(providers: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """Return a checked copy of the settings by provider.

    Raises ConfigurationError for an unknown provider or setting, with the nearest name, and for a value that cannot be
    used.
    """
    if providers is None:
        return {}
    if not isinstance(providers, Mapping):
        raise ConfigurationError(
            f"providers must be a mapping such as {{'anthropic': {{...}}}}, not a value of the class "
            f"{type(providers).__name__}"
        )
    check_provider_names("providers", providers)
    names = registered_setting_names()
    return {name: read_provider_settings(name, each, extra_names=names) for name, each in providers.items()}


def check_provider_names(setting: str, names: Iterable[str]) -> None:
    """Raise ConfigurationError, with the nearest name, for a name that is not a provider."""
    for name in names:
        if not registry.is_provider(name):
            known = registry.providers()
            raise ConfigurationError(f"unknown provider in {setting}: {name!r:.60}{nearest_name(str(name), known)}")


def merge_providers(
    providers: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return both; where both set the same, the changes win. Whatever says who asks (a key, credentials, a profile)
    takes the place of all that said so before."""
    merged: dict[str, Any] = dict(providers)
    for name, settings in changes.items():
        kept = merged.get(name, {})
        if any(settings.get(each) is not None for each in _IDENTITY):
            kept = {each: value for each, value in kept.items() if each not in _IDENTITY}
        merged[name] = {**kept, **settings}
    return merged

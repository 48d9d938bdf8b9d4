"""The settings of a call outside of a session: of a batch, a service, an embedding."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.names import check_names
from dragoman.runtime.config import ClientConfig, client_config, is_client
from dragoman.runtime.providers import merge_providers, read_providers
from dragoman.transport import registered_setting_names
from dragoman.transport.settings import Providers, ProviderSettings, seal_keys


def read_call_settings(
    provider: str, client: Any, providers: Providers | None, settings: Mapping[str, Any]
) -> tuple[ClientConfig, dict[str, dict[str, Any]]]:
    """Return the client's configuration, and the call's own settings by provider, checked.

    ``client`` is a client of this library, or the HTTP client of the provider, which is one of its settings. Other
    ``settings`` are those of the provider. Raises ConfigurationError.
    """
    sealed = seal_keys(settings)
    if (registered := registered_setting_names()) is not None:
        known = {*ProviderSettings.__annotations__, *registered, "options"}
        check_names(sealed, known, "argument", provider=provider)
    if client is not None and not is_client(client):
        sealed["client"], client = client, None
    config = client_config(client) or ClientConfig()
    own = read_providers({provider: sealed}) if sealed else {}
    return config, merge_providers(read_providers(providers), own)

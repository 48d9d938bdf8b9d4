"""The client of a command, which governs whatever the command asks a model."""

from typing import Any

from dragoman.client import Client
from dragoman.runtime import ClientSettings, client_config
from dragoman.transport.settings import Providers


def command_client(providers: Providers | None = None) -> Client:
    """Return a client with the settings of the default client, if any, and with these settings of providers."""
    config = client_config(None)
    names = ClientSettings.__annotations__
    settings: dict[str, Any] = {} if config is None else {name: getattr(config, name) for name in names}
    return Client(**settings).with_(providers=providers or {})


def base_url_setting(model: str, base_url: str | None) -> Providers:
    """Return the settings of the model's provider for the option --base-url."""
    return {model.partition(":")[0]: {"base_url": base_url}} if base_url else {}

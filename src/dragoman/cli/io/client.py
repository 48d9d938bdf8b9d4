"""The client of a command, which governs whatever the command asks a model."""

from typing import Any

from dragoman.client import Client
from dragoman.runtime import ClientSettings, client_config
from dragoman.runtime.configuration import load_configuration
from dragoman.transport.settings import Providers


def command_client(providers: Providers | None = None) -> Client:
    """Return the client of the default client's settings, or else of the configuration file, with these settings of
    providers.
    """
    config = client_config(None)
    if config is None:
        settings: Any = load_configuration() or {}
    else:
        settings = {name: getattr(config, name) for name in ClientSettings.__annotations__}
    return Client(**settings).with_(providers=providers or {})


def base_url_setting(model: str, base_url: str | None) -> Providers:
    """Return the settings of the model's provider for the option --base-url."""
    return {model.partition(":")[0]: {"base_url": base_url}} if base_url else {}

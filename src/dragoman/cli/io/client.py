"""The client of a command, which governs whatever the command asks a model."""

from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import parse_model
from dragoman.client import Client
from dragoman.configuration import ClientSettings, client_config
from dragoman.configuration.file import build_settings, find_configuration, is_trusted, read_configuration
from dragoman.transport.settings import Providers


def command_client(providers: Providers | None = None) -> Client:
    """Return the client of the default client's settings, or else of the configuration file, with these settings of
    providers.
    """
    settings, _ = find_settings()
    return Client(**settings).with_(providers=providers or {})


def find_settings() -> tuple[dict[str, Any], bool | None]:
    """Return the settings that apply, and whether the file lets the command line keep conversations.

    The second is None for the settings of a default client: its program decides what is kept.
    """
    config = client_config(None)
    if config is not None:
        return {name: getattr(config, name) for name in ClientSettings.__annotations__}, None
    found = find_configuration()
    if found is None:
        return {}, True
    file = read_configuration(*found)
    settings: Any = build_settings(file, trusted=is_trusted(file))
    return settings, file.tables.get("log", True)


def own_store() -> str | None:
    """Return the URL of the store of the kept conversations; None if none was kept yet. Raises ConfigurationError if
    the configuration keeps none."""
    settings, keeps_log = find_settings()
    if keeps_log is False:
        raise ConfigurationError("conversations are not kept here: the configuration has log = false")
    if isinstance(url := settings.get("store"), str):
        return url
    from dragoman.store.database import default_url  # most commands need no store

    file = default_url(create_folder=False).database
    return None if file is None or not Path(file).exists() else f"sqlite:///{file}"


def store_url(name: str | None) -> str | None:
    """Return the URL of a store that an option names: a URL, or a SQLite file."""
    return name if name is None or "://" in name else f"sqlite:///{name}"


def base_url_setting(model: str, base_url: str | None) -> Providers:
    """Return the settings of the model's provider for the option --base-url."""
    return {parse_model(model).provider: {"base_url": base_url}} if base_url else {}

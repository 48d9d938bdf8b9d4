"""The client of a command, which governs whatever the command asks a model."""

from pathlib import Path
from typing import Any

from dragoman.adapter.aliases import bundled_aliases
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import is_provider, parse_model
from dragoman.cli.io.conversation_log import ConversationLog
from dragoman.client import Client
from dragoman.runtime import ClientSettings, client_config
from dragoman.runtime.configuration import build_settings, find_configuration, is_trusted, read_configuration
from dragoman.transport.settings import Providers


def command_client(providers: Providers | None = None) -> Client:
    """Return the client of the default client's settings, or else of the configuration file, with these settings of
    providers.
    """
    settings, _ = _find_settings()
    return Client(**settings).with_(providers=providers or {})


def conversation_client(command: str) -> tuple[Client, ConversationLog | None]:
    """Return the client of a command that holds conversations, and the log that keeps them.

    The log is None if the configuration turns it off, or if a program has set a default client.
    """
    settings, keeps_log = _find_settings()
    if keeps_log is None:
        return Client(**settings), None
    url = settings.pop("store", None)
    log = ConversationLog(url, command) if keeps_log else None
    return Client(**settings, store=log), log


def _find_settings() -> tuple[dict[str, Any], bool | None]:
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
    settings, keeps_log = _find_settings()
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


def names_model(client: Client, word: str) -> bool:
    """Whether the word is a model id or an alias, and not a prompt."""
    provider, separator, _ = word.partition(":")
    if separator:
        return is_provider(provider)
    router = client.config.router
    return word.lower() in bundled_aliases() or (router is not None and word in router.aliases)

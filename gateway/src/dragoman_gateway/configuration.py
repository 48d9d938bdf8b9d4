"""Finds the table ``[gateway]`` of dragoman.toml."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from dragoman import AsyncClient, ConfigurationError
from dragoman.configuration.file import (
    ConfigurationFile,
    find_configuration,
    is_trusted,
    load_configuration,
    read_configuration,
    untrusted_settings,
)
from dragoman_gateway.database import default_url
from dragoman_gateway.running.generation import Generation
from dragoman_gateway.running.state_keys import state_keys
from dragoman_gateway.settings import GatewaySettings

_VERSION = 12
"""Characters of the name of a version."""
MODEL_VARIABLE = "DRAGOMAN_GATEWAY_MODEL"
"""The model that answers for every other name: ``--model`` of `dragoman serve`, for its workers."""


def read_settings(path: Path | None = None) -> GatewaySettings:
    """Return the settings of the file, or of the one that applies; the defaults without any.

    They always name a database, which is the user's own if the file names none. The model of the command line is among
    them.
    """
    found = find_configuration() if path is None else (path,)
    settings = GatewaySettings() if found is None else _read_table(read_configuration(*found))
    changes: dict[str, Any] = {} if settings.database else {"database": default_url()}
    if model := os.environ.get(MODEL_VARIABLE):
        changes["models"] = {**settings.models, "*": model}
    return settings.model_copy(update=changes)


def check(file: ConfigurationFile) -> None:
    """Raise ConfigurationError for mistakes in the table, and in keys of the environment that seal state."""
    _read_table(file)
    state_keys()


def _read_table(file: ConfigurationFile) -> GatewaySettings:
    """Return the settings of a file. Raises ConfigurationError also if one that is not trusted decides where keys are
    sent, or what runs."""
    settings = GatewaySettings.from_table(file.tables.get("gateway", {}), file.path, file.line_of)
    if is_trusted(file):
        return settings
    deployments = [each for places in settings.models.values() if not isinstance(places, str) for each in places]
    if names := sorted({name for each in deployments for name in untrusted_settings(each.provider)}):
        raise ConfigurationError(
            f"{file.path} sets {', '.join(names)} of deployments, which decide where keys are sent and what runs: read "
            f"the file, and then run: dragoman config trust {file.path}"
        )
    return settings


def read_generation(path: Path | None = None, before: Generation | None = None) -> Generation:
    """Return what the configuration file describes. The store that the generation before has open stays open, if the
    file still names it. Raises ConfigurationError, also for keys of the environment that cannot be read."""
    state_keys()
    while True:
        version = _version_of(path)
        settings = load_configuration(path) or {}
        store = settings.get("store")
        kept = before if before is not None and store is not None and before.store_url == store else None
        if kept is not None:
            settings["store"] = kept.client.config.store
        client = AsyncClient(**settings)
        generation = Generation(
            read_settings(path), client, owns_client=True, version=version, kept=kept, store_url=store
        )
        if _version_of(path) == version:  # the file has not changed meanwhile
            return generation


def _version_of(path: Path | None) -> str:
    """Return a short name of the file's present content."""
    found = path or next(iter(find_configuration() or ()), None)
    return "none" if found is None else sha256(Path(found).read_bytes()).hexdigest()[:_VERSION]

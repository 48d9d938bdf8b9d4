"""Finds the table ``[gateway]`` of dragoman.toml."""

from pathlib import Path

from dragoman import AsyncClient
from dragoman.runtime.configuration import find_configuration, read_configuration
from dragoman_gateway.database.database import default_url
from dragoman_gateway.generation import Generation
from dragoman_gateway.settings import GatewaySettings


def read_settings(path: Path | None = None) -> GatewaySettings:
    """Return the settings of the file, or of the one that applies; the defaults without any.

    They always name a database.
    """
    if path is None:
        found = find_configuration()
        if found is None:
            return _with_database(GatewaySettings())
        file = read_configuration(*found)
    else:
        file = read_configuration(path)
    return _with_database(GatewaySettings.from_table(file.tables.get("gateway", {}), file.path))


def _with_database(settings: GatewaySettings) -> GatewaySettings:
    """Return the settings with the user's own database if they name none."""
    return settings if settings.database else settings.model_copy(update={"database": default_url()})


def read_generation(path: Path | None = None) -> Generation:
    """Return what the configuration file describes."""
    return Generation(read_settings(path), AsyncClient.from_config(path), owns_client=True)

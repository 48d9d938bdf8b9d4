"""The user's own endpoints: tables as in endpoints.toml, in a file of the user.

DRAGOMAN_ENDPOINTS names the file. The default is ``endpoints.toml`` in the platform's configuration folder of
``dragoman``. A table with the name of a built-in endpoint changes that endpoint.
"""

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from platformdirs import user_config_path

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import deep_merge
from dragoman_adapters.compatible.endpoint_row import Table, built_in_tables

VARIABLE = "DRAGOMAN_ENDPOINTS"


def find_user_file() -> Path | None:
    """Return the user's file; None if there is none. Raises ConfigurationError if a configured file does not exist."""
    if configured := os.environ.get(VARIABLE, "").strip():
        path = Path(configured).expanduser()
        if not path.is_file():
            raise ConfigurationError(f"{VARIABLE} names {path}, which is not a file")
        return path
    path = user_config_path("dragoman") / "endpoints.toml"
    return path if path.is_file() else None


def read_user_tables() -> Mapping[str, Table]:
    """Return the tables of the user's file. Raises ConfigurationError if it cannot be read."""
    path = find_user_file()
    return {} if path is None else _read_tables(path)


def all_tables() -> dict[str, Table]:
    """Return the built-in tables, with the user's additions and changes."""
    tables = dict(built_in_tables())
    for name, table in read_user_tables().items():
        tables[name] = deep_merge(tables.get(name, {}), table)
    return tables


def table_origin(name: str) -> str:
    """Return the file of a table, for errors."""
    return str(find_user_file()) if name in read_user_tables() else "endpoints.toml"


@cache
def _read_tables(path: Path) -> Mapping[str, Table]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"{path}: {name}: a file of endpoints has one table for each endpoint")
    return found

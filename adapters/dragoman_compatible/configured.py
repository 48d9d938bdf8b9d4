"""A user's own endpoints: tables as in endpoints.toml, in a file of the user's.

That is the file which DRAGOMAN_ENDPOINTS names, else ``endpoints.toml`` in the folder where the platform keeps
the configuration of ``dragoman``. A table under the name of a built-in endpoint changes what it says.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from platformdirs import user_config_path

from dragoman.adapter.capabilities import merged
from dragoman.adapter.errors import ConfigurationError
from dragoman_compatible.rows import Table, built_in, tables_of

VARIABLE = "DRAGOMAN_ENDPOINTS"


def file() -> Path | None:
    """The user's file; None where there is none. Raises ConfigurationError where one is named that is not there."""
    if named := os.environ.get(VARIABLE, "").strip():
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigurationError(f"{VARIABLE} names {path}, which is no file")
        return path
    path = user_config_path("dragoman") / "endpoints.toml"
    return path if path.is_file() else None


def own() -> Mapping[str, Table]:
    """The tables of the user's file. Raises ConfigurationError where it cannot be read."""
    path = file()
    return {} if path is None else _read(path)


def known() -> dict[str, Table]:
    """The built-in tables with what the user's file adds to them and changes in them."""
    tables = dict(built_in())
    for name, table in own().items():
        tables[name] = merged(tables.get(name, {}), table)
    return tables


def place(name: str) -> str:
    """Where a table stands, for errors."""
    return str(file()) if name in own() else "endpoints.toml"


@cache
def _read(path: Path) -> Mapping[str, Table]:
    return tables_of(path)

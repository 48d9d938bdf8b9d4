"""Older price tables: every version stays loadable, so that a figure can be computed again for ever.

A version is kept as one archive, ``<version>.zip``, of the table's files. Those of earlier releases come along in the
folder ``pricing/versions``; a program that must not depend on them keeps its own.
"""

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.bundled import bundled_path
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import PriceTable
from dragoman.pricing.table_files import INDEX

_CACHE_SIZE = 8
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}\+[0-9a-f]{8}")


def price_table(version: str | None = None, archive: Path | None = None) -> PriceTable:
    """The table that comes with the library, or the one whose ``version`` is given. Nothing is read before it is used.

    Older versions are looked for among those that come along, and in ``kept``: a folder of them as `keep` writes it,
    or one table, as an archive or as a folder of TOML files. Overlays are yours: load the version before the second
    ``+`` and lay yours over it again.

    Raises ConfigurationError where the version is not to be found, or is not what it says.
    """
    if version is None or version == _bundled_table().version:
        return _bundled_table()
    return _load_older(version, archive)


def cost(usage: TokenUsage, model: str, at: datetime | None = None, table: PriceTable | None = None) -> Usage:
    """The usage with its cost, by the bundled prices of this moment unless told otherwise.

    Raises TypeError where the first is no usage.
    """
    if not isinstance(usage, TokenUsage):
        raise TypeError(f"cost takes a usage and then its model, not a {type(usage).__name__} first")
    return (table or price_table()).price(model, usage, at or datetime.now(UTC))


def save_table(table: PriceTable, folder: Path) -> Path:
    """Writes the table into the folder, as ``<version>.zip``, and returns where. An overlay does not go with it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.base_version}.zip"
    path.write_bytes(table.pack())
    return path


def list_versions(archive: Path | None = None) -> tuple[str, ...]:
    """The versions that can be loaded, the bundled one last."""
    names = {path.stem for folder in _folders(archive) for path in folder.glob("*.zip")}
    return (*sorted(names - {_bundled_table().version}), _bundled_table().version)


@cache
def _bundled_table() -> PriceTable:
    return PriceTable(bundled_path("pricing"))


@lru_cache(_CACHE_SIZE)
def _load_older(version: str, archive: Path | None) -> PriceTable:
    paths = [] if archive is None else [archive]
    if _VERSION.fullmatch(version):
        paths += [path for folder in _folders(archive) for path in (folder / f"{version}.zip", folder / version)]
    paths = [path for path in paths if path.is_file() or (path / INDEX).is_file()]
    if not paths:
        raise ConfigurationError(
            f"the price table {version!r} is not here: known are {', '.join(list_versions(archive))}. "
            "Name the folder that you keep it in; for a table with an overlay, load the one below and lay it over again"
        )
    found = {table.version: table for table in map(PriceTable, paths)}
    if version not in found:
        raise ConfigurationError(f"{paths[0]} says that it is the price table {version}, but is {', '.join(found)}")
    return found[version]


def _folders(archive: Path | None) -> list[Path]:
    return [
        folder for folder in (archive, bundled_path("pricing") / "versions") if folder is not None and folder.is_dir()
    ]

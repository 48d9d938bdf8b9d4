"""Price table versions: every version stays loadable, so that a figure can be computed again at any time.

A version is stored as one archive, ``<version>.zip``, of the table's files. Those of earlier releases are bundled in
the folder ``pricing/versions``; a program that must not depend on them stores its own.
Source: docs/reference/pricing.md#versions.
"""

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import full_name
from dragoman.bundled import bundled_path
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import PriceTable
from dragoman.pricing.table_files import INDEX

_CACHE_SIZE = 8
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}\+[0-9a-f]{8}")


def price_table(version: str | None = None, archive: Path | None = None) -> PriceTable:
    """Return the bundled table, or the one with this ``version``. A provider's prices are read when they are first
    used.

    Older versions are searched among the bundled ones, and in ``archive``: a folder that `save_table` wrote, or one
    table, as a zip archive or as a folder of TOML files. Overlays are not stored: load the version before the second
    ``+`` and call `PriceTable.with_overlay` again.

    Raises ConfigurationError if the version is not found, or the content does not match it.
    """
    if version is None or version == _bundled_table().version:
        return _bundled_table()
    if version == _plain_table().version:
        return _plain_table()
    return _load_older(version, archive)


def cost(usage: TokenUsage, model: str, at: datetime | None = None, table: PriceTable | None = None) -> Usage:
    """Return the usage with its cost, by default with the current prices of the bundled table.

    Raises TypeError if the first argument is not a usage.
    """
    if not isinstance(usage, TokenUsage):
        raise TypeError(f"the first argument of cost must be a usage, not a {type(usage).__name__}")
    return (table or price_table()).price(full_name(model), usage, at or datetime.now(UTC))


def save_table(table: PriceTable, folder: Path) -> Path:
    """Write the table into the folder as ``<version>.zip``, without an overlay, and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.base_version}.zip"
    path.write_bytes(table.pack())
    return path


def list_versions(archive: Path | None = None) -> tuple[str, ...]:
    """Return the versions that can be loaded, the bundled one last."""
    names = {path.stem for folder in _folders(archive) for path in folder.glob("*.zip")} | {_plain_table().version}
    return (*sorted(names - {_bundled_table().version}), _bundled_table().version)


_update: Path | None = None


def set_update(path: Path | None) -> None:
    """Replace the update that the bundled table is used with; see `dragoman.pricing.use_update`."""
    global _update  # one for the process, like the table
    if path != _update:
        _update = path
        _updated_table.cache_clear()


def _bundled_table() -> PriceTable:
    return _plain_table() if _update is None else _updated_table()


@cache
def _plain_table() -> PriceTable:
    return PriceTable(bundled_path("pricing"))


@cache
def _updated_table() -> PriceTable:
    return PriceTable(bundled_path("pricing"), update=_update)


@lru_cache(_CACHE_SIZE)
def _load_older(version: str, archive: Path | None) -> PriceTable:
    paths = [] if archive is None else [archive]
    if _VERSION.fullmatch(version):
        paths += [path for folder in _folders(archive) for path in (folder / f"{version}.zip", folder / version)]
    paths = [path for path in paths if path.is_file() or (path / INDEX).is_file()]
    if not paths:
        raise ConfigurationError(
            f"the price table {version!r} is not found: known are {', '.join(list_versions(archive))}. "
            "Pass the folder that holds it as archive. An overlay is not stored: load the version before the second + "
            "and call with_overlay again"
        )
    found = {table.version: table for table in map(PriceTable, paths)}
    if version not in found:
        raise ConfigurationError(f"{paths[0]} is named as the price table {version}, but holds {', '.join(found)}")
    return found[version]


def _folders(archive: Path | None) -> list[Path]:
    return [
        folder for folder in (archive, bundled_path("pricing") / "versions") if folder is not None and folder.is_dir()
    ]

"""Older price tables: every version stays loadable, so that a figure can be computed again for ever.

A version is kept as one archive, ``<version>.zip``, of the table's files. Those of earlier releases come along in the
folder ``pricing/versions``; a program that must not depend on them keeps its own.
"""

import re
from functools import cache, lru_cache
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.bundled import bundled
from dragoman.pricing.folder import INDEX
from dragoman.pricing.table import PriceTable

_RECENT = 8
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}\+[0-9a-f]{8}")


def price_table(version: str | None = None, kept: Path | None = None) -> PriceTable:
    """The table that comes with the library, or the one whose ``version`` is given. Nothing is read before it is used.

    Older versions are looked for among those that come along, and in ``kept``: a folder of them as `keep` writes it,
    or one table, as an archive or as a folder of TOML files. Overlays are yours: load the version before the second
    ``+`` and lay yours over it again.

    Raises ConfigurationError where the version is not to be found, or is not what it says.
    """
    if version is None or version == _bundled().version:
        return _bundled()
    return _older(version, kept)


def keep(table: PriceTable, folder: Path) -> Path:
    """Writes the table into the folder, as ``<version>.zip``, and returns where. An overlay does not go with it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.base_version}.zip"
    path.write_bytes(table.packed())
    return path


def kept_versions(kept: Path | None = None) -> tuple[str, ...]:
    """The versions that can be loaded, the bundled one last."""
    names = {path.stem for folder in _folders(kept) for path in folder.glob("*.zip")}
    return (*sorted(names - {_bundled().version}), _bundled().version)


@cache
def _bundled() -> PriceTable:
    return PriceTable(bundled("pricing"))


@lru_cache(_RECENT)
def _older(version: str, kept: Path | None) -> PriceTable:
    places = [] if kept is None else [kept]
    if _VERSION.fullmatch(version):
        places += [path for folder in _folders(kept) for path in (folder / f"{version}.zip", folder / version)]
    places = [path for path in places if path.is_file() or (path / INDEX).is_file()]
    if not places:
        raise ConfigurationError(
            f"the price table {version!r} is not here: known are {', '.join(kept_versions(kept))}. "
            "Name the folder that you keep it in; for a table with an overlay, load the one below and lay it over again"
        )
    found = {table.version: table for table in map(PriceTable, places)}
    if version not in found:
        raise ConfigurationError(f"{places[0]} says that it is the price table {version}, but is {', '.join(found)}")
    return found[version]


def _folders(kept: Path | None) -> list[Path]:
    return [folder for folder in (kept, bundled("pricing") / "versions") if folder is not None and folder.is_dir()]

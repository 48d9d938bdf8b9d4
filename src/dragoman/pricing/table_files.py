"""The files of a price table: in a folder, in a zip archive of one, or in an adapter's package.

The entry-point group ``dragoman.prices`` names the package with the prices of a provider.
"""

import io
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo
from zipfile import Path as ZipPath

from dragoman.adapter.errors import ConfigurationError

INDEX = "index.toml"
OVERLAY = "overlay.toml"
UPDATE = "update.toml"

_MAX_BYTES = 64 * 1024 * 1024
"""Uncompressed; the bundled table has less than two megabytes."""
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that equal tables are equal archives."""
GROUP = "dragoman.prices"
_BUNDLED = "bundled"
"""The name of the table of this package, which is a function and not a folder."""


def open_folder(path: Path) -> Traversable:
    """Return the folder, or the content of the archive, which is read whole. Raises ConfigurationError."""
    if not path.is_file():
        return path
    try:
        archive = ZipFile(io.BytesIO(path.read_bytes()))
    except (OSError, BadZipFile, NotImplementedError) as error:
        raise _unreadable(path, error) from None
    if sum(info.file_size for info in archive.infolist()) > _MAX_BYTES:
        raise ConfigurationError(f"{path} holds more than {_MAX_BYTES} bytes: it is not a price table")
    archive.filename = str(path)
    return ZipPath(archive)


def list_files(folder: Traversable) -> dict[str, Traversable]:
    """Return the TOML files of a table by name, in alphabetical order. Raises ConfigurationError
    if there is no folder.
    """
    try:
        found = {path.name: path for path in folder.iterdir() if path.name.endswith(".toml")}
    except OSError as error:
        raise _unreadable(folder, error) from None
    return dict(sorted(found.items()))


def read_content(path: Traversable) -> bytes:
    """Return the bytes of a file, with the line ends that it was published with."""
    try:
        return path.read_bytes().replace(b"\r\n", b"\n")
    except (OSError, BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def read_toml(path: Traversable) -> dict[str, Any]:
    """Parse a file. Raises ConfigurationError."""
    try:
        return tomllib.loads(read_content(path).decode())
    except (ValueError, RecursionError) as error:  # invalid UTF-8, invalid TOML, integers with too many digits
        raise _unreadable(path, error) from None


def pack(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive of the files; the same files give the same bytes."""
    archive = io.BytesIO()
    with ZipFile(archive, "w") as writer:
        for name, data in sorted(contents.items()):
            info = ZipInfo(name, _ZIP_TIME)
            info.compress_type = ZIP_DEFLATED
            writer.writestr(info, data)
    return archive.getvalue()


def _unreadable(path: object, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"the price table cannot be read: {path}: {error!s:.400}")


@cache
def installed_folders() -> dict[str, str]:
    """Return the packages with prices by provider."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP) if entry.name != _BUNDLED}


def installed_file(provider: str) -> Traversable | None:
    """Return the provider's file in its package, which is named after the provider; None if no package has one.

    Raises ConfigurationError if a package promises the file and does not hold it.
    """
    package = installed_folders().get(provider)
    if package is None:
        return None
    try:
        path = files(package).joinpath(f"{provider}.toml")
        is_there = path.is_file()
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the prices of {provider!r} ({package}) cannot be loaded: {error}") from error
    if not is_there:
        raise ConfigurationError(f"{package}, installed with the prices of {provider!r}, holds no {provider}.toml")
    return path

"""Finds and reads the configuration file."""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from dragoman.adapter.errors import ConfigurationError
from dragoman.private_files import read_regular_file, replace_file

FILE_NAME = "dragoman.toml"
VARIABLE = "DRAGOMAN_CONFIG"


class Origin(StrEnum):
    """Where a configuration file comes from. Only a project's file has to be trusted first."""

    NAMED = "named"
    """The program or DRAGOMAN_CONFIG names it."""
    PROJECT = "project"
    """It is in the working folder or in one above."""
    USER = "user"
    """It is in the user's configuration folder."""


@dataclass(frozen=True, slots=True, repr=False)
class ConfigurationFile:
    """A configuration file as it is written. It has no repr: it may hold the address of a proxy with a password."""

    path: Path
    """Where the file is."""
    origin: Origin
    """How the file was found: it was named, or belongs to the user or to the project."""
    content: bytes
    """The bytes of the file."""
    tables: Mapping[str, Any]
    """The file's tables, parsed as TOML and not yet checked."""

    def line_of(self, place: tuple[str | int, ...]) -> int:
        """Return the line, from 1, of the key at that place, or of the nearest table above it."""
        # By its table's header and its name: TOML readers keep no positions.
        keys = [str(each) for each in place if isinstance(each, str)]
        numbers = [each for each in place if isinstance(each, int)]
        number, best, best_depth = numbers[0] if numbers else 0, 1, 0
        table: list[str] = []
        seen = -1
        for index, line in enumerate(self.content.decode().splitlines(), 1):
            text = line.strip()
            if text.startswith("["):
                header = text.strip("[]").split("]")[0]
                full = table = [part.strip().strip("\"'") for part in header.split(".")]
                if text.startswith("[[") and table == keys[:1]:
                    seen += 1
            elif "=" in text and not text.startswith("#"):
                full = [*table, *(part.strip().strip("\"'") for part in text.partition("=")[0].split("."))]
            else:
                continue
            is_element = not numbers or seen in (-1, number)
            if keys[: len(full)] == full and is_element and len(full) > best_depth:
                best, best_depth = index, len(full)
        return best


def find_configuration(
    folder: Path | None = None, *, environ: Mapping[str, str] = os.environ, user_folder: Path | None = None
) -> tuple[Path, Origin] | None:
    """Return the first of: the file that DRAGOMAN_CONFIG names, ``dragoman.toml`` in the folder (by default the working
    folder) or in one above, and ``dragoman.toml`` in the user's configuration folder. None if there is none.
    """
    if named := environ.get(VARIABLE, "").strip():
        return Path(named), Origin.NAMED
    start = (folder or Path.cwd()).resolve()
    for each in (start, *start.parents):
        if (candidate := each / FILE_NAME).is_file():
            return candidate, Origin.PROJECT
    candidate = (user_folder or user_config_path("dragoman")) / FILE_NAME
    return (candidate, Origin.USER) if candidate.is_file() else None


def read_configuration(path: Path, origin: Origin = Origin.NAMED) -> ConfigurationFile:
    """Read a configuration file. Raises ConfigurationError if it cannot be read, or is not TOML in UTF-8."""
    try:
        content = read_regular_file(path, "it is not configuration")
        tables = tomllib.loads(content.decode())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not in UTF-8: byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    return ConfigurationFile(path, origin, content, tables)


_TRUSTED_NAME = "trusted.json"


def is_trusted(file: ConfigurationFile, *, user_folder: Path | None = None) -> bool:
    """Whether everything in the file takes effect: always, unless it is a project's and was not trusted as it is."""
    if file.origin is not Origin.PROJECT:
        return True
    return _read_trusted(user_folder).get(str(file.path.resolve())) == _digest(file)


def trust(file: ConfigurationFile, *, user_folder: Path | None = None) -> None:
    """Trust a file as it is now. Raises ConfigurationError if that cannot be written down."""
    folder = user_folder or user_config_path("dragoman")
    trusted = {**_read_trusted(user_folder), str(file.path.resolve()): _digest(file)}
    try:
        replace_file(folder / _TRUSTED_NAME, json.dumps(trusted, indent=2, sort_keys=True))
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error.strerror or type(error).__name__}") from None


def _digest(file: ConfigurationFile) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _read_trusted(user_folder: Path | None) -> dict[str, str]:
    path = (user_folder or user_config_path("dragoman")) / _TRUSTED_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # some services have a home that is not a folder
        return {}
    except (OSError, ValueError):
        raise ConfigurationError(f"{path} cannot be read: remove it, and trust your projects again") from None
    return found if isinstance(found, dict) else {}

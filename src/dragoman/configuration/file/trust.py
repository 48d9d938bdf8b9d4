"""Trust in a project's configuration file: a cloned repository must not redirect a user's key or run its code.

A trusted file is known by its path and the SHA-256 of its content, so that a change has to be trusted again.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path

from platformdirs import user_config_path

from dragoman.adapter.errors import ConfigurationError
from dragoman.configuration.file.files import ConfigurationFile, Origin
from dragoman.private_files import create_private_folder

FILE_NAME = "trusted.json"


def is_trusted(file: ConfigurationFile, *, user_folder: Path | None = None) -> bool:
    """Whether everything in the file takes effect: always, unless it is a project's and was not trusted as it is."""
    if file.origin is not Origin.PROJECT:
        return True
    return _read(user_folder).get(str(file.path.resolve())) == _digest(file)


def trust(file: ConfigurationFile, *, user_folder: Path | None = None) -> None:
    """Trust a file as it is now. Raises ConfigurationError if that cannot be written down."""
    folder = user_folder or user_config_path("dragoman")
    trusted = {**_read(user_folder), str(file.path.resolve()): _digest(file)}
    try:
        create_private_folder(folder)
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".trusted-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            json.dump(trusted, written, indent=2, sort_keys=True)
        Path(name).replace(folder / FILE_NAME)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error.strerror or type(error).__name__}") from None


def _digest(file: ConfigurationFile) -> str:
    return hashlib.sha256(file.content).hexdigest()


def _read(user_folder: Path | None) -> dict[str, str]:
    path = (user_folder or user_config_path("dragoman")) / FILE_NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # some services have a home that is not a folder
        return {}
    except (OSError, ValueError):
        raise ConfigurationError(f"{path} cannot be read: remove it, and trust your projects again") from None
    return found if isinstance(found, dict) else {}

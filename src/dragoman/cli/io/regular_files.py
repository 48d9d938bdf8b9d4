"""Reads files that a command is given. Folders and devices are refused: some devices never end."""

import os
import stat
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError


def check_regular(path: Path) -> None:
    """Raise ConfigurationError if the path is not a file, before anything of it is read."""
    if path.is_file():
        return
    if not path.exists():
        raise ConfigurationError(f"there is no file {str(path)!r}")
    kind = "a folder" if path.is_dir() else "a device or pipe"
    raise ConfigurationError(f"{str(path)!r} is {kind}, not a file")


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file. Raises ConfigurationError if it is not a file, cannot be read or is larger."""
    check_regular(path)
    try:
        # If a pipe replaces the file between the check and this, opening it must not wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigurationError(f"{str(path)!r} is a device or pipe, not a file")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > max_bytes:
        raise ConfigurationError(f"{str(path)!r} is larger than {max_bytes:,} bytes")
    return content

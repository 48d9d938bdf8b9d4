"""Reads files that hold secrets, and warns about those that other users can read."""

import os
import stat
from functools import lru_cache
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger
from dragoman.private_files import is_shared

_log = get_logger("dragoman.credentials")
_MAX_BYTES = 1024 * 1024


def read_secret(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigurationError, which never shows it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigurationError(f"{path} is not a regular file")
            content = file.read(_MAX_BYTES + 1)
        warn_if_shared(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path} is larger than {_MAX_BYTES:,} bytes: it holds no credentials")
    return content


@lru_cache(maxsize=64)
def warn_if_shared(path: Path) -> None:
    """Log a warning, once, if other users can read a file. Raises OSError if there is no such file."""
    if is_shared(path):
        _log.warning("other users can read %s, which holds credentials: run chmod 600", path)

"""Files and folders that hold conversations or keys: only their owner may read what is created here, and reading one
with keys warns if others can.

Files and folders that exist already keep their rights: somebody may have shared them on purpose. `dragoman doctor`
names those that others can read. On Windows, a new file has the rights of its folder.
"""

import os
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH
_log = get_logger("dragoman.credentials")
_MAX_BYTES = 1024 * 1024


def create_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing. Raises OSError."""
    # Path.mkdir gives missing parents the usual rights, whatever its mode.
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(_FOLDER_MODE, exist_ok=True)
    folder.mkdir(_FOLDER_MODE, exist_ok=True)  # raises FileExistsError if it is a file


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `open` does: pass it as ``opener``."""
    return os.open(path, flags, _FILE_MODE)


def replace_file(path: Path, content: str, *, keep_rights: bool = False) -> None:
    """Replace a file as a whole, for its owner only, or with the rights that it had. Nothing is left beside it if that
    fails. Raises OSError."""
    create_private_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep_rights and path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_shared(path: Path) -> bool:
    """Whether other users can read a file: by its own rights, and by those of its folder. Raises OSError."""
    if os.name != "posix":
        return False
    return bool(path.stat().st_mode & _READ_BY_OTHERS and path.parent.stat().st_mode & _ENTERED_BY_OTHERS)


def read_regular_file(path: Path, otherwise: str) -> bytes:
    """Return the content of a file. A device or a pipe could be endless, and opening one could wait.

    Raises OSError, and ConfigurationError for one that is not a regular file, and for one of more than 1 MiB, of which
    the error says what it is ``otherwise``.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ConfigurationError(f"{path} is not a regular file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path} is larger than {_MAX_BYTES:,} bytes: {otherwise}")
    return content


def read_secret(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigurationError, which never shows it."""
    try:
        content = read_regular_file(path, "it holds no credentials")
        warn_if_shared(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    return content


@lru_cache(maxsize=64)
def warn_if_shared(path: Path) -> None:
    """Log a warning, once, if other users can read a file. Raises OSError if there is no such file."""
    if is_shared(path):
        _log.warning("other users can read %s, which holds credentials: run chmod 600", path)

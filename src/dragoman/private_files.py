"""Files and folders that hold conversations or keys: only their owner may read what is created here.

Files and folders that exist already keep their rights: somebody may have shared them on purpose. `dragoman doctor`
names those that others can read. On Windows, a new file has the rights of its folder.
"""

import os
import stat
from pathlib import Path

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_ENTERED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH


def create_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing. Raises OSError."""
    # Path.mkdir gives missing parents the usual rights, whatever its mode.
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(_FOLDER_MODE, exist_ok=True)
    folder.mkdir(_FOLDER_MODE, exist_ok=True)  # raises FileExistsError if it is a file


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `open` does: pass it as ``opener``."""
    return os.open(path, flags, _FILE_MODE)


def is_shared(path: Path) -> bool:
    """Whether other users can read a file: by its own rights, and by those of its folder. Raises OSError."""
    if os.name != "posix":
        return False
    return bool(path.stat().st_mode & _READ_BY_OTHERS and path.parent.stat().st_mode & _ENTERED_BY_OTHERS)

"""Refuses folders and devices: some devices never end."""

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

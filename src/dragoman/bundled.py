"""Finds the data folders of the library: ``pricing`` and ``cassettes``."""

from pathlib import Path

from dragoman.adapter.errors import ConfigurationError

_PACKAGE = Path(__file__).parent


def bundled_path(name: str) -> Path:
    """Return the folder of that name: inside the installed package, or at the root of a checkout.

    Raises ConfigurationError if neither exists.
    """
    installed = _PACKAGE / "_bundled" / name
    checkout = _PACKAGE.parent.parent
    if installed.is_dir():
        return installed
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise ConfigurationError(
        f"the data folder {name!r} is missing: it is neither at {installed} nor at the root of a checkout. "
        "Install dragoman again from its wheel, or run it from a complete checkout."
    )

"""Prices that an adapter's package brings: the entry-point group ``dragoman.prices`` names their folder by provider."""

from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable

from dragoman.adapter.errors import ConfigurationError

GROUP = "dragoman.prices"
_BUNDLED = "bundled"
"""The name of the table of this package, which is a function and not a folder."""


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

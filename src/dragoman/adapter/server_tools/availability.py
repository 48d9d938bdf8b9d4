"""Finds the providers that have a server tool, for error messages. The registry knows all adapters."""

from collections.abc import Callable

_lookups: list[Callable[[str], tuple[str, ...]]] = []


def register_lookup(lookup: Callable[[str], tuple[str, ...]]) -> None:
    """Register the function that returns the providers with a tool, by the tool's name in the tables."""
    _lookups[:] = [lookup]


def providers_with(word: str) -> tuple[str, ...]:
    """Return the providers that have the tool for some model; none if no registry is loaded."""
    return _lookups[0](word) if _lookups else ()

"""Adapters beyond the installed ones: those that a program registers, and those of a user's configuration.

A package that makes adapters from a configuration registers a callable under the entry-point group
``dragoman.adapter_sources``; it returns adapters by provider name, and is asked only for names that nothing else knows.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError

GROUP = "dragoman.adapter_sources"

AdapterKind = type[Adapter] | Callable[[], type[Adapter]]
"""An adapter's class, or what makes it when it is first needed."""

AdapterSource = Callable[[], Mapping[str, AdapterKind]]

_registered: dict[str, AdapterKind] = {}


def register(name: str, adapter: AdapterKind) -> None:
    """Makes an adapter known in this process, in place of what was registered under the name before."""
    _registered[name] = adapter


def extra_adapters() -> dict[str, AdapterKind]:
    """All adapters by name; what a program registers stands before what is configured.

    Raises ConfigurationError where a configuration cannot be read.
    """
    configured: dict[str, AdapterKind] = {}
    for source in _load_sources():
        configured |= source()
    return configured | _registered


@cache
def _load_sources() -> tuple[AdapterSource, ...]:
    found: list[AdapterSource] = []
    for entry in entry_points(group=GROUP):
        try:
            found.append(entry.load())
        except Exception as error:
            raise ConfigurationError(f"the adapters of {entry.value} cannot be loaded: {error}") from error
    return tuple(found)

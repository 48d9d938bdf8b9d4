"""Adapters that are not installed: registered by the program, or named in the user's configuration.

A package that makes adapters from a configuration registers a callable under the entry-point group
``dragoman.adapter_sources``. It returns adapters by provider name, and is called only for names that are unknown.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError

GROUP = "dragoman.adapter_sources"

AdapterKind = type[Adapter] | Callable[[], type[Adapter]]
"""An adapter class, or a callable that returns one when it is first needed."""

AdapterSource = Callable[[], Mapping[str, AdapterKind]]

_registered: dict[str, AdapterKind] = {}


def register(name: str, adapter: AdapterKind) -> None:
    """Register an adapter in this process. It replaces an earlier one of that name."""
    _registered[name] = adapter


def extra_adapters() -> dict[str, AdapterKind]:
    """Return all of these adapters by name. Registered ones override configured ones.

    Raises ConfigurationError if a configuration cannot be read.
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

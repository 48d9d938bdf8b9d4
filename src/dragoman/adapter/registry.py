"""Adapters by name. They are found through the entry-point group ``dragoman.adapters``, ours and others' alike."""

import difflib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.canonical.ids import ModelId

GROUP = "dragoman.adapters"


def get_adapter(model: str) -> Adapter:
    """The adapter for ``provider:model``.

    Raises UnknownProviderError, with the nearest names, where no such provider is installed or the id is malformed.
    """
    try:
        provider, name = ModelId.parse(model)
    except ValueError as error:
        raise UnknownProviderError(str(error)) from None
    return adapter_class(provider)(name)


def providers() -> tuple[str, ...]:
    """The names of all installed providers, sorted."""
    return tuple(sorted(_entries()))


@cache
def adapter_class(provider: str) -> type[Adapter]:
    """The class behind a provider's name.

    Raises UnknownProviderError, and ConfigurationError where what is installed under the name is no adapter.
    """
    entry = _entries().get(provider)
    if entry is None:
        raise UnknownProviderError(_unknown(provider, _entries()))
    try:
        found = entry.load()
    except Exception as error:
        raise ConfigurationError(f"the adapter {provider!r} ({entry.value}) cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise ConfigurationError(f"{entry.value}, installed as the adapter {provider!r}, is no Adapter class")
    return found


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _unknown(provider: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(provider.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"installed are: {', '.join(names)}"
    return f"no provider {provider!r}: {hint}"

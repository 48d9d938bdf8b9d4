"""Adapters by name. All of them, third parties' included, are found through the entry points ``dragoman.adapters``.

Others are registered by the program (`register_adapter`), or named in the user's configuration: a package that makes
adapters from a configuration registers a callable under the entry-point group ``dragoman.adapter_sources``. It returns
adapters by provider name, and is called only for names that are unknown.
"""

import difflib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.names import bundled_aliases, model_instead
from dragoman.adapter.server_tools.table import register_lookup
from dragoman.canonical.ids import ModelId
from dragoman.canonical.log import get_logger

GROUP = "dragoman.adapters"
SOURCES_GROUP = "dragoman.adapter_sources"

AdapterKind = type[Adapter] | Callable[[], type[Adapter]]
"""An adapter class, or a callable that returns one when it is first needed."""

AdapterSource = Callable[[], Mapping[str, AdapterKind]]

logger = get_logger("dragoman.adapter")

_registered: dict[str, AdapterKind] = {}


def get_adapter(model: str) -> Adapter:
    """Return the adapter for ``provider:model``, or for an alias such as ``sonnet``.

    Raises UnknownProviderError, with what to write, if the provider is not installed or the id is malformed.
    """
    provider, name = parse_model(model)
    try:
        return adapter_class(provider)(name)
    except UnknownProviderError as error:
        raise _with_model(error, model) from None


def parse_model(model: str, aliases: Mapping[str, str] | None = None) -> ModelId:
    """Return the id of a model, which may be given by an alias: one of ``aliases``, in lower case, or a bundled one.

    Raises UnknownProviderError, with what to write, if the text is neither.
    """
    if isinstance(model, str) and ":" not in model:
        short = model.lower()
        known = bundled_aliases() if aliases is None else {**bundled_aliases(), **aliases}
        if short in known:
            return ModelId.parse(known[short])
        close = difflib.get_close_matches(short[:64], sorted(known), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "write it as 'provider:model'"
        error = UnknownProviderError(f"{model!r:.80} is neither a model id nor an alias of one: {hint}")
        raise _with_model(error, model)
    try:
        return ModelId.parse(model)
    except ValueError as error:
        raise UnknownProviderError(str(error)) from None


def providers() -> tuple[str, ...]:
    """Return the names of all providers, sorted."""
    return tuple(sorted({*_entries(), *_extra_adapters()}))


def is_provider(name: str) -> bool:
    """Whether there is a provider of that name."""
    return name in _entries() or name in _extra_adapters()


def register_adapter(name: str, adapter: AdapterKind) -> None:
    """Register a provider in this process. It replaces one that was registered under that name before.

    The logger ``dragoman.adapter`` warns of a class whose table of models declares nothing: defaults hold for all of
    them.

    Raises ConfigurationError if a provider of that name is installed: its key must not go elsewhere.
    """
    if name in _entries():
        raise ConfigurationError(f"the provider {name!r} is installed: choose another name")
    if isinstance(models := getattr(adapter, "models", None), ModelTable) and models.is_empty:
        logger.warning("the adapter %r declares nothing about its models: all of them get the defaults", name)
    _registered[name] = adapter
    adapter_class.cache_clear()


@cache
def adapter_class(provider: str) -> type[Adapter]:
    """Return the adapter class of a provider.

    Raises UnknownProviderError, and ConfigurationError if the registered object is not an adapter.
    """
    if entry := _entries().get(provider):
        return _load_adapter_class(provider, entry.value, entry.load)
    known = _extra_adapters()
    if provider not in known:
        names = sorted({*_entries(), *known})
        close = difflib.get_close_matches(provider.lower(), names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"installed are: {', '.join(names)}"
        raise UnknownProviderError(f"no provider {provider!r:.200}: {hint}")
    adapter = known[provider]
    return _load_adapter_class(provider, repr(adapter), lambda: adapter if isinstance(adapter, type) else adapter())


def _load_adapter_class(provider: str, place: str, load: Callable[[], Any]) -> type[Adapter]:
    try:
        found = load()
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"the adapter {provider!r} ({place}) cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise ConfigurationError(f"{place}, installed as the adapter {provider!r}, is not an Adapter class")
    return found


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _extra_adapters() -> dict[str, AdapterKind]:
    """Return the adapters that are not installed, by name. Registered ones override configured ones.

    Raises ConfigurationError if a configuration cannot be read.
    """
    configured: dict[str, AdapterKind] = {}
    for source in _load_sources():
        configured |= source()
    return configured | _registered


@cache
def _load_sources() -> tuple[AdapterSource, ...]:
    found: list[AdapterSource] = []
    for entry in entry_points(group=SOURCES_GROUP):
        try:
            found.append(entry.load())
        except Exception as error:
            raise ConfigurationError(f"the adapters of {entry.value} cannot be loaded: {error}") from error
    return tuple(found)


def _with_model(error: UnknownProviderError, model: str) -> UnknownProviderError:
    """Return the error with the model id to write, if the name is that of another library."""
    written = model_instead(model)
    if written is None:
        return error
    return UnknownProviderError(f"{model!r:.80} is not a model id: write {written!r:.200}")


register_lookup(lambda word: tuple(name for name in providers() if word in adapter_class(name).server_tools.rows))

"""The options of a request that were used. An option that is not taken becomes a loss automatically."""

from collections.abc import Collection
from dataclasses import fields
from operator import attrgetter
from typing import Any

from dragoman.adapter.options import AdapterOptions

_FOR_THE_CONTRACT = frozenset({"strict_prefix", "stream", "headers", "extra", "context"})
"""Options that say how the request is built and sent. They do not concern the model."""

_EMPTY: tuple[Any, ...] = ((), [], {}, "")
"""Values that mean, as None does, that an option is not set."""


class UsedOptions:
    """The options of one request, and the names of those that are set and were not taken so far."""

    __slots__ = ("_options", "left")

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        defaults, read = _defaults_of(type(options))
        values = zip(defaults, read(options), strict=True)
        self.left = {name for name, value in values if value is not None and value not in _EMPTY}
        """The names of those that are set and were not taken so far."""

    def take(self, name: str) -> Any:
        """Return the value of an option. The caller sends it, or records why not."""
        self.left.discard(name)
        return getattr(self._options, name)

    def take_set(self, names: Collection[str]) -> list[str]:
        """Take the named options. Returns the names of those that are set and were not taken before."""
        left = self.left
        if not left or left.isdisjoint(names):
            return []
        found = [name for name in names if name in left]
        left.difference_update(found)
        return found

    def take_rest(self) -> list[str]:
        """Take all options that were not taken. Returns the names of those that are set."""
        options = self._options
        defaults, _ = _defaults_of(type(options))
        return [name for name in self.take_set(defaults) if getattr(options, name) != defaults[name]]


_DEFAULTS: dict[type[AdapterOptions], tuple[dict[str, Any], "attrgetter[Any]"]] = {}


def _defaults_of(kind: type[AdapterOptions]) -> tuple[dict[str, Any], "attrgetter[Any]"]:
    """Return the options for the model that a class has, with their defaults, and what reads all of them at once."""
    if kind not in _DEFAULTS:
        defaults = {field.name: field.default for field in fields(kind) if field.name not in _FOR_THE_CONTRACT}
        _DEFAULTS[kind] = defaults, attrgetter(*defaults)
    return _DEFAULTS[kind]

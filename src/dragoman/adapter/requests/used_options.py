"""The options of a request that were used. An option that is not taken becomes a loss automatically."""

from collections.abc import Collection
from typing import Any

from dragoman.adapter.options import AdapterOptions, given_names

_EMPTY: tuple[Any, ...] = ((), [], {}, "")
"""Values that mean, as None does, that an option is not set."""


class UsedOptions:
    """The options of one request, and the names of those that are set and were not taken so far."""

    __slots__ = ("_names", "_options", "left")

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        self._names = given_names(options)
        self.left = set(self._names)
        """The names of those that are set and were not taken so far."""
        for name in self._names:
            if getattr(options, name) in _EMPTY:
                self.left.discard(name)

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
        fields = options.__dataclass_fields__
        return [name for name in self.take_set(self._names) if getattr(options, name) != fields[name].default]

"""The classes of a provider's errors by what its replies say: ``errors.toml`` of the adapter's package."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from dragoman.adapter import errors
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.package_data import read_toml


class ErrorTable:
    """Each part of the file is about one thing that a reply says, such as its code, and lists words by the name of the
    class. It is read when the first error comes."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def _parts(self) -> Mapping[str, Mapping[str, type[ProviderError]]]:
        return {
            part: {word: getattr(errors, name) for name, words in rows.items() for word in words}
            for part, rows in read_toml(self._package, "errors.toml").items()
        }

    def find(self, part: str, word: Any) -> type[ProviderError] | None:
        """Return the class of a code, a type or a status; None if the part does not list it."""
        return self._parts[part].get(str(word))

    def find_phrase(self, text: str) -> type[ProviderError] | None:
        """Return the class of the first of the ``phrases`` that a message holds; None if it holds none."""
        lowered = text.lower()
        return next((kind for phrase, kind in self._parts["phrases"].items() if phrase in lowered), None)
